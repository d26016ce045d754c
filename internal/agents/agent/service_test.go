package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

func TestWhatMakesNoAgentIsRefused(t *testing.T) {
	w := newWorld(t, says()).open()
	w.brain.answer = nil
	for name, k := range map[string]struct {
		agent agent.Agent
		code  fault.Code
		field string
	}{
		"no name":              {agent.Agent{}, fault.AgentInvalid, "name"},
		"a name of nothing":    {agent.Agent{Name: " \u200b"}, fault.AgentInvalid, "name"},
		"a name too long":      {agent.Agent{Name: strings.Repeat("x", 101)}, fault.AgentInvalid, "name"},
		"a prompt too long":    {agent.Agent{Name: "a", SystemPrompt: strings.Repeat("x", 1<<20)}, fault.AgentInvalid, "system_prompt"},
		"a prompt that is not": {agent.Agent{Name: "a", SystemPrompt: "\xff"}, fault.AgentInvalid, "system_prompt"},
		"steps below none":     {agent.Agent{Name: "a", Limits: agent.Limits{Steps: -1}}, fault.AgentInvalid, "limits.steps"},
		"output without end":   {agent.Agent{Name: "a", Limits: agent.Limits{Output: 1 << 40}}, fault.AgentInvalid, "limits.output"},
		"no policy":            {agent.Agent{Name: "a", Policy: "version: 7"}, fault.PolicyInvalid, "policy"},
		"no provider":          {agent.Agent{Name: "a", Model: "nobody/one"}, fault.ModelUnknown, "model"},
		"no model":             {agent.Agent{Name: "a", Model: "one"}, fault.ModelUnknown, "model"},
		"no capability":        {agent.Agent{Name: "a", Capabilities: []agent.CapabilityRef{{Ref: "kitt"}}}, fault.CapabilityUnknown, "capabilities[0]"},
		"one capability twice": {agent.Agent{Name: "a", Capabilities: []agent.CapabilityRef{{Ref: "kit"}, {Ref: "kit"}}}, fault.CapabilityInvalid, "capabilities[1]"},
		"no configuration":     {agent.Agent{Name: "a", Capabilities: []agent.CapabilityRef{{Ref: "kit", Config: json.RawMessage(`{"x":1}`)}}}, fault.CapabilityInvalid, "capabilities[0].config"},
	} {
		_, err := w.svc.CreateAgent(context.Background(), ann, k.agent)
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != k.code || !strings.HasPrefix(e.Field, k.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := w.svc.Agents(context.Background(), uuid.Nil, 10); err != nil || len(list) != 0 {
		t.Errorf("agents: %v, %v", list, err)
	}
}

func TestACapabilityIsATextOrAnObject(t *testing.T) {
	var got []agent.CapabilityRef
	if err := json.Unmarshal([]byte(`["a", {"ref": "b"}, {"ref": "c", "config": {"x": 1}}, {"ref": "d", "config": null}]`), &got); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil || string(b) != `["a","b",{"ref":"c","config":{"x":1}},"d"]` {
		t.Errorf("%s, %v", b, err)
	}
	for _, bad := range []string{`[1]`, `[null]`, `[["a"]]`, `[{"ref":"a","conf":{}}]`, `[{"ref":1}]`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestAgentsAreChangedByVersion(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, says(text("old"), text("new"))).open()
	id := w.session()
	s, err := w.svc.Session(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	w.send(id, "hi")
	of := s.Agent.String()
	a, err := w.svc.UpdateAgent(ctx, ann, of, 1, func(a *agent.Agent) error { a.SystemPrompt = "Be better."; a.Version = 99; return nil })
	if err != nil || a.Version != 2 || a.SystemPrompt != "Be better." {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := w.svc.UpdateAgent(ctx, ann, of, 1, func(*agent.Agent) error { return nil }); !errors.Is(err, fault.Stale) {
		t.Errorf("of an old version: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := w.svc.UpdateAgent(ctx, ann, of, 0, func(a *agent.Agent) error { a.Limits.Steps++; return nil }); err != nil && !errors.Is(err, fault.Stale) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.send(id, "hi again")
	if rs := w.brain.requests(); strings.Contains(rs[0].System, "better") || !strings.Contains(rs[1].System, "Be better.") {
		t.Errorf("the session does not work with the agent as it is now")
	}
	if err := w.svc.DeleteAgent(ctx, ann, of); err != nil {
		t.Fatal(err)
	}
	if _, err := w.svc.Send(ctx, ann, id, "hi", nil); !errors.Is(err, fault.AgentUnknown) {
		t.Errorf("of a deleted agent: %v", err)
	}
	w.again()
	if made, err := w.replaySession(id); err != nil || made != 4 {
		t.Errorf("replay: %d, %v", made, err) // each run with the agent as it was
	}
}

func TestSessionsAndTheirFiles(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, says()).open()
	id := w.session()
	f, err := w.svc.WriteFile(ctx, ann, id, "docs/../docs/a.txt", []byte("one"), 0)
	if err != nil || f.Path != "/docs/a.txt" || f.Version != 1 || f.Size != 3 {
		t.Fatalf("%+v, %v", f, err)
	}
	if _, err := w.svc.WriteFile(ctx, ann, id, "/docs/a.txt", []byte("two"), 7); !errors.Is(err, fault.Stale) {
		t.Errorf("of another version: %v", err)
	}
	if f, err = w.svc.WriteFile(ctx, ann, id, "/docs/a.txt", []byte("two"), 1); err != nil || f.Version != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	for name, want := range map[string]fault.Code{"/docs": fault.Conflict, "/docs/a.txt/b": fault.Conflict, "/": fault.ArgsInvalid, "/\x00": fault.ArgsInvalid} {
		if _, err := w.svc.WriteFile(ctx, ann, id, name, nil, 0); !errors.Is(err, want) {
			t.Errorf("write %q: %v", name, err)
		}
	}
	if b, _, err := w.svc.ReadFile(ctx, id, "docs/a.txt"); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	if err := w.svc.DeleteFile(ctx, ann, id, "/docs", false); !errors.Is(err, fault.Conflict) {
		t.Errorf("a folder with something in it: %v", err)
	}
	if err := w.svc.DeleteFile(ctx, ann, id, "/docs", true); err != nil {
		t.Error(err)
	}
	if fs, err := w.svc.Files(ctx, id); err != nil || len(fs) != 0 {
		t.Errorf("%v, %v", fs, err)
	}
	if err := w.svc.DeleteSession(ctx, ann, id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.svc.Send(ctx, ann, id, "hi", nil); !errors.Is(err, fault.SessionUnknown) {
		t.Errorf("after its end: %v", err)
	}
	for _, bad := range []string{"", " \n", "\xff", strings.Repeat("x", agent.MaxMessage+1)} {
		if _, err := w.svc.Send(ctx, ann, w.session(), bad, nil); !errors.Is(err, fault.AgentInvalid) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

// Two processes take up one session at the same moment: one of them works on it.
func TestTwoProcessesDoNotWorkOnOneSession(t *testing.T) {
	w := newWorld(t, &brain{answer: func(_ int, r model.Request) (model.Response, error) { return text("yes"), nil }}).open()
	other := &world{t: t, home: w.home, policy: w.policy, brain: &brain{answer: w.brain.answer}, caps: w.caps}
	other.open()
	for range 10 {
		id := w.session()
		var all sync.WaitGroup
		errs := make([]error, 2)
		for i, x := range []*world{w, other} {
			all.Go(func() { _, errs[i] = x.svc.Send(context.Background(), ann, id, "hello", nil) })
		}
		all.Wait()
		worked := 0
		for _, err := range errs {
			if err == nil {
				worked++
			} else if !errors.Is(err, fault.SessionBusy) {
				t.Errorf("got %v", err)
			}
		}
		ms := w.messages(id)
		if worked != 1 || len(ms) != 2 {
			t.Fatalf("%d of two worked: %v; %d messages", worked, errs, len(ms))
		}
	}
}

// A session that does nothing gives its run up, and gets another one with the next
// message, however soon that comes.
func TestAnIdleSessionEndsItsRun(t *testing.T) {
	w := newWorld(t, &brain{answer: func(int, model.Request) (model.Response, error) { return text("yes"), nil }})
	w.idle = time.Millisecond
	w.open()
	id := w.session()
	running := func() (n int, all int) {
		runs, err := w.st.SessionRuns(context.Background(), uuid.MustParse(id))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if r.Status == "running" {
				n++
			}
		}
		return n, len(runs)
	}
	for i := range 60 {
		time.Sleep(time.Duration(i%6) * 300 * time.Microsecond) // around the moment when the run ends
		w.send(id, "hello")
	}
	until(t, "the end of the run", func() bool { n, _ := running(); return n == 0 })
	if _, all := running(); all < 2 {
		t.Errorf("there was one run only")
	}
	if made, err := w.replaySession(id); err != nil || made != 120 {
		t.Errorf("replay: %d, %v", made, err)
	}
}

// One who asks for the end of a run is told when the ledger could not record it.
func TestAnEndThatCannotBeRecordedIsTold(t *testing.T) {
	w := newWorld(t, says(text("yes"))).open()
	d := &dying{Store: w.st}
	d.left.Store(1000)
	w.rec = d
	w.serve()
	id := w.session()
	w.send(id, "hello")
	d.left.Store(0)
	if err := w.svc.EndRun(t.Context(), ann, id); !errors.Is(err, errDead) {
		t.Errorf("the end of the run: %v", err)
	}
	if err := w.svc.EndRun(t.Context(), ann, id); err != nil {
		t.Errorf("the end of no run: %v", err)
	}
}

// The run of a session is ended on request while no turn is under way. The next message begins another one.
func TestTheRunOfAQuietSessionIsEnded(t *testing.T) {
	var w *world
	var id string
	var during error
	w = newWorld(t, &brain{answer: func(int, model.Request) (model.Response, error) {
		during = w.svc.EndRun(t.Context(), ann, id)
		return text("yes"), nil
	}})
	w.open()
	id = w.session()
	for n := 1; n <= 2; n++ {
		w.send(id, "hello")
		if !errors.Is(during, fault.SessionBusy) {
			t.Errorf("during a turn: %v", during)
		}
		if err := w.svc.EndRun(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		runs, err := w.st.SessionRuns(t.Context(), uuid.MustParse(id))
		if err != nil || len(runs) != n || runs[n-1].Status == "running" {
			t.Errorf("%+v, %v", runs, err)
		}
	}
	if made, err := w.replaySession(id); err != nil || made != 4 {
		t.Errorf("replay: %d, %v", made, err)
	}
}
