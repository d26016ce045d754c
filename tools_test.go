package remit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit"
)

func nothing(context.Context, struct{}) (any, error) { return nil, nil }

func TestToolsOfAProgramAreChecked(t *testing.T) {
	named := func(names ...string) []remit.AgentTool {
		var out []remit.AgentTool
		for _, n := range names {
			out = append(out, remit.Func(n, "Does nothing.", `{"type": "object"}`, nothing))
		}
		return out
	}
	noSchema := named("a.b")
	noSchema[0].Input = []byte(`{`)
	noEffect := named("a.b")
	noEffect[0].Effects = []string{"everything"}
	tests := map[string]struct {
		tools []remit.AgentTool
		want  string
	}{
		"no group":        {named("berth"), "expected a group and a name"},
		"an empty group":  {named(".berth"), "expected a group and a name"},
		"a source's name": {named("mcp:x.y"), "expected a group and a name"},
		"an odd name":     {named("harbour.the berth"), "not a valid tool name"},
		"twice":           {named("a.b", "a.b"), "two tools are called a.b"},
		"a built-in tool": {named("fs.read"), "two tools are called fs.read"},
		"no schema":       {noSchema, "schema"},
		"no such effect":  {noEffect, "everything"},
		"no function":     {[]remit.AgentTool{{Name: "a.b", Description: "d", Input: []byte(`{}`)}}, "no function"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rt, err := remit.Open(t.Context(), remit.Options{Home: t.TempDir(), Workspace: t.TempDir(), Tools: tc.tools})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err == nil {
				_ = rt.Close()
			}
		})
	}
}

func TestToolsOfAProgramAreForPlansSessionsAndAgents(t *testing.T) {
	dir, calls := t.TempDir(), 0
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte("- tool_calls: [{name: count, args: {}}]\n- text: done\n"), 0o600))
	policy := "version: 1\nfiles: {read: {allow: [answers.yaml]}}\nmodels: {allow: ['scripted:*']}\ntools: {allow: [model.chat, numbers.count]}\n"
	open := func() *remit.Runtime {
		rt, err := remit.Open(t.Context(), remit.Options{Home: filepath.Join(dir, ".home"), Workspace: dir, PolicySource: []byte(policy), Tools: []remit.AgentTool{
			remit.Func("numbers.count", "Counts its calls.", `{"type": "object"}`, func(context.Context, struct{}) (any, error) { calls++; return calls, nil }).Harmless(),
			remit.Func("numbers.secret", "Is not allowed.", `{"type": "object"}`, nothing),
		}})
		must(err)
		return rt
	}
	rt := open()
	s, err := rt.Begin(t.Context(), "by hand")
	must(err)
	res, err := s.Call(t.Context(), "numbers.count", nil)
	if err != nil || string(res.Output) != `{"result":1}` {
		t.Errorf("got %s, %v", res.Output, err)
	}
	if _, err := s.Call(t.Context(), "numbers.secret", nil); !errors.Is(err, remit.Denied) {
		t.Errorf("a tool that the policy does not name: %v", err)
	}
	run, err := s.End(t.Context())
	must(err)
	agents, err := rt.Agents(t.Context())
	must(err)
	one, err := agents.Create(t.Context(), remit.Agent{Name: "Counter", SystemPrompt: "Count.", Model: "scripted:answers.yaml", Capabilities: remit.Uses("numbers")})
	must(err)
	session, err := agents.StartSession(t.Context(), one.ID, "")
	must(err)
	if turn, err := session.Send(t.Context(), "Count.", nil); err != nil || turn.Reply != "done" || calls != 2 {
		t.Errorf("the agent said %q after %d calls: %v", turn.Reply, calls, err)
	}
	must(agents.Close(t.Context()))
	must(rt.Close())

	rt = open() // another process of the same program
	if _, err := rt.Replay(t.Context(), run.ID); err != nil || calls != 2 {
		t.Errorf("the replay: %v, %d calls", err, calls)
	}
	var names []string
	for r, err := range rt.Runs(t.Context()) {
		must(err)
		names = append(names, r.Name+" "+string(r.Status))
	}
	if len(names) != 3 || names[2] != "by hand denied" {
		t.Errorf("runs %q", names)
	}
	must(rt.Close())
}

func TestExplainRecordsNothing(t *testing.T) {
	dir := t.TempDir()
	rt, err := remit.Open(t.Context(), remit.Options{Home: filepath.Join(dir, ".home"), Workspace: dir, PolicySource: []byte("version: 1\nfiles: {read: {allow: [a.txt]}}\n")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"a.txt": "allow", "b.txt": "deny"} {
		ex, err := rt.Explain(t.Context(), "fs.read", map[string]any{"path": path})
		if err != nil || ex.Effect != want || ex.Reason == "" || len(ex.Actions) != 1 {
			t.Errorf("%s: %+v, %v", path, ex, err)
		}
	}
	if _, err := rt.Explain(t.Context(), "no.such", nil); err == nil {
		t.Error("an unknown tool was explained")
	}
	for r, err := range rt.Runs(t.Context()) {
		t.Errorf("a run was recorded: %+v, %v", r, err)
	}
}

func TestOpenHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := remit.Open(ctx, remit.Options{Home: t.TempDir()}); !errors.Is(err, remit.ToolCancelled) {
		t.Errorf("got %v", err)
	}
}

// The models of a program stand beside those of the settings, under every rule for models.
func TestModelsOfAProgram(t *testing.T) {
	var keys []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("X-Key"))
		if r.URL.Path == "/v1/away" {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("Seven."))
	}))
	defer service.Close()
	ask := func(ctx context.Context, client *http.Client, q remit.ModelRequest, say func(string)) (remit.ModelAnswer, error) {
		text := q.Messages[len(q.Messages)-1].Text
		var url string
		switch text {
		case "busy":
			return remit.ModelAnswer{}, fmt.Errorf("come back later: %w", remit.ModelBusy)
		case "odd":
			return remit.ModelAnswer{}, errors.New("odd")
		case "pieces":
			say("Sev")
			return remit.ModelAnswer{Text: "Eight"}, nil
		case "broken call":
			return remit.ModelAnswer{Calls: []remit.ToolCall{{Name: "x", Args: []byte(`{"a":`)}}}, nil
		case "too many tokens":
			return remit.ModelAnswer{Text: "x", Tokens: remit.ModelTokens{Input: -1}}, nil
		case "elsewhere":
			url = "http://127.0.0.1:1/"
		default:
			url = service.URL + "/v1/" + text
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return remit.ModelAnswer{}, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return remit.ModelAnswer{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		say("Sev")
		return remit.ModelAnswer{Text: string(b), Tokens: remit.ModelTokens{Input: 5, Output: 2}}, err
	}
	policy := "version: 1\nmodels: {allow: ['harbour/*']}\ntools: {allow: [model.chat]}\n"
	rt, err := remit.Open(t.Context(), remit.Options{
		Home: t.TempDir(), Workspace: t.TempDir(), PolicySource: []byte(policy), Environ: []string{"HARBOUR_KEY=0123456789abcdef"},
		Models: []remit.ModelProvider{
			{Name: "harbour", URL: service.URL + "/v1/", Key: "HARBOUR_KEY", KeyHeader: "X-Key", Chat: ask},
			{Name: "lonely", Chat: ask},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	s, err := rt.Begin(t.Context(), "models")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		model, text string
		want        error
	}{
		{"harbour/large", "hello", nil},
		{"harbour/large", "busy", remit.ModelBusy},
		{"harbour/large", "odd", remit.ModelFailed},
		{"harbour/large", "pieces", remit.ModelFailed},
		{"harbour/large", "broken call", remit.ModelCall},
		{"harbour/large", "too many tokens", remit.ModelFailed},
		{"harbour/large", "elsewhere", remit.ModelFailed},
		{"harbour/large", "away", remit.ModelFailed},
		{"lonely/large", "hello", remit.Denied},
	}
	for _, tc := range tests {
		res, err := s.Call(t.Context(), "model.chat", map[string]any{"model": tc.model, "messages": []any{map[string]any{"role": "user", "text": tc.text}}})
		if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: got %s, %v, want %v", tc.text, res.Output, err, tc.want)
		}
		if tc.want == nil && !strings.Contains(string(res.Output), "Seven.") {
			t.Errorf("%s: %s", tc.text, res.Output)
		}
	}
	run, err := s.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"0123456789abcdef", "0123456789abcdef"}; !slices.Equal(keys, want) {
		t.Errorf("the service was sent the keys %q", keys)
	}
	if _, err := rt.Replay(t.Context(), run.ID); err != nil || len(keys) != 2 {
		t.Errorf("the replay: %v, %d requests", err, len(keys))
	}
	for name, bad := range map[string][]remit.ModelProvider{
		"scripted": {{Name: "scripted", Chat: ask}}, "no function": {{Name: "x"}}, "an odd name": {{Name: "a/b", Chat: ask}},
		"twice": {{Name: "a", Chat: ask}, {Name: "a", Chat: ask}}, "one of the settings": {{Name: "openai", Chat: ask}},
	} {
		if _, err := remit.Open(t.Context(), remit.Options{Home: t.TempDir(), Models: bad}); !errors.Is(err, remit.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
