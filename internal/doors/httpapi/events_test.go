package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/tools/model"
)

// serve serves on a real connection until the test ends.
func serve(t testing.TB, s *httpapi.Server) (base string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	stop = func() {
		cancel()
		served.Wait()
	}
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

// sse is one event of a stream.
type sse struct {
	id, event string
	data      agent.Event
}

// follow opens a stream.
func follow(t testing.TB, req *http.Request, last string) (leave func(), next func() (sse, bool)) {
	t.Helper()
	req.Header.Set("Authorization", "Bearer admin")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave = func() { _ = res.Body.Close() }
	t.Cleanup(leave)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return leave, func() (sse, bool) {
		var e sse
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.event = value
			case "data":
				if err := json.Unmarshal([]byte(value), &e.data); err != nil {
					t.Errorf("data %q: %v", value, err)
				}
			case "":
				if e.event != "" && lines.Text() == "" {
					return e, true
				}
			}
		}
		return e, false
	}
}

func request(ctx context.Context, t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A turn is followed and cut at each event; who comes back with the last event that
// it saw is told of exactly those after it.
func TestAStreamGoesOnFromWhereverItWasCut(t *testing.T) {
	w := newWorld()
	w.turn = func(_ context.Context, w *world, id, _ string, on func(agent.Event)) error {
		w.happen(id, agent.Event{Type: agent.TextDelta, Text: "let me look"}, on)
		w.happen(id, agent.Event{Type: agent.CallStarted, Call: &agent.CallEvent{ID: "c1", Name: "get_current_time", Tool: "current_time.get_current_time", Args: json.RawMessage(`{"timezone":"UTC"}`)}}, on)
		w.happen(id, agent.Event{Type: agent.CallEnded, Call: &agent.CallEvent{ID: "c1", Status: "completed", DurationMS: 1}}, on)
		w.happen(id, said(model.Assistant, "line one\nline two\r\n\r\nevent: evil\ndata: {}"), on)
		return nil
	}
	s := server(t, w)
	base, _ := serve(t, s)
	_, id := agentAndSession(t, s, "admin", base)
	turn := wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"go"}`).on(base).of(s), 201)
	if turn["reply"] == nil {
		t.Fatal(turn)
	}
	w.mu.Lock()
	all := w.events[id]
	w.mu.Unlock()
	if len(all) != 6 {
		t.Fatalf("%d events", len(all))
	}
	for cut := range all {
		last := all[cut].ID
		_, next := follow(t, request(within(t), t, "GET", base+"/v1/sessions/"+id+"/events", ""), last)
		for _, want := range all[cut+1:] {
			e, ok := next()
			if !ok || e.id != want.ID || e.event != string(want.Type) || string(e.data.Type) != e.event {
				t.Fatalf("after %s: %+v, want %+v", last, e, want)
			}
			if want.Message != nil && e.data.Message.Text != want.Message.Text {
				t.Fatalf("the message is %q", e.data.Message.Text)
			}
		}
	}
}

func TestATurnIsToldAsItGoesOn(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	base, _ := serve(t, s)
	_, id := agentAndSession(t, s, "admin", base)
	r := request(within(t), t, "POST", base+"/v1/sessions/"+id+"/messages", `{"content":"hello"}`)
	r.Header.Set("Accept", "text/event-stream")
	_, next := follow(t, r, "")
	var types []string
	for {
		e, ok := next()
		if !ok {
			break
		}
		types = append(types, e.event)
	}
	if got := strings.Join(types, " "); got != "message text message status end" {
		t.Errorf("the events are %q", got)
	}
	rec := post("/v1/sessions/"+someID+"/messages", `{"content":"hello"}`).with("Accept", "text/event-stream").on(base).of(s)
	wantStatus(t, rec, 404) // a problem, and no stream
}

// A client that leaves ends its stream, and not the turn.
func TestATurnGoesOnWithoutItsClient(t *testing.T) {
	w := newWorld()
	left := make(chan struct{})
	w.turn = func(ctx context.Context, w *world, id, _ string, on func(agent.Event)) error {
		w.happen(id, agent.Event{Type: agent.TextDelta, Text: "…"}, on)
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.happen(id, said(model.Assistant, "done"), on)
		return nil
	}
	s := server(t, w)
	base, _ := serve(t, s)
	_, id := agentAndSession(t, s, "admin", base)
	r := request(within(t), t, "POST", base+"/v1/sessions/"+id+"/messages", `{"content":"hello"}`)
	r.Header.Set("Accept", "text/event-stream")
	leave, next := follow(t, r, "")
	for range 2 { // the message, and a piece of the answer
		next()
	}
	leave()
	_, watch := follow(t, request(within(t), t, "GET", base+"/v1/sessions/"+id+"/events", ""), "2")
	close(left)
	if e, ok := watch(); !ok || e.data.Message == nil || e.data.Message.Text != "done" {
		t.Errorf("the turn went on to %+v", e)
	}
}

func TestStreamsEndWithTheGrantAndTheService(t *testing.T) {
	w := newWorld()
	w.caller("bob", "user:bob", "*")
	s := server(t, w)
	base, stop := serve(t, s)
	_, id := agentAndSession(t, s, "admin", base)
	r := request(within(t), t, "GET", base+"/v1/sessions/"+id+"/events", "")
	_, next := follow(t, r, "")
	bob := request(within(t), t, "GET", base+"/v1/sessions/"+id+"/events", "")
	bobs, err := http.DefaultClient.Do(func() *http.Request { bob.Header.Set("Authorization", "Bearer bob"); return bob }())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bobs.Body.Close() }()
	w.revoke("bob")
	lines := bufio.NewScanner(bobs.Body)
	ended := ""
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			ended = lines.Text()
		}
	}
	if !strings.Contains(ended, fault.GrantRevoked.Error()) {
		t.Errorf("the stream of a revoked grant ends with %q", ended)
	}
	stop()
	if e, ok := next(); !ok || e.event != "end" || e.data.Error == nil {
		t.Errorf("the end of the service: %+v", e)
	}
	if _, ok := next(); ok {
		t.Error("the stream goes on")
	}
}

// A stream costs little: a thousand of them, with their connections on both sides,
// stay below 200 MB.
func TestAThousandStreams(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 200
	}
	w := newWorld()
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Heartbeat = time.Second })
	base, _ := serve(t, s)
	_, id := agentAndSession(t, s, "admin", base)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx := within(t)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: -1}}
	bodies := make([]*http.Response, n)
	var each sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		each.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := request(ctx, t, "GET", base+"/v1/sessions/"+id+"/events", "")
			r.Header.Set("Authorization", "Bearer admin")
			r.Header.Set("Last-Event-ID", "0")
			res, err := client.Do(r) //nolint:bodyclose // all are closed together, at the end
			if err != nil || res.StatusCode != 200 {
				t.Errorf("stream %d: %v", i, err)
				return
			}
			bodies[i] = res
		})
	}
	each.Wait()
	if t.Failed() {
		t.FailNow()
	}
	wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"all of you"}`).on(base).of(s), 201)
	for i, res := range bodies {
		each.Go(func() {
			lines := bufio.NewScanner(res.Body)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "you said: all of you") {
					return
				}
			}
			t.Errorf("stream %d was not told: %v", i, lines.Err())
		})
	}
	each.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)
	t.Logf("%d streams: %d MB with their clients", n, used>>20)
	if used > 200<<20 {
		t.Errorf("%d streams take %d MB", n, used>>20)
	}
	for _, res := range bodies {
		_ = res.Body.Close()
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld()
	w.caller("bob", "user:bob", "*")
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Streams = 4 })
	base, _ := serve(t, s)
	_, id := agentAndSession(t, s, "admin", base)
	url := base + "/v1/sessions/" + id + "/events"
	var leave func()
	for range 2 {
		leave, _ = follow(t, request(within(t), t, "GET", url, ""), "")
	}
	if p := wantStatus(t, get("/v1/sessions/"+id+"/events").on(base).of(s), 503); p["code"] != "E1005" {
		t.Errorf("a third stream of one grant: %v", p)
	}
	leave()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(within(t), 5*time.Second)
		r := request(ctx, t, "GET", url, "")
		r.Header.Set("Authorization", "Bearer admin")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		status := res.StatusCode
		_ = res.Body.Close()
		cancel()
		if status == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a seat that was left is not free")
		}
	}
}

// Turns that do not finish while the service ends are interrupted, and not waited
// for any longer.
func TestTurnsAreInterruptedAtTheEnd(t *testing.T) {
	w := newWorld()
	interrupt := make(chan struct{})
	w.turn = func(ctx context.Context, _ *world, _, _ string, _ func(agent.Event)) error {
		select {
		case <-interrupt:
			return fault.New(fault.Interrupted, "the session can be resumed")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s := server(t, w, func(o *httpapi.Options) {
		o.Interrupt = func(context.Context) { close(interrupt) }
	})
	_, id := agentAndSession(t, s, "admin")
	wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"x"}`).with("Prefer", "respond-async").of(s), 202)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		s.Drain(ctx)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
	select {
	case <-interrupt:
	default:
		t.Error("the turn was not interrupted")
	}
}

// An event that there never was is a problem, and no stream.
func TestAnUnknownEventIsAProblem(t *testing.T) {
	s := server(t, newWorld())
	_, id := agentAndSession(t, s, "admin")
	for _, last := range []string{"nope", "7", "-1"} {
		if p := wantStatus(t, get("/v1/sessions/"+id+"/events").with("Last-Event-ID", last).of(s), 404); p["code"] != "E8017" {
			t.Errorf("%q: %v", last, p)
		}
	}
}

func TestTheRecordIsFollowed(t *testing.T) {
	base, _ := serve(t, server(t, newWorld()))
	for last, want := range map[string]string{"": "1 2", "1": "2", "2": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer admin")
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				ids = append(ids, id)
			}
		}
		_ = res.Body.Close()
		if got := strings.Join(ids, " "); got != want || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("after %q: events %q of type %s, want %q", last, got, res.Header.Get("Content-Type"), want)
		}
	}
}

// TestTheStreamOfATurnEndsWithTheGrant: who may no longer ask gets no more of an answer, though the
// turn goes on.
func TestTheStreamOfATurnEndsWithTheGrant(t *testing.T) {
	w := newWorld()
	w.caller("bob", "user:bob", "*")
	goOn := make(chan struct{})
	w.turn = func(_ context.Context, w *world, id, _ string, on func(agent.Event)) error {
		on(agent.Event{Type: agent.TextDelta, At: time.Now(), Text: "a"})
		w.revoke("bob")
		<-goOn
		return nil
	}
	s := server(t, w)
	base, _ := serve(t, s)
	t.Cleanup(func() { close(goOn) }) // before the service ends
	_, id := agentAndSession(t, s, "bob", base)
	r := request(within(t), t, "POST", base+"/v1/sessions/"+id+"/messages", `{"content":"Hi"}`)
	r.Header.Set("Authorization", "Bearer bob")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(b), fault.GrantRevoked.Error()) {
		t.Errorf("the stream: %d %s, %v", res.StatusCode, b, err)
	}
}
