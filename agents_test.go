package remit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit"
)

// agents opens the agents of a runtime in folders of the test's own, with a script
// of answers.
func agents(t *testing.T, rt *remit.Runtime, own ...remit.Capability) *remit.Agents {
	t.Helper()
	a, err := rt.Agents(t.Context(), own...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func scripted(t *testing.T, answers string) (workspace string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte(answers), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func say(t *testing.T, a *remit.Agents, x remit.Agent, text string) (*remit.AgentSession, remit.Turn, error) {
	t.Helper()
	x.Model = "scripted:answers.yaml"
	x, err := a.Create(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.StartSession(t.Context(), x.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Send(t.Context(), text, nil)
	return s, turn, err
}

const anyArgs = `{"type": "object", "additionalProperties": false}`

func tried(name string, run func(context.Context, struct{}) (any, error)) remit.AgentTool {
	return remit.Func(name, "Is tried out by a test.", anyArgs, run)
}

func TestAProgramsToolNeedsAPolicyThatNamesIt(t *testing.T) {
	const answers = "- tool_calls: [{name: go, args: {}}]\n- text: done\n"
	for name, k := range map[string]struct {
		tools string
		runs  bool
	}{
		"no policy speaks of it":                 {"", false},
		"it is allowed":                          {"tools: {allow: [model.chat, mine.go]}\n", true},
		"another is allowed":                     {"tools: {allow: [model.chat, mine.come]}\n", false},
		"it is denied":                           {"tools: {allow: ['*'], deny: [mine.go]}\n", false},
		"it is asked about, and nobody is there": {"tools: {allow: ['*'], ask: [mine.go]}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			rt := runtime(t, remit.Options{Workspace: scripted(t, answers), PolicySource: []byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['*']}\n" + k.tools)})
			a := agents(t, rt, remit.Capability{ID: "mine", Description: "Mine.", Tools: []remit.AgentTool{
				tried("go", func(context.Context, struct{}) (any, error) { ran = true; return "here", nil }),
			}})
			_, turn, err := say(t, a, remit.Agent{Name: "x", Capabilities: remit.Uses("mine")}, "go")
			if err != nil || turn.Reply != "done" || ran != k.runs || turn.Messages[2].Failed == k.runs {
				t.Errorf("ran %t, %v, %+v", ran, err, turn.Messages)
			}
			if k.runs && turn.Messages[2].Text != `{"result":"here"}` {
				t.Errorf("the model is told %s", turn.Messages[2].Text)
			}
		})
	}
}

func TestAPersonAnswersForASessionsCall(t *testing.T) {
	asked := make(chan remit.Question, 1)
	rt := runtime(t, remit.Options{
		Workspace: scripted(t, "- tool_calls: [{name: go, args: {}}]\n- text: done\n"), User: "ann",
		PolicySource: []byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['*']}\ntools: {allow: ['*'], ask: [mine.go]}\n"),
		Ask: func(_ context.Context, q remit.Question) (remit.Answer, error) {
			asked <- q
			return remit.Answer{Yes: true}, nil
		},
	})
	a := agents(t, rt, remit.Capability{ID: "mine", Description: "Mine.", Tools: []remit.AgentTool{
		tried("go", func(context.Context, struct{}) (any, error) { return nil, nil }),
	}})
	_, turn, err := say(t, a, remit.Agent{Name: "x", Capabilities: remit.Uses("mine")}, "go")
	if err != nil || turn.Messages[2].Failed {
		t.Fatalf("%v, %+v", err, turn.Messages)
	}
	if q := <-asked; q.Tool != "mine.go" || q.Risk != "high" {
		t.Errorf("asked: %+v", q)
	}
}

func TestWhatAFunctionSaysOfItsFailureIsTold(t *testing.T) {
	rt := runtime(t, remit.Options{
		Workspace:    scripted(t, "- tool_calls: [{name: fail, args: {}}, {name: panic, args: {}}, {name: odd, args: {}}, {name: fail, args: {more: 1}}]\n- text: done\n"),
		PolicySource: []byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['*']}\ntools: {allow: ['*']}\n"),
	})
	a := agents(t, rt, remit.Capability{ID: "mine", Description: "Mine.", Tools: []remit.AgentTool{
		tried("fail", func(context.Context, struct{}) (any, error) { return nil, errors.New("no such ship") }),
		tried("panic", func(context.Context, struct{}) (any, error) { panic("overboard") }),
		tried("odd", func(context.Context, struct{}) (any, error) { return make(chan int), nil }),
	}})
	_, turn, err := say(t, a, remit.Agent{Name: "x", Capabilities: remit.Uses("mine")}, "go")
	if err != nil || len(turn.Messages) != 7 {
		t.Fatalf("%v, %+v", err, turn.Messages)
	}
	for i, want := range []string{"no such ship", remit.ToolPanicked.Error(), remit.OutputInvalid.Error(), remit.ArgsInvalid.Error()} {
		if m := turn.Messages[2+i]; !m.Failed || !strings.Contains(m.Text, want) {
			t.Errorf("want %s, got %s", want, m.Text)
		}
	}
}

func TestCapabilitiesThatMakeNoSenseAreRefused(t *testing.T) {
	rt := runtime(t, remit.Options{PolicySource: []byte(policy)})
	fine := tried("go", func(context.Context, struct{}) (any, error) { return nil, nil })
	with := func(change func(*remit.AgentTool)) remit.Capability {
		x := fine
		change(&x)
		return remit.Capability{ID: "mine", Description: "Mine.", Tools: []remit.AgentTool{x}}
	}
	for name, c := range map[string]remit.Capability{
		"no ID":             {Description: "Mine."},
		"a built-in ID":     {ID: "test_math", Description: "Mine."},
		"no description":    {ID: "mine"},
		"no function":       with(func(x *remit.AgentTool) { x.Run = nil }),
		"no name":           with(func(x *remit.AgentTool) { x.Name = "" }),
		"an odd name":       with(func(x *remit.AgentTool) { x.Name = "a.b" }),
		"no schema":         with(func(x *remit.AgentTool) { x.Input = nil }),
		"an unknown effect": with(func(x *remit.AgentTool) { x.Effects = []string{"magic"} }),
		"an unknown risk":   with(func(x *remit.AgentTool) { x.Risk = "none" }),
	} {
		if a, err := rt.Agents(t.Context(), c); !errors.Is(err, remit.CapabilityInvalid) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = a.Close(t.Context()) // it did nothing
			}
		}
	}
	for name, o := range map[string]remit.Options{"held": {Changeset: true}, "planning": {Planning: true}, "bound to a key": {GrantKey: "k"}} {
		o.PolicySource = []byte(policy)
		if _, err := runtime(t, o).Agents(t.Context()); !errors.Is(err, remit.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASessionCanBeFoundForkedAndClosed(t *testing.T) {
	rt := runtime(t, remit.Options{
		Workspace:    scripted(t, "- tool_calls: [{name: write_file, args: {path: /a.txt, content: one}}]\n- text: first\n- text: second\n"),
		PolicySource: []byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['scripted:answers.yaml']}\n"),
	})
	a := agents(t, rt)
	if !slices.ContainsFunc(a.Capabilities(), func(i remit.CapabilityInfo) bool { return i.ID == "session_file_system" }) {
		t.Error("session_file_system is not listed")
	}
	s, turn, err := say(t, a, remit.Agent{Name: "Writer", Capabilities: []remit.Use{{ID: "session_file_system"}, {ID: "current_time", Config: map[string]any{}}}}, "write")
	if err != nil || turn.Reply != "first" {
		t.Fatalf("%v %+v", err, turn)
	}
	if b, err := s.ReadFile(t.Context(), "/a.txt"); err != nil || string(b) != "one" {
		t.Errorf("%q %v", b, err)
	}
	if err := s.WriteFile(t.Context(), "/b/c.txt", []byte("two")); err != nil {
		t.Error(err)
	}
	found, err := a.Session(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	fork, err := found.Fork(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if turn, err := fork.Send(t.Context(), "and?", nil); err != nil || turn.Reply != "second" || turn.Session.Messages != 6 {
		t.Errorf("the fork: %v %+v", err, turn)
	}
	if info, err := s.Info(t.Context()); err != nil || info.State != remit.SessionIdle || info.Messages != 4 || info.Tokens == 0 {
		t.Errorf("%+v %v", info, err)
	}
	writer, err := a.Get(t.Context(), "Writer")
	if err != nil || writer.Version != 1 || len(writer.Capabilities) != 2 {
		t.Fatalf("%+v %v", writer, err)
	}
	writer.SystemPrompt = "Write."
	if writer, err = a.Update(t.Context(), writer); err != nil || writer.Version != 2 {
		t.Errorf("%+v %v", writer, err)
	}
	writer.Version = 1
	if _, err = a.Update(t.Context(), writer); !errors.Is(err, remit.Stale) {
		t.Errorf("an old version: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), "more", nil); !errors.Is(err, remit.SessionUnknown) {
		t.Errorf("after its end: %v", err)
	}
	if err := a.Delete(t.Context(), writer.ID); err != nil {
		t.Error(err)
	}
	if _, err := a.StartSession(t.Context(), writer.ID, ""); !errors.Is(err, remit.AgentUnknown) {
		t.Errorf("of a deleted agent: %v", err)
	}
	if list, err := a.List(t.Context(), 10); err != nil || slices.ContainsFunc(list, func(x remit.Agent) bool { return x.ID == writer.ID }) {
		t.Errorf("%+v %v", list, err)
	}
}

func TestAgentsAreUnderTheRuntimesGrant(t *testing.T) {
	home, dir := t.TempDir(), scripted(t, "- {text: hello, repeat: true}\n")
	owner := runtime(t, remit.Options{Home: home, Workspace: dir})
	token, err := owner.IssueGrant(t.Context(), remit.GrantTerms{Policies: [][]byte{[]byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['*']}\n")}, Calls: 1, Note: "for a test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.IssueGrant(t.Context(), remit.GrantTerms{}); !errors.Is(err, remit.Usage) {
		t.Errorf("without a policy: %v", err)
	}
	if _, err := owner.NarrowGrant(t.Context(), "nonsense", remit.GrantTerms{}); err == nil {
		t.Error("nonsense is narrowed")
	}
	a := agents(t, runtime(t, remit.Options{Home: home, Workspace: dir, Grant: token}))
	s, turn, err := say(t, a, remit.Agent{Name: "x"}, "hello")
	if err != nil || turn.Reply != "hello" {
		t.Fatalf("%v %+v", err, turn)
	}
	if _, err := s.Send(t.Context(), "again", nil); !errors.Is(err, remit.BudgetSpent) {
		t.Errorf("the second call of one: %v", err)
	}
	if err := owner.RevokeGrant(t.Context(), token, "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.StartSession(t.Context(), "x", ""); !errors.Is(err, remit.GrantRevoked) {
		t.Errorf("under a revoked grant: %v", err)
	}
}
