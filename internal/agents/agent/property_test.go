package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/model"
)

// answers draws what a model could say: sense, nonsense, and what nobody foresaw.
func answers() *rapid.Generator[model.Response] {
	id := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "a\x00", strings.Repeat("x", 700), "3:a", "…"}), rapid.String())
	name := rapid.OneOf(rapid.SampledFrom([]string{"ok", "fails", "crashes", "huge", "denied", "write", "output_read", "", "nope", "model.chat"}), rapid.String())
	args := rapid.OneOf(rapid.SampledFrom([]string{`{}`, `{"n":1}`, `{"n":2}`, `{"n":"x"}`, `{`, `[]`, `null`, `{"a":{}}`, "\xff", `{"output_id":"out_0"}`}), rapid.String())
	one := rapid.Custom(func(t *rapid.T) model.Call {
		raw := args.Draw(t, "args")
		v, err := canon.Decode([]byte(raw))
		if err == nil {
			_, err = canon.Marshal(v)
		}
		if err == nil && rapid.Bool().Draw(t, "raw") { // as a provider that checks nothing would give it
			return model.Call{ID: id.Draw(t, "id"), Name: name.Draw(t, "name"), Args: []byte(raw)}
		}
		return model.NewCall(id.Draw(t, "id"), name.Draw(t, "name"), raw)
	})
	return rapid.Custom(func(t *rapid.T) model.Response {
		r := model.Response{Message: model.Message{Role: rapid.SampledFrom([]model.Role{model.Assistant, model.User, ""}).Draw(t, "role")}}
		r.Message.Text = rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "text")
		r.Message.Calls = rapid.SliceOfN(one, 0, 5).Draw(t, "calls")
		r.Message.CallID = rapid.SampledFrom([]string{"", "a"}).Draw(t, "call ID")
		r.Stop = rapid.SampledFrom([]model.Stop{model.StopEnd, model.StopCalls, model.StopLength, model.StopRefused, ""}).Draw(t, "stop")
		return r
	})
}

// Whatever a model says and whatever tools do: a turn ends, each call has exactly
// one result, in order, what the model is asked is well formed, and the record tells
// the same once more.
func TestWhateverAModelSaysTheConversationIsSound(t *testing.T) {
	const entrails = "what only the tool knows" // in no message of Remit's own
	huge := strings.Repeat("é", 3000)
	b := &brain{}
	does := func(f func() (tool.Result, error)) func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		return func(context.Context, permit.Permit, tool.Args) (tool.Result, error) { return f() }
	}
	w := newWorld(t, b, &probe{id: "probe.ok"}, &probe{id: "probe.denied"}, &probe{id: "probe.write", effects: tool.EffectSet(tool.FSWrite)},
		&probe{id: "probe.fails", run: does(func() (tool.Result, error) {
			return tool.Result{Output: map[string]any{"part": true}}, errors.New(entrails)
		})},
		&probe{id: "probe.crashes", run: does(func() (tool.Result, error) { panic(entrails) })},
		&probe{id: "probe.huge", run: does(func() (tool.Result, error) { return tool.Result{Output: map[string]any{"text": huge}}, nil })})
	w.limits = agent.Limits{Steps: 6, Output: 500, Context: 1500}
	w.open()
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(answers(), 1, 8).Draw(rt, "answers")
		said, asked := 0, 0
		b.mu.Lock()
		b.answer = func(_ int, r model.Request) (model.Response, error) {
			asked++
			if r.Aside {
				return text("a summary"), nil
			}
			said++
			if said > len(script) {
				return text("done"), nil
			}
			return script[said-1], nil
		}
		b.mu.Unlock()
		id := w.session()
		for range 2 {
			said = min(said, len(script))
			_, err := w.svc.Send(context.Background(), ann, id, rapid.StringMatching(`[a-zé]{1,40}`).Draw(rt, "message"), nil)
			if err != nil && !errors.Is(err, fault.Looping) && !errors.Is(err, fault.LimitReached) {
				rt.Fatalf("the turn ended with %v", err)
			}
		}
		if asked > 2*(6+6) {
			rt.Fatalf("the model was asked %d times", asked)
		}
		ms := w.messages(id)
		check(rt, ms)
		for _, m := range ms {
			if strings.Contains(m.Text, entrails) && m.Role == model.ToolRole {
				rt.Fatalf("a result tells of the inside: %s", m.Text)
			}
		}
		if err := w.svc.DeleteSession(context.Background(), ann, id); err != nil { // ends its run
			rt.Fatal(err)
		}
		if made, err := w.replaySession(id); err != nil || made != len(ms) {
			rt.Fatalf("replay: %d of %d messages: %v", made, len(ms), err)
		}
	})
}

// check is sound for properties.
func check(t *rapid.T, ms []agent.Message) {
	var due []model.Call
	for _, m := range ms {
		switch {
		case m.Kind == agent.Summary:
		case m.Role == model.ToolRole:
			if len(due) == 0 || due[0].ID != m.CallID {
				t.Fatalf("message %d is the result of %q; due are %v", m.Number, m.CallID, due)
			}
			due = due[1:]
		case len(due) > 0:
			t.Fatalf("message %d comes before the results of %v", m.Number, due)
		default:
			due = m.Calls
			ids := map[string]bool{}
			for _, k := range due {
				if ids[k.ID] || k.ID == "" {
					t.Fatalf("message %d has the call %q twice, or without a name", m.Number, k.ID)
				}
				ids[k.ID] = true
			}
		}
	}
	if len(due) > 0 {
		t.Fatalf("there is no result of %v", due)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	const sessions = 200
	b := &brain{answer: func(_ int, r model.Request) (model.Response, error) { return task(r) }}
	a := &acts{seen: map[string]int{}}
	w := newWorld(t, b, a.tool("probe.read", tool.EffectSet(tool.FSRead)), a.tool("probe.write", tool.EffectSet(tool.FSWrite))).open()
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = w.session()
	}
	var all sync.WaitGroup
	errs := make([]error, sessions)
	for i, id := range ids {
		all.Go(func() {
			turn, err := w.svc.Send(context.Background(), ann, id, fmt.Sprint("task ", i), nil)
			if err == nil && turn.Reply != "all done" {
				err = fmt.Errorf("the reply is %q", turn.Reply)
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := a.seen["probe.write3"]; n != sessions {
		t.Errorf("%d of %d wrote", n, sessions)
	}
}
