package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/telemetry"
)

// What is kept for repeated requests is bounded: the oldest answer of a root grant,
// which has half of the places, is forgotten.
func TestRememberedAnswersAreBounded(t *testing.T) {
	s := server(t, newWorld(), func(o *httpapi.Options) { o.Limits.Remembered = 6 })
	make1 := func(key string) (id string, replayed bool) {
		t.Helper()
		rec := post("/v1/agents", `{"name":"a"}`).with("Idempotency-Key", key).of(s)
		id, _ = wantStatus(t, rec, 201)["id"].(string)
		return id, rec.Header().Get("Idempotency-Replayed") == "true"
	}
	first, _ := make1("k0")
	for i := range 3 {
		make1(fmt.Sprintf("k%d", i+1))
	}
	if again, replayed := make1("k0"); replayed || again == first {
		t.Error("the oldest answer is still kept")
	}
	if _, replayed := make1("k3"); !replayed {
		t.Error("a new answer is forgotten")
	}
}

// An answer that is too large to keep is given, and the same request made again: the
// header that says that it was not is missing.
func TestLargeAnswersAreNotKept(t *testing.T) {
	s := server(t, newWorld())
	big := post("/v1/agents", `{"name":"a","policy":"`+strings.Repeat("x", 400<<10)+`"}`).with("Idempotency-Key", "big")
	wantStatus(t, big.of(s), 201)
	rec := big.of(s)
	if rec.Code != 201 || rec.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
}

// notes is what a ledger keeps of requests: beyond the servers of a test.
type notes struct {
	mu         sync.Mutex
	all        map[string]store.RequestRecord
	begin, end error // that it fails with
}

func (n *notes) BeginRequest(_ context.Context, k store.RequestRecord) (store.RequestRecord, store.RequestState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := k.Holder + string(k.Key[:])
	was, there := n.all[id]
	switch {
	case n.begin != nil:
		return was, store.RequestUnderWay, n.begin
	case there && was.Status != 0:
		return was, store.RequestAnswered, nil
	case there:
		return was, store.RequestBegun, nil
	}
	n.all[id] = k
	return k, store.RequestClaimed, nil
}

func (n *notes) fails(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end = err
}

// status is that of the only request.
func (n *notes) status() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.all {
		return k.Status
	}
	return 0
}

func (n *notes) EndRequest(_ context.Context, k store.RequestRecord) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.end != nil {
		return n.end
	}
	if n.all[k.Holder+string(k.Key[:])] = k; k.Status == 0 {
		delete(n.all, k.Holder+string(k.Key[:]))
	}
	return nil
}

// A request that was made is not made again by a service that was started anew, nor
// where its answer is not in memory any more.
func TestAfterARestartNothingIsMadeTwice(t *testing.T) {
	w, n := newWorld(), &notes{all: map[string]store.RequestRecord{}}
	var told []httpapi.Entry
	start := func() *httpapi.Server {
		return server(t, w, func(o *httpapi.Options) {
			o.Requests, o.Limits.Remembered = n, 2
			o.Log = func(e httpapi.Entry) { told = append(told, e) }
		})
	}
	s := start()
	make1 := post("/v1/agents", `{"name":"one"}`).with("Idempotency-Key", "k1")
	id, _ := wantStatus(t, make1.of(s), 201)["id"].(string)
	if rec := make1.of(s); rec.Code != 201 || rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("while it runs: %d %v", rec.Code, rec.Header())
	}
	for range 2 {
		s = start()
		rec := make1.of(s)
		m := wantStatus(t, rec, 409)
		if rec.Header().Get("Location") != "/v1/agents/"+id || !strings.Contains(fmt.Sprint(m["detail"]), "answered with 201") || !strings.Contains(fmt.Sprint(m["hint"]), id) {
			t.Errorf("after a restart: %v %v", rec.Header(), m)
		}
	}
	wantStatus(t, post("/v1/agents", `{"name":"two"}`).with("Idempotency-Key", "k1").of(s), 422)
	for i := range 5 {
		wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", fmt.Sprint("other", i)).of(s), 201)
	}
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "other0").of(s), 409)
	big := post("/v1/agents", `{"name":"a","policy":"`+strings.Repeat("x", 400<<10)+`"}`).with("Idempotency-Key", "big")
	wantStatus(t, big.of(s), 201)
	wantStatus(t, big.of(s), 409)

	_, session := agentAndSession(t, s, "admin")
	send := post("/v1/sessions/"+session+"/messages", `{"content":"x"}`).with("Idempotency-Key", "later")
	w.busy = fault.New(fault.ModelBusy, "later")
	wantStatus(t, send.of(s), 503)
	w.busy = nil
	wantStatus(t, send.of(start()), 201)

	defer s.Drain(t.Context())
	n.fails(errors.New("the disk is away"))
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "unsettled").of(s), 201)
	if e := told[len(told)-1]; !errors.Is(e.Cause, n.end) {
		t.Errorf("the operator is told %+v", e)
	}
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "unsettled").of(start()), 409)
	n.mu.Lock()
	n.begin = fault.New(fault.StoreFailed, "the disk is away")
	n.mu.Unlock()
	had := len(w.agents)
	if rec := post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "unnoted").of(s); rec.Code < 500 || len(w.agents) != had {
		t.Errorf("what could not be noted was made: %d, %d agents, had %d", rec.Code, len(w.agents), had)
	}
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).of(s), 201) // without a key nothing is noted
}

// A request that fails after it may have had effects is not carried out again: its repetitions,
// at this service and after a restart, are told that the outcome is unknown.
func TestAFailureAfterAnEffectIsNotRepeated(t *testing.T) {
	for _, code := range []fault.Code{fault.StoreFailed, fault.ModelBusy, fault.ModelFailed, fault.Internal, fault.LimitReached, fault.NeedsApproval} {
		w, n := newWorld(), &notes{all: map[string]store.RequestRecord{}}
		start := func() *httpapi.Server { return server(t, w, func(o *httpapi.Options) { o.Requests = n }) }
		s := start()
		_, session := agentAndSession(t, s, "admin")
		path := "/v1/sessions/" + session + "/messages"
		w.turn = func(context.Context, *world, string, string, func(agent.Event)) error {
			return fault.New(code, "after the effect")
		}
		for i, how := range []string{"", "respond-async"} {
			send := post(path, `{"content":"x"}`).with("Idempotency-Key", how+"k", "Prefer", how)
			first := send.of(s)
			if how == "" && first.Code < 400 {
				t.Fatalf("%s: %d", code, first.Code)
			}
			for range 2 {
				again := send.of(s)
				replayed := again.Header().Get("Idempotency-Replayed") == "true" && again.Code == first.Code
				if again.Code != 409 && !replayed || again.Header().Get("Location") != path && !replayed {
					t.Errorf("%s %s: %d %v %s", code, how, again.Code, again.Header(), again.Body)
				}
				if first.Code >= 500 && !strings.Contains(again.Body.String(), `"outcome":"unknown"`) {
					t.Errorf("%s %s: the repetition is not told that the outcome is unknown: %s", code, how, again.Body)
				}
				s = start()
			}
			w.mu.Lock()
			got := len(w.messages[session])
			w.mu.Unlock()
			if got != i+1 {
				t.Errorf("%s %s: the session has %d messages, want %d", code, how, got, i+1)
			}
		}
	}
}

// A call with a key goes on when its client leaves, so that the repeated request gets its answer.
func TestACallWithAKeyOutlivesItsClient(t *testing.T) {
	w, n := newWorld(), &notes{all: map[string]store.RequestRecord{}}
	s := server(t, w, func(o *httpapi.Options) { o.Requests = n })
	began, goOn := make(chan struct{}), make(chan struct{})
	w.invoking = func() {
		close(began)
		<-goOn
	}
	call := func(ctx context.Context) *httptest.ResponseRecorder {
		return post("/v1/tools/time.now/invoke", `{}`).with("Idempotency-Key", "k").ofContext(ctx, s)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		call(ctx)
	}()
	<-began
	leave()
	again := make(chan *httptest.ResponseRecorder)
	go func() { again <- call(t.Context()) }()
	close(goOn)
	rec := <-again
	<-done
	if rec.Code != 200 || rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
	}
}

// awaitStreams waits until a number of stream seats are taken.
func awaitStreams(t *testing.T, m *telemetry.Metrics, n int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var text strings.Builder
		if err := m.Write(&text); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), fmt.Sprintf("\nremit_http_streams %d\n", n)) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("not %d requests wait in stream seats", n)
		}
	}
}

// TestARepeatedRequestWaitsInAStreamSeat: it leaves its place to other requests.
func TestARepeatedRequestWaitsInAStreamSeat(t *testing.T) {
	w := newWorld()
	m := telemetry.New()
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Requests, o.Metrics = 6, m })
	began, goOn := make(chan struct{}), make(chan struct{})
	w.invoking = func() {
		close(began)
		<-goOn
	}
	answers := make(chan *httptest.ResponseRecorder, 3)
	call := func() {
		answers <- post("/v1/tools/time.now/invoke", `{}`).with("Idempotency-Key", "k").of(s)
	}
	go call()
	<-began
	for i := range 2 { // with the first one, more than the person's half of six
		go call()
		awaitStreams(t, m, i+1)
	}
	for until := time.Now().Add(time.Minute); get("/v1/agents").of(s).Code != 200; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the repeated requests hold their places")
		}
	}
	close(goOn)
	for range 3 {
		wantStatus(t, <-answers, 200)
	}
}

// What could not be recorded is recorded once that is possible.
func TestAnAnswerIsRecordedLater(t *testing.T) {
	w, n := newWorld(), &notes{all: map[string]store.RequestRecord{}}
	s := server(t, w, func(o *httpapi.Options) { o.Requests = n })
	defer s.Drain(t.Context())
	n.fails(errors.New("the disk is away"))
	wantStatus(t, post("/v1/agents", `{"name":"one"}`).with("Idempotency-Key", "k").of(s), 201)
	n.fails(nil)
	for began := time.Now(); n.status() != 201; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it was not recorded")
		}
	}
}
