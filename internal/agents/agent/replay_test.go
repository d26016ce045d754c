package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// replaySession carries every run of a session out once more, without model and
// tools, and gives how many messages came out the same.
func (w *world) replaySession(id string) (int, error) {
	w.t.Helper()
	ctx := context.Background()
	sid := uuid.MustParse(id)
	runs, err := w.st.SessionRuns(ctx, sid)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, run := range runs {
		rec, err := replay.Open(ctx, w.st, run)
		if err != nil {
			return n, err
		}
		in, ok := agent.ReadInputs(rec.Inputs)
		if !ok {
			w.t.Fatalf("run %s has no inputs: %v", run.ID, rec.Inputs)
		}
		r, err := w.svc.Rehearse(in)
		if err != nil {
			return n, err
		}
		cat, err := catalog.New(r.Tools()...)
		if err != nil {
			w.t.Fatal(err)
		}
		g, err := rec.Grant()
		if err != nil {
			w.t.Fatal(err)
		}
		rn := &runner.Runner{Catalog: cat, Record: w.st, Facts: rec, Execs: rec, Ask: rec}
		again, ctx, err := rn.Start(ctx, runner.Info{ID: uuid.Must(uuid.NewV7()), Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Policies: rec.Policies, Inputs: rec.Inputs, ReplayOf: run.ID, Recall: rec})
		if err != nil {
			w.t.Fatal(err)
		}
		check := rec.Checker(func() {})
		made, err := r.Carry(ctx, &checked{testRun{rn, again, cat}, rec, check}, runs, run)
		n += made
		if ferr := rn.Finish(ctx, again, tool.Completed); err == nil {
			err = ferr
		}
		if err != nil {
			return n, err
		}
		if m := check.First(); m != nil {
			return n, m.Err()
		}
	}
	return n, nil
}

type checked struct {
	testRun
	rec   *replay.Recording
	check *replay.Checker
}

func (c *checked) after(ctx context.Context, k runner.Call, o runner.Outcome) error {
	if _, ok := c.rec.Call(k.Index); !ok {
		return nil
	}
	return c.check.After(ctx, k, o)
}

func (c *checked) Call(ctx context.Context, k runner.Call) (runner.Outcome, error) {
	o := c.rn.Execute(ctx, c.run, k)
	return o, errors.Join(o.Fatal, c.after(ctx, k, o))
}

func (c *checked) Refuse(ctx context.Context, k runner.Call, why error) (runner.Outcome, error) {
	k.Args = nil
	o := c.rn.Refuse(ctx, c.run, k, why)
	return o, errors.Join(o.Fatal, c.after(ctx, k, o))
}

func TestASessionIsReplayedToTheByte(t *testing.T) {
	n := 0
	p := &probe{id: "probe.look", run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		n++
		return tool.Result{Output: map[string]any{"n": n, "html": "<b>é\u2028&</b>", "big": strings.Repeat("x", 300)}}, nil
	}}
	write := &probe{id: "probe.write", effects: tool.EffectSet(tool.FSWrite)}
	b := says(wants(call("a", "look", `{"n":1}`), call("a", "write", `{"n":2}`), call("", "nope", `{}`), call("c", "denied", `{"n":3}`), call("d", "look", `{`)),
		text("one"), wants(call("a", "look", `{"n":1}`)), wants(call("a", "write", `{"n":1}`)), text("two"))
	w := newWorld(t, b, p, write, &probe{id: "probe.denied"})
	w.limits.Output = 200
	w.open()
	id := w.session()
	w.send(id, "first")
	w.again() // another run
	w.send(id, "second")
	w.close()
	w.brain = &brain{answer: func(int, model.Request) (model.Response, error) {
		return model.Response{}, errors.New("the model is asked")
	}}
	w.open()
	ran := p.ran.Load()
	made, err := w.replaySession(id)
	if err != nil || made != len(w.messages(id)) {
		t.Fatalf("%d of %d messages, %v", made, len(w.messages(id)), err)
	}
	if p.ran.Load() != ran {
		t.Error("tools ran")
	}
	if rep, err := w.st.Verify(context.Background(), verifyAll); err != nil || len(rep.Problems) > 0 {
		t.Errorf("the ledger: %v, %+v", err, rep.Problems)
	}
}

func TestAChangedAgentIsADifference(t *testing.T) {
	w := newWorld(t, says(text("hello")), &probe{id: "probe.look"}).open()
	id := w.session()
	w.send(id, "hi")
	w.caps[0] = kit{id: "kit", prompt: "Use another kit."}
	w.again()
	if _, err := w.replaySession(id); !errors.Is(err, fault.ReplayMismatch) {
		t.Fatalf("got %v", err)
	}
}

// Whatever a death left in the record is carried out in the same way again.
func TestASessionThatDiedIsReplayed(t *testing.T) {
	for k := int64(2); k < 20; k += 3 {
		t.Run(fmt.Sprint("death at write ", k), func(t *testing.T) {
			a := &acts{seen: map[string]int{}}
			b := &brain{answer: func(_ int, r model.Request) (model.Response, error) { return task(r) }}
			w := newWorld(t, b, a.tool("probe.read", tool.EffectSet(tool.FSRead)), a.tool("probe.write", tool.EffectSet(tool.FSWrite))).open()
			id := w.session()
			d := &dying{Store: w.st, after: k%2 == 0}
			d.left.Store(k)
			w.rec = d
			_ = w.svc.Close(context.Background())
			w.serve()
			_, _ = w.svc.Send(context.Background(), ann, id, "do it", nil)
			w.again()
			if len(w.messages(id)) == 0 {
				t.Skip("it died before the message was kept")
			}
			if _, err := w.svc.Resume(context.Background(), ann, id); err != nil {
				t.Fatal(err)
			}
			if err := w.svc.Wait(context.Background(), id); err != nil {
				t.Fatal(err)
			}
			w.again()
			made, err := w.replaySession(id)
			if err != nil || made != len(w.messages(id)) {
				t.Fatalf("%d of %d messages, %v", made, len(w.messages(id)), err)
			}
		})
	}
}
