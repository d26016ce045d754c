package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/history"
)

// feed is a record that grows. All who follow it share the batches.
type feed struct {
	others
	ended chan error // of those who follow it

	mu      sync.Mutex
	batches []*history.Batch
	grown   chan struct{}
}

func newFeed(w *world) *feed {
	return &feed{others: others{w}, ended: make(chan error, 1000), grown: make(chan struct{})}
}

func (f *feed) add(batches ...*history.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, batches...)
	close(f.grown)
	f.grown = make(chan struct{})
}

func (f *feed) Follow(ctx context.Context, _ *ledger.Seq, emit func(*history.Batch) error) (err error) {
	defer func() { f.ended <- err }()
	for sent := 0; ; {
		f.mu.Lock()
		batches, grown := f.batches[sent:], f.grown
		f.mu.Unlock()
		for _, b := range batches {
			if err := emit(b); err != nil {
				return err
			}
			sent++
		}
		if len(batches) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// large makes a batch of one event with a text of a size.
func large(seq, size int) *history.Batch {
	return &history.Batch{Events: []history.AuditEvent{{Seq: ledger.Seq(seq), Event: "operator_action", Status: "recorded", Target: strings.Repeat("x", size)}}}
}

// openStream asks for an event stream at the record. It stays open until the test ends.
func openStream(t *testing.T, base, token string) (status int, body *bufio.Reader) {
	t.Helper()
	r := request(within(t), t, http.MethodGet, base+"/v1/events", "")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.StatusCode, bufio.NewReader(res.Body)
}

// opened is openStream where there must be one.
func opened(t *testing.T, base, token string) *bufio.Reader {
	t.Helper()
	status, body := openStream(t, base, token)
	if status != http.StatusOK {
		t.Fatal(status)
	}
	return body
}

// readTo reads a stream up to an event, and reports the first that is missing before it.
func readTo(body *bufio.Reader, last int) error {
	for next := 1; next <= last; {
		line, err := body.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // a long event
			line, err = body.ReadSlice('\n')
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", next, err)
		}
		if id, ok := strings.CutPrefix(string(line), "id: "); ok {
			if strings.TrimSpace(id) != fmt.Sprint(next) {
				return fmt.Errorf("event %s comes, want %d", id, next)
			}
			next++
		}
	}
	return nil
}

// TestManyStreamsEncodeAnEventOnce: what streams of different grants share is encoded once. Each
// further encoding would take memory of the event's size.
func TestManyStreamsEncodeAnEventOnce(t *testing.T) {
	const streams, events, size = 40, 4, 128 << 10
	w := newWorld()
	w.caller("bob", "user:bob", "*")
	f := newFeed(w)
	base, _ := serve(t, server(t, w, func(o *httpapi.Options) { o.Audit = f }))
	var all []*bufio.Reader
	for i := range streams {
		all = append(all, opened(t, base, []string{"admin", "bob"}[i%2]))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range events {
		f.add(large(i+1, size))
	}
	var readers sync.WaitGroup
	for _, body := range all {
		readers.Go(func() {
			if err := readTo(body, events); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > streams*events*size/4 {
		t.Errorf("%d streams of %d events with %d bytes allocate %d bytes", streams, events, size, used)
	}
}

const unreadEvents = 32 // of 1 MiB each: far more than sockets keep

// TestAStreamThatIsNotReadDelaysNobody: others get every event although a client reads nothing. Here
// it is not cut, so nobody could wait for that.
func TestAStreamThatIsNotReadDelaysNobody(t *testing.T) {
	f := newFeed(newWorld())
	base, _ := serve(t, server(t, f.w, func(o *httpapi.Options) { o.Audit, o.Limits.Write = f, time.Hour }))
	stuck := unreadStream(t, base)
	var readers sync.WaitGroup
	for range 3 {
		body := opened(t, base, "admin")
		readers.Go(func() {
			if err := readTo(body, unreadEvents); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range unreadEvents {
		f.add(large(i+1, 1<<20))
	}
	readers.Wait()
	_ = stuck.Close()
}

// TestAStreamThatIsNotReadIsCut: a client has a time to read each part of a stream.
func TestAStreamThatIsNotReadIsCut(t *testing.T) {
	f := newFeed(newWorld())
	base, _ := serve(t, server(t, f.w, func(o *httpapi.Options) { o.Audit, o.Limits.Write = f, time.Second }))
	unreadStream(t, base)
	for i := range unreadEvents {
		f.add(large(i+1, 1<<20))
	}
	if err := <-f.ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ends with %v", err)
	}
}

// unreadStream opens an event stream and reads only the beginning of the response.
func unreadStream(t *testing.T, base string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")) //nolint:noctx // the server is of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "GET /v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer admin\r\n\r\n", strings.TrimPrefix(base, "http://")); err != nil {
		t.Fatal(err)
	}
	begun := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, begun); err != nil || string(begun) != "HTTP/1.1 200" {
		t.Fatalf("%q, %v", begun, err)
	}
	return c
}

// TestStreamsAreOfPersons: a person has one share of the streams, be it with one root grant or with
// several. Whoever comes next has one too.
func TestStreamsAreOfPersons(t *testing.T) {
	const streams = 16
	shares := []int{8, 4, 2} // half of what is free
	for persons := 1; persons <= len(shares); persons++ {
		for _, tokens := range []int{1, 3, 20} {
			f := newFeed(newWorld())
			f.add(large(1, 1)) // so that each response begins at once
			name := func(person, token int) string { return fmt.Sprintf("p%d-%d", person, token) }
			for person := range persons {
				for token := range tokens {
					f.w.caller(name(person, token), fmt.Sprintf("user:p%d", person), "*")
				}
			}
			base, _ := serve(t, server(t, f.w, func(o *httpapi.Options) { o.Audit, o.Limits.Streams = f, streams }))
			for person := range persons {
				open := 0
				for i := range 20 {
					if status, _ := openStream(t, base, name(person, i%tokens)); status == http.StatusOK {
						open++
					}
				}
				if open != shares[person] {
					t.Errorf("%d persons with %d root grants each: person %d has %d streams, want %d", persons, tokens, person, open, shares[person])
				}
			}
			if status, _ := openStream(t, base, "admin"); status != http.StatusOK {
				t.Errorf("%d persons with %d root grants each: another one has no stream: %d", persons, tokens, status)
			}
		}
	}
}
