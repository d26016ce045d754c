package httpapi_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/store"
)

// Narrowing a grant offline, which nobody can see, gives nobody more of anything: what
// a root grant's holder may use up is counted for all that derive from it together.
func TestLimitsAreOfTheRootGrantToo(t *testing.T) {
	leaves := func(w *world) {
		for i := range 12 {
			token := fmt.Sprintf("leaf%d", i)
			w.caller(token, "user:bob", "*")
			w.callers[token].Root = "grant-bob"
		}
	}
	t.Run("requests", func(t *testing.T) {
		w := newWorld()
		leaves(w)
		s := server(t, w, func(o *httpapi.Options) { o.Limits.Rate, o.Limits.Burst = 0.001, 5 })
		for i := range 12 {
			want := 200
			if i >= 5 {
				want = 429
			}
			wantStatus(t, get("/v1/agents").as(fmt.Sprintf("leaf%d", i)).of(s), want)
		}
		wantStatus(t, get("/v1/agents").of(s), 200)
	})
	t.Run("requests at all processes", func(t *testing.T) {
		w, left, down := newWorld(), 3, error(nil)
		leaves(w)
		take := func(_ context.Context, _ [32]byte, b store.Bucket, want int) (int, time.Duration, error) {
			if b.Each != 15 || want != 1 {
				t.Errorf("%d requests are taken of %+v", want, b)
			}
			if left == 0 {
				return 0, 1500 * time.Millisecond, down
			}
			left--
			return 1, 0, nil
		}
		s := server(t, w, func(o *httpapi.Options) { o.Limits.Rate, o.TakeRequests = 15, take })
		wantStatus(t, get("/v1/agents").as("leaf0").of(s), 200) // the root's bucket and its own
		rec := get("/v1/agents").as("leaf1").of(s)
		if wantStatus(t, rec, 429); rec.Header().Get("Retry-After") != "2" {
			t.Errorf("Retry-After: %q", rec.Header().Get("Retry-After"))
		}
		down = fault.New(fault.StoreFailed, "the ledger is away")
		if rec := get("/v1/agents").as("leaf2").of(s); rec.Code < 500 {
			t.Errorf("without a ledger: %d", rec.Code)
		}
		left = 0
		s = server(t, w, func(o *httpapi.Options) { o.Limits.Rate, o.TakeRequests = 0, take })
		wantStatus(t, get("/v1/agents").as("leaf0").of(s), 200) // without a rate, no bucket is shared
	})
	t.Run("kept answers", func(t *testing.T) {
		w, n := newWorld(), &notes{all: map[string]store.RequestRecord{}}
		leaves(w)
		s := server(t, w, func(o *httpapi.Options) { o.Limits.Remembered, o.Requests = 8, n })
		mine := post("/v1/agents", `{"name":"a"}`).with("Idempotency-Key", "k")
		wantStatus(t, mine.of(s), 201)
		for i := range 12 {
			a := post("/v1/agents", `{"name":"a"}`).with("Idempotency-Key", "k").as(fmt.Sprintf("leaf%d", i))
			if rec := a.of(s); rec.Code != 201 || rec.Header().Get("Idempotency-Replayed") != "" {
				t.Fatalf("leaf %d with a key that another one used: %d %v", i, rec.Code, rec.Header())
			}
		}
		if rec := mine.of(s); rec.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("another root's answer was pushed out: %d", rec.Code)
		}
		roots := map[string]int{}
		for _, k := range n.all {
			roots[k.Holder]++
		}
		if roots["grant-bob"] != 12 || roots["grant-admin"] != 1 {
			t.Errorf("the ledger counts the requests for %v", roots)
		}
	})
	t.Run("streams", func(t *testing.T) {
		w := newWorld()
		leaves(w)
		s := server(t, w, func(o *httpapi.Options) { o.Limits.Streams = 4 })
		base, _ := serve(t, s)
		_, id := agentAndSession(t, s, "leaf0", base)
		for i := range 2 {
			r := request(within(t), t, "GET", base+"/v1/sessions/"+id+"/events", "")
			r.Header.Set("Authorization", fmt.Sprintf("Bearer leaf%d", i))
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != 200 {
				t.Fatalf("stream %d: %s", i, res.Status)
			}
		}
		wantStatus(t, get("/v1/sessions/"+id+"/events").as("leaf2").on(base).of(s), 503)
	})
}

// At overload a request is refused before it has any effect, with the time after which to come
// again. One root grant cannot take the places of all others.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	w := newWorld()
	w.caller("bob", "user:bob", "*")
	running, end := make(chan struct{}), make(chan struct{})
	invoked := 0
	w.invoking = func() { // the two tools that get here run one after the other
		invoked++
		running <- struct{}{}
		<-end
	}
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Requests = 4 })
	invoke := post("/v1/tools/time.now/invoke", `{"wait":60}`) // no answer is needed: it does not wait
	done := make(chan int)
	for range 2 { // half of four
		go func() { done <- invoke.of(s).Code }()
		<-running
	}
	for range 3 {
		rec := invoke.of(s)
		wantStatus(t, rec, 503)
		if rec.Header().Get("Retry-After") == "" {
			t.Error("no time after which to come again")
		}
	}
	if invoked != 2 {
		t.Errorf("%d tools ran, want 2: a refused request had an effect", invoked)
	}
	wantStatus(t, get("/v1/agents").of(s), 503)
	wantStatus(t, get("/v1/agents").as("bob").of(s), 200)
	wantStatus(t, get("/healthz").as("").of(s), 200)
	close(end)
	for range 2 {
		if code := <-done; code != 200 {
			t.Errorf("a request that had a place: %d", code)
		}
	}
	wantStatus(t, get("/v1/agents").of(s), 200)
}

// TestAnApprovedCallTakesAPlaceAgain: while a call waits for its answer, others have its place. Then
// it goes on once one is free.
func TestAnApprovedCallTakesAPlaceAgain(t *testing.T) {
	w := newWorld()
	waits, answer, running, end := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.answering = func() {
		waits <- struct{}{}
		<-answer
	}
	w.invoking = func() {
		running <- struct{}{}
		<-end
	}
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Requests = 2 })
	done := make(chan int)
	call := func(body string) { done <- post("/v1/tools/time.now/invoke", body).of(s).Code }
	for range 2 { // more than the one place of the person
		go call(`{"wait":60}`)
		<-waits
	}
	go call(`{}`)
	<-running
	close(answer)
	for i := range 3 { // one at a time
		wantStatus(t, get("/v1/agents").of(s), 503)
		select {
		case <-running:
			t.Fatal("a call runs without a place")
		case end <- struct{}{}:
		}
		if code := <-done; code != 200 {
			t.Errorf("a call: %d", code)
		}
		if i < 2 {
			<-running
		}
	}
	wantStatus(t, get("/v1/agents").of(s), 200)
}

// unread is a body that notes its reads, and waits in the first one.
type unread struct {
	begun chan struct{}
	end   chan struct{}
	once  sync.Once
}

func (u *unread) Read([]byte) (int, error) {
	u.once.Do(func() { close(u.begun) })
	<-u.end
	return 0, io.EOF
}

// TestABodyIsReadOnlyWithAPlace: bodies that do not end take all places of their root grant, also the
// places of large files. The body of a further request is not read; another caller's is, and a small
// file of the same one.
func TestABodyIsReadOnlyWithAPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		limits       httpapi.Limits
		method, path string
		size         int64
	}{
		"requests":     {httpapi.Limits{Requests: 4}, "POST", "/v1/agents", 10},
		"large files":  {httpapi.Limits{Large: 4}, "PUT", "", 2 << 20},
		"unknown size": {httpapi.Limits{Large: 4}, "PUT", "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.caller("bob", "user:bob", "*")
			s := server(t, w, func(o *httpapi.Options) { o.Limits.Requests, o.Limits.Large = tt.limits.Requests, tt.limits.Large })
			_, session := agentAndSession(t, s, "admin")
			path := cmp.Or(tt.path, "/v1/sessions/"+session+"/files/notes.md")
			var waiting sync.WaitGroup
			end := make(chan struct{})
			send := func(token string) (*unread, chan int) {
				u, done := &unread{begun: make(chan struct{}), end: end}, make(chan int, 1)
				r := httptest.NewRequest(tt.method, "http://127.0.0.1"+path, u)
				r.ContentLength = tt.size
				r.Header.Set("Authorization", "Bearer "+token)
				waiting.Go(func() {
					rec := httptest.NewRecorder()
					s.ServeHTTP(rec, r)
					done <- rec.Code
				})
				return u, done
			}
			for range 2 { // half of four
				u, _ := send("admin")
				<-u.begun
			}
			u, done := send("admin")
			select {
			case code := <-done:
				if code != 503 {
					t.Errorf("a third body: %d", code)
				}
			case <-u.begun:
				t.Error("a third body is read")
			}
			if tt.limits.Large > 0 {
				small := httptest.NewRequest("PUT", "http://127.0.0.1"+path, strings.NewReader("small"))
				small.Header.Set("Authorization", "Bearer admin")
				rec := httptest.NewRecorder()
				if s.ServeHTTP(rec, small); rec.Code/100 != 2 {
					t.Errorf("a small file: %d %s", rec.Code, rec.Body)
				}
			} else {
				u, _ := send("bob")
				<-u.begun
			}
			close(end)
			waiting.Wait()
			wantStatus(t, get("/v1/agents").of(s), 200)
		})
	}
}

// An MCP client with a token that is no good gets no further than any other, and is
// counted with all others of its address.
func TestMCPIsGuardedAsEverythingIs(t *testing.T) {
	w, served := newWorld(), 0
	w.caller("bob", "user:bob")
	s := server(t, w, func(o *httpapi.Options) {
		o.MCP = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
		o.Limits.Rate, o.Limits.Burst, o.Limits.Refused = 0.001, 3, 1
	})
	status := map[int]int{}
	for range 20 {
		status[post("/mcp", "{}").as("guess").of(s).Code]++
		status[post("/mcp", "{}").as("").of(s).Code]++
	}
	if served != 0 || status[401] != 3 || status[429] != 37 {
		t.Errorf("%d guesses were served; answers %v", served, status)
	}
	if code := get("/v1/agents").as("guess").of(s).Code; code != 429 {
		t.Errorf("a guess at another door: %d", code)
	}
	for range 5 {
		post("/mcp", "{}").as("bob").of(s)
	}
	if served != 3 {
		t.Errorf("%d requests of a grant were served, want 3", served)
	}
}

// A connection is kept for those who presented a grant.
func TestStrangersKeepNoConnection(t *testing.T) {
	s := server(t, newWorld())
	base, _ := serve(t, s)
	for path, c := range map[string]struct {
		token string
		keeps bool
	}{"/v1/agents": {"admin", true}, "/v1/sessions": {"guess", false}, "/healthz": {"", false}, "/nothing": {"admin", false}} {
		r := request(within(t), t, "GET", base+path, "")
		r.Header.Set("Authorization", "Bearer "+c.token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.Close == c.keeps {
			t.Errorf("%s (%s): the connection is kept: %v, want %v", path, res.Status, !res.Close, c.keeps)
		}
	}
}

// TestAnAdmittedRequestOutlastsItsReadTime: the time for a request ends when its body has arrived. A
// client with a grant that sends no body loses its connection, as others do.
func TestAnAdmittedRequestOutlastsItsReadTime(t *testing.T) {
	w := newWorld()
	running, end := make(chan struct{}), make(chan struct{})
	w.invoking = func() {
		running <- struct{}{}
		<-end
	}
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Read = time.Second })
	base, _ := serve(t, s)
	invoke := func() (status int, err error) {
		r := request(within(t), t, "POST", base+"/v1/tools/time.now/invoke", "{}")
		r.Header.Set("Authorization", "Bearer admin")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	done := make(chan error, 1)
	go func() {
		status, err := invoke()
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d", status)
		}
		done <- err
	}()
	<-running
	slow, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")) //nolint:noctx // the server is of this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	_ = slow.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintf(slow, "POST /v1/agents HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nAuthorization: Bearer admin\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", base[strings.LastIndex(base, ":")+1:])
	answer, err := io.ReadAll(slow) // it began later, so the time of the first request is over as well
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("a body that does not arrive: %q, %v", answer, err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Errorf("an operation that takes longer than its request: %v", err)
	}
}
