package remit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	remit "github.com/remitrun/remit"
)

func TestAHookRefusesAndAnnotatesCalls(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	rt := runtime(t, remit.Options{PolicySource: []byte("version: 1\nfiles: {read: {allow: [\"**\"], ask: [\"asked\"]}}\n"),
		Ask: func(context.Context, remit.Question) (remit.Answer, error) { return remit.Answer{Yes: true}, nil },
		Around: func(_ context.Context, e remit.HookEvent) (string, error) {
			mu.Lock()
			seen = append(seen, string(e.Stage)+" "+string(e.Status))
			mu.Unlock()
			given := string(e.Args)
			clear(e.Args) // it is a copy
			switch {
			case e.Stage == remit.HookBefore && strings.Contains(given, "refused"):
				return "not today", errors.New("closed on Mondays")
			case e.Stage == remit.HookBefore && strings.Contains(given, "crash"):
				panic("ouch")
			case e.Stage == remit.HookDenied:
				return "", errors.New("nothing to allow") // an error does not allow anything
			}
			return "seen " + string(e.Stage), nil
		}})
	s, err := rt.Begin(t.Context(), "hooked")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]remit.Code{".": 0, "asked": remit.NotFound, "refused": remit.HookRefused, "crash": remit.HookRefused, "/etc/passwd": remit.Denied} {
		if _, err := s.Call(t.Context(), "fs.stat", map[string]any{"path": path}); want == 0 && err != nil || want != 0 && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	run, err := s.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before ", "after completed", "after failed", "asked ", "denied denied"} {
		if !slices.Contains(seen, want) {
			t.Errorf("the hook was not called at %q: %q", want, seen)
		}
	}
	var out strings.Builder
	if err := rt.Report(t.Context(), &out, run.ID, remit.JSON); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"before": "not today"`, `"after": "seen after"`, `"asked": "seen asked"`, `"denied": "the hook failed: nothing to allow"`,
		`"path": "asked"`, "E1007", "a hook refused the call: closed on Mondays", "the hook crashed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
	if r, err := rt.Replay(t.Context(), run.ID); err != nil || r.Mismatch != nil {
		t.Errorf("replay: %+v, %v", r, err)
	}
}

// A capability is called around the calls of its own tools, and of no others.
func TestACapabilityIsCalledAroundItsToolsCalls(t *testing.T) {
	const answers = "- tool_calls: [{name: go, args: {}}, {name: halt, args: {}}, {name: get_current_time, args: {}}]\n- text: done\n"
	var mu sync.Mutex
	var seen []string
	ran := ""
	rt := runtime(t, remit.Options{Workspace: scripted(t, answers), PolicySource: []byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['*']}\ntools: {allow: ['*'], deny: [mine.never]}\n")})
	a := agents(t, rt, remit.Capability{ID: "mine", Description: "Mine.", Tools: []remit.AgentTool{
		tried("go", func(context.Context, struct{}) (any, error) { ran += "go"; return "here", nil }),
		tried("halt", func(context.Context, struct{}) (any, error) { ran += "halt"; return "here", nil }),
	}, Around: func(_ context.Context, e remit.HookEvent) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, string(e.Stage)+" "+e.Tool)
		if e.Stage == remit.HookBefore && e.Tool == "mine.halt" {
			return "", errors.New("not now")
		}
		return "of mine", nil
	}})
	_, turn, err := say(t, a, remit.Agent{Name: "x", Capabilities: remit.Uses("mine", "current_time")}, "go")
	if err != nil || turn.Reply != "done" || ran != "go" {
		t.Fatalf("%v, %q, ran %q", err, turn.Reply, ran)
	}
	slices.Sort(seen)
	if got := strings.Join(seen, ", "); got != "after mine.go, before mine.go, before mine.halt, denied mine.halt" {
		t.Errorf("it was called at %s", got)
	}
	if text := turn.Messages[3].Text; !strings.Contains(text, "E1007") || !strings.Contains(text, `the hook \"mine\" refused the call: not now`) {
		t.Errorf("the model was told %q", text)
	}
}

// What a read-only capability offers has no effect, whatever the policy allows.
func TestAReadOnlyCapabilityHasNoEffect(t *testing.T) {
	const answers = "- tool_calls: [{name: look, args: {}}, {name: change, args: {}}]\n- text: done\n"
	for readOnly, want := range map[bool]string{false: "look change", true: "look"} {
		ran := []string{}
		rt := runtime(t, remit.Options{Workspace: scripted(t, answers), PolicySource: []byte("version: 1\nname: p\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['*']}\ntools: {allow: ['*']}\n")})
		look := tried("look", func(context.Context, struct{}) (any, error) { ran = append(ran, "look"); return "here", nil })
		change := tried("change", func(context.Context, struct{}) (any, error) { ran = append(ran, "change"); return "here", nil })
		look.Effects, change.Effects = []string{"fs.read"}, []string{"fs.write"}
		a := agents(t, rt, remit.Capability{ID: "mine", Description: "Mine.", ReadOnly: readOnly, Tools: []remit.AgentTool{look, change}})
		_, turn, err := say(t, a, remit.Agent{Name: "x", Capabilities: remit.Uses("mine")}, "go")
		slices.Sort(ran)
		slices.Reverse(ran)
		if err != nil || strings.Join(ran, " ") != want {
			t.Fatalf("read-only %v: ran %q, want %q (%v)", readOnly, ran, want, err)
		}
		if text := turn.Messages[3].Text; readOnly && (!strings.Contains(text, "E1001") || !strings.Contains(text, "side_effects.deny")) {
			t.Errorf("the model was told %q", text)
		}
	}
}
