package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/store"
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

func (n *notes) BeginRequest(_ context.Context, k store.RequestRecord) (store.RequestRecord, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := k.Holder + string(k.Key[:])
	if was, there := n.all[id]; there || n.begin != nil {
		return was, false, n.begin
	}
	n.all[id] = k
	return k, true, nil
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
	w.turn = func(context.Context, *world, string, string, func(agent.Event)) error {
		return fault.New(fault.ModelBusy, "later")
	}
	wantStatus(t, send.of(s), 503)
	w.turn = nil
	wantStatus(t, send.of(start()), 201)

	n.end = errors.New("the disk is away")
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "unsettled").of(s), 201)
	if e := told[len(told)-1]; !errors.Is(e.Cause, n.end) {
		t.Errorf("the operator is told %+v", e)
	}
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "unsettled").of(start()), 409)
	n.begin, n.end = fault.New(fault.StoreFailed, "the disk is away"), nil
	had := len(w.agents)
	if rec := post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", "unnoted").of(s); rec.Code < 500 || len(w.agents) != had {
		t.Errorf("what could not be noted was made: %d, %d agents, had %d", rec.Code, len(w.agents), had)
	}
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).of(s), 201) // without a key nothing is noted
}
