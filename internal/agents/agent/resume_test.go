package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/tools/model"
)

// acts notes each time that something really happens.
type acts struct {
	mu   sync.Mutex
	seen map[string]int
}

func (a *acts) tool(id tool.ID, e tool.Effects) *probe {
	return &probe{id: id, effects: e, run: func(_ context.Context, _ permit.Permit, args tool.Args) (tool.Result, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seen[fmt.Sprint(id, args["n"])]++
		return tool.Result{Output: map[string]any{"did": args["n"]}}, nil
	}}
}

// task is a model that writes three things, reading in between, and then is done:
// what it wants next follows from the conversation alone.
func task(r model.Request) (model.Response, error) {
	if r.Aside {
		return text("what was said"), nil
	}
	switch r.Answers() {
	case 0:
		return wants(call("a", "read", `{"n":1}`), call("b", "read", `{"n":2}`), call("c", "write", `{"n":3}`)), nil
	case 1:
		return wants(call("a", "write", `{"n":4}`), call("b", "read", `{"n":5}`), call("c", "write", `{"n":6}`)), nil
	}
	return text("all done"), nil
}

// The process dies before, and right after, each of its writes. Whoever resumes the
// session comes to the end, nothing that has an effect happened twice, and what has none is made again.
func TestASessionGoesOnAfterADeathAtAnyWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, limit := range []int64{0, 60} { // tokens; with 60 it is compacted on the way
			if after != (limit > 0) && os.Getenv("REMIT_SOAK") == "" {
				continue // two of the four are enough for each day
			}
			for k := int64(1); ; k++ {
				if !dieAt(t, k, after, limit) {
					if k < 12 || limit > 0 && k < 18 {
						t.Fatalf("a turn has only %d writes: the test shows nothing", k)
					}
					break
				}
			}
		}
	}
}

// dieAt carries the task out with a death at write k, and reports whether there
// was one.
func dieAt(t *testing.T, k int64, after bool, limit int64) (died bool) {
	t.Helper()
	a := &acts{seen: map[string]int{}}
	b := &brain{answer: func(_ int, r model.Request) (model.Response, error) { return task(r) }}
	w := newWorld(t, b, a.tool("probe.read", tool.EffectSet(tool.FSRead)), a.tool("probe.write", tool.EffectSet(tool.FSWrite)))
	w.limits.Context = limit
	w.open()
	id := w.session()
	w.close()

	st, err := sqlite.Open(context.Background(), sqlite.Options{Home: w.home})
	if err != nil {
		t.Fatal(err)
	}
	d := &dying{Store: st, after: after}
	d.left.Store(k)
	w.st, w.rec = st, d
	w.serve()
	_, serr := w.svc.Send(context.Background(), ann, id, "do it", nil)
	died = d.left.Load() <= 0
	if !died && serr != nil {
		t.Fatalf("without a death: %v", serr)
	}
	w.again()
	if len(w.messages(id)) == 0 { // it died before the message was kept: who sent it was told
		if serr == nil {
			t.Fatalf("death at %d: the message was lost", k)
		}
		w.send(id, "do it")
	} else if _, err := w.svc.Resume(context.Background(), ann, id); err != nil {
		t.Fatalf("death at %d: Resume: %v", k, err)
	}
	if err := w.svc.Wait(context.Background(), id); err != nil {
		t.Fatalf("death at %d: %v", k, err)
	}
	ms := w.messages(id)
	sound(t, ms, false)
	if last := ms[len(ms)-1]; last.Text != "all done" {
		t.Fatalf("death at %d: it ends with %+v", k, last)
	}
	interrupted, results := 0, 0
	for _, m := range ms {
		if m.Role == model.ToolRole {
			results++
		}
		if strings.Contains(m.Text, "E2011") {
			interrupted++
			if results == 1 || results == 2 || results == 5 {
				t.Errorf("death at %d (after: %v): read %d was not made again: %s", k, after, results, m.Text)
			}
		}
	}
	for _, n := range []int{1, 2, 5} {
		if a.seen[fmt.Sprint("probe.read", n)] == 0 {
			t.Errorf("death at %d (after: %v): read %d was not made", k, after, n)
		}
	}
	for _, n := range []int{3, 4, 6} {
		did := a.seen[fmt.Sprint("probe.write", n)]
		if did > 1 || did == 0 && interrupted == 0 {
			t.Errorf("death at %d (after: %v): write %d happened %d times, %d are told as interrupted", k, after, n, did, interrupted)
		}
	}
	if interrupted > 1 {
		t.Errorf("death at %d: %d calls are told as interrupted", k, interrupted)
	}
	if rep, err := w.st.Verify(context.Background(), verifyAll); err != nil || len(rep.Problems) > 0 {
		t.Errorf("death at %d: the ledger: %v, %+v", k, err, rep.Problems)
	}
	w.close()
	return died
}

func TestAnEndedProcessLeavesItsTurnToBeResumed(t *testing.T) {
	begun, free := make(chan struct{}), make(chan struct{})
	slow := &probe{id: "probe.slow", effects: tool.EffectSet(tool.FSWrite), run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		close(begun)
		select {
		case <-ctx.Done():
		case <-free:
		}
		return tool.Result{}, ctx.Err()
	}}
	read := &probe{id: "probe.read", effects: tool.EffectSet(tool.FSRead)}
	w := newWorld(t, says(wants(call("a", "slow", `{}`), call("b", "read", `{}`)), text("after")), slow, read).open()
	id := w.session()
	if _, err := w.svc.Start(context.Background(), ann, id, "go"); err != nil {
		t.Fatal(err)
	}
	<-begun
	w.again()
	if s, err := w.svc.Session(context.Background(), id); err != nil || s.State != agent.Paused {
		t.Fatalf("the session is %s, %v", s.State, err)
	}
	done, err := w.svc.Recover(context.Background(), ann)
	if err != nil || len(done) != 1 {
		t.Fatalf("Recover: %v, %v", done, err)
	}
	if err := w.svc.Wait(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	ms := w.messages(id)
	sound(t, ms, false)
	if slow.ran.Load() != 1 || read.ran.Load() != 1 || ms[len(ms)-1].Text != "after" || !strings.Contains(ms[2].Text, "E2011") {
		t.Errorf("slow ran %d times, read %d; %+v", slow.ran.Load(), read.ran.Load(), ms)
	}
}

func TestAQuestionThatWasOpenIsPutAgain(t *testing.T) {
	p := &probe{id: "probe.asked", effects: tool.EffectSet(tool.FSWrite)}
	w := newWorld(t, says(wants(call("a", "asked", `{"n":1}`)), text("so be it")), p)
	w.asked = make(chan bool)
	w.open()
	id := w.session()
	if _, err := w.svc.Start(context.Background(), ann, id, "go"); err != nil {
		t.Fatal(err)
	}
	until(t, "waiting", func() bool { s, _ := w.svc.Session(context.Background(), id); return s.State == agent.Waiting })
	w.again()
	if _, err := w.svc.Resume(context.Background(), ann, id); err != nil {
		t.Fatal(err)
	}
	w.asked <- true
	if err := w.svc.Wait(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	if ms := w.messages(id); p.ran.Load() != 1 || ms[len(ms)-1].Text != "so be it" {
		t.Errorf("ran %d times; %+v", p.ran.Load(), ms)
	}
}

func TestAMessageEndsATurnThatWasInterrupted(t *testing.T) {
	begun := make(chan struct{})
	slow := &probe{id: "probe.slow", effects: tool.EffectSet(tool.FSWrite), run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		close(begun)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	w := newWorld(t, says(wants(call("a", "slow", `{}`), call("b", "slow", `{}`)), text("fine")), slow).open()
	id := w.session()
	if _, err := w.svc.Start(context.Background(), ann, id, "go"); err != nil {
		t.Fatal(err)
	}
	<-begun
	w.again()
	turn := w.send(id, "leave it")
	ms := w.messages(id)
	sound(t, ms, false)
	if turn.Reply != "fine" || slow.ran.Load() != 1 || !strings.Contains(ms[2].Text, "E2011") || !strings.Contains(ms[3].Text, "not made") {
		t.Errorf("%q, ran %d, %+v", turn.Reply, slow.ran.Load(), ms)
	}
}

func TestAForkGoesOnFromAMessage(t *testing.T) {
	p := &probe{id: "probe.look"}
	w := newWorld(t, &brain{answer: func(_ int, r model.Request) (model.Response, error) {
		if last := r.Messages[len(r.Messages)-1]; last.Role == model.User && !strings.HasPrefix(last.Text, "quick") {
			return wants(call("a", "look", `{"n":1}`)), nil
		}
		return text("done"), nil
	}}, p).open()
	id := w.session()
	w.send(id, "go")
	fork, err := w.svc.Fork(context.Background(), ann, id, 1, nil)
	if err != nil || fork.Last != 1 || fork.State != agent.Paused {
		t.Fatalf("Fork: %+v, %v", fork, err)
	}
	if _, err := w.svc.Resume(context.Background(), ann, fork.ID.String()); err != nil {
		t.Fatal(err)
	}
	if err := w.svc.Wait(context.Background(), fork.ID.String()); err != nil {
		t.Fatal(err)
	}
	if ms := w.messages(fork.ID.String()); len(ms) != 4 || p.ran.Load() != 2 {
		t.Errorf("%d messages, %d calls", len(ms), p.ran.Load())
	}
	half, err := w.svc.Fork(context.Background(), ann, id, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	if turn := w.send(half.ID.String(), "quick"); turn.Reply != "done" || p.ran.Load() != 2 {
		t.Errorf("%q, %d calls", turn.Reply, p.ran.Load())
	}
	sound(t, w.messages(half.ID.String()), false)
	if _, err := w.svc.Fork(context.Background(), ann, id, 99, nil); !errors.Is(err, fault.MessageUnknown) {
		t.Errorf("from no message: %v", err)
	}
}
