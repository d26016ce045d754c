package hooks_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/runs"
)

// world is Remit with hooks, and a workspace in which the policy lets open.txt be read.
type world struct {
	t         *testing.T
	app       *app.App
	workspace string
}

const (
	openPolicy = "version: 1\nname: open\nfiles: {read: {allow: [open.txt]}}\n"
	askPolicy  = "version: 1\nname: ask\nfiles: {read: {ask: [open.txt]}}\n"
)

func newWorld(t *testing.T, hooks string, secrets ...string) *world {
	t.Helper()
	homeDir, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(homeDir, "config.yaml"): "secrets: {keyring: false}\nhooks:\n" + hooks, filepath.Join(dir, "open.txt"): "open", filepath.Join(dir, "secret.txt"): "secret",
		filepath.Join(dir, "open.yaml"): openPolicy, filepath.Join(dir, "ask.yaml"): askPolicy,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := apptest.New(t, homeDir)
	for i := 0; i+1 < len(secrets); i += 2 {
		if _, err := a.Secrets.Set(secrets[i], secrets[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := home.Workspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, a, ws}
}

// read reads a file of the workspace in a run of its own, and gives what came of it and the notes.
func (w *world) read(policy, path string) (runner.Outcome, map[string]string) {
	w.t.Helper()
	run, err := w.app.Runs.Begin(w.t.Context(), runs.Request{Name: "hooked", Policy: filepath.Join(w.workspace, policy), Workspace: w.workspace})
	if err != nil {
		w.t.Fatal(err)
	}
	o, err := run.Call(w.t.Context(), runner.Call{Tool: "fs.read", Args: tool.Args{"path": path}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := run.End(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	_, steps, err := w.app.History.Steps(w.t.Context(), run.ID().String())
	if err != nil {
		w.t.Fatal(err)
	}
	var notes map[string]string
	for s, err := range steps {
		if err != nil {
			w.t.Fatal(err)
		}
		notes = s.Notes
	}
	return o, notes
}

// refused checks that a call was refused by a hook, with a text.
func (w *world) refused(o runner.Outcome, want string) {
	w.t.Helper()
	if o.Status != tool.StatusDenied || fault.CodeOf(o.Err) != fault.HookRefused || !strings.Contains(o.Err.Error(), want) || o.Output != nil {
		w.t.Errorf("%s %v, want a refusal with %q", o.Status, o.Err, want)
	}
}

// receiver is a webhook that answers with a function.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []map[string]any
}

func newReceiver(t *testing.T, answer http.HandlerFunc, check func(h http.Header, body []byte)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		var m map[string]any
		if err != nil || json.Unmarshal(b, &m) != nil {
			t.Errorf("received %q, %v", b, err)
		}
		if check != nil {
			check(q.Header, b)
		}
		r.mu.Lock()
		r.got = append(r.got, m)
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) events() []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestAWebhookRefusesAndAnnotates(t *testing.T) {
	for name, c := range map[string]struct{ answer, refusal, note string }{
		"a refusal":      {`{"refuse": "the release is frozen"}`, `the hook "ops" refused the call: the release is frozen`, ""},
		"a note":         {`{"note": "ticket 4711"}`, "", "ops: ticket 4711"},
		"both":           {`{"refuse": "no", "note": "ticket 4711"}`, "refused the call: no", "ops: ticket 4711"},
		"nothing to say": {`{}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, says(c.answer), nil)
			w := newWorld(t, "  ops: {url: '"+r.URL+"', events: [before]}\n")
			o, notes := w.read("open.yaml", "open.txt")
			if c.refusal != "" {
				w.refused(o, c.refusal)
			} else if o.Status != tool.Completed {
				t.Errorf("%s %v", o.Status, o.Err)
			}
			if notes["before"] != c.note {
				t.Errorf("the notes are %v", notes)
			}
		})
	}
}

func TestAWebhookGetsSignedEventsWithoutArguments(t *testing.T) {
	r := newReceiver(t, says(`{"note": "seen"}`), func(h http.Header, body []byte) {
		if want := notify.Signature("key of tests", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body); h.Get("Webhook-Signature") != want || h.Get("Authorization") != "Bearer token-123" {
			t.Errorf("the header is %v", h)
		}
		if strings.Contains(string(body), "open.txt") || strings.Contains(string(body), "secret.txt") {
			t.Errorf("the event tells the arguments: %s", body)
		}
	})
	w := newWorld(t, "  ops: {url: 'secret:where', key: secret:hook, token: secret:bearer, events: [asked, before, after, denied]}\n",
		"where", r.URL, "hook", "key of tests", "bearer", "token-123")
	_, notes := w.read("open.yaml", "open.txt")
	if notes["before"] != "ops: seen" || notes["after"] != "ops: seen" {
		t.Errorf("the notes are %v", notes)
	}
	_, notes = w.read("open.yaml", "secret.txt")
	if notes["denied"] != "ops: seen" {
		t.Errorf("the notes of a denied call are %v", notes)
	}
	_, notes = w.read("ask.yaml", "open.txt")
	if notes["asked"] != "ops: seen" {
		t.Errorf("the notes of a call that asks are %v", notes)
	}
	var events []string
	for _, e := range r.events() {
		events = append(events, e["event"].(string))
		if e["version"] != 1.0 || e["tool"] != "fs.read" || e["risk"] != "low" || e["call"] != 1.0 || e["holder"] == "" || e["event"] == "denied" && e["code"] == "" {
			t.Errorf("an event is %v", e)
		}
	}
	if got := strings.Join(events, " "); got != "before after denied asked denied" {
		t.Errorf("the events are %s", got)
	}
}

func TestAWebhookGetsArgumentsWhereTheOperatorSaysSo(t *testing.T) {
	r := newReceiver(t, says(`{}`), nil)
	w := newWorld(t, "  ops: {url: '"+r.URL+"', events: [before, denied], arguments: true, tools: ['fs.*']}\n")
	w.read("open.yaml", "open.txt")
	w.read("open.yaml", "secret.txt")
	list := r.events()
	if len(list) != 2 || list[0]["arguments"].(map[string]any)["path"] != "open.txt" || !strings.Contains(list[1]["error"].(string), "secret.txt") {
		t.Errorf("the events are %v", list)
	}
}

func TestAHookIsCalledForItsToolsOnly(t *testing.T) {
	r := newReceiver(t, says(`{"refuse": "no"}`), nil)
	w := newWorld(t, "  ops: {url: '"+r.URL+"', events: [before], tools: [shell.run, 'mcp:*', fs.reads]}\n")
	if o, _ := w.read("open.yaml", "open.txt"); o.Status != tool.Completed || len(r.events()) != 0 {
		t.Errorf("%s %v", o.Status, o.Err)
	}
}

// Each way in which a webhook fails refuses a call before it runs, and is noted after it.
func TestAWebhookFails(t *testing.T) {
	elsewhere := newReceiver(t, says(`{}`), nil)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a status":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "the receiver answered with status 502"},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "the receiver answered with status 204"},
		"a redirect": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "the receiver answered with status 307"},
		"no answer":     {func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "it did not answer within 50ms"},
		"a cut answer":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "it failed"},
		"not JSON":      {says("ok"), "its answer is not a JSON object"},
		"a list":        {says("[]"), "its answer is not a JSON object"},
		"nothing":       {says(""), "its answer is not a JSON object"},
		"a key twice":   {says(`{"refuse": "no", "refuse": ""}`), "its answer is not a JSON object"},
		"it allows":     {says(`{"allow": true}`), "its answer has other fields"},
		"new arguments": {says(`{"arguments": {"path": "secret.txt"}}`), "its answer has other fields"},
		"no string":     {says(`{"refuse": false}`), "its answer has other fields"},
		"a long answer": {says(`{"note": "` + strings.Repeat("x", notify.MaxAnswer) + `"}`), "its answer has more than 65535 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, c.answer, nil)
			timeout := "5s"
			if name == "no answer" {
				timeout = "50ms"
			}
			w := newWorld(t, "  ops: {url: '"+r.URL+"', events: [before], timeout: "+timeout+"}\n")
			o, _ := w.read("open.yaml", "open.txt")
			w.refused(o, c.want)
			w = newWorld(t, "  ops: {url: '"+r.URL+"', events: [after], timeout: "+timeout+"}\n")
			if o, notes := w.read("open.yaml", "open.txt"); o.Status != tool.Completed || !strings.Contains(notes["after"], `the hook "ops" failed: it failed: `) {
				t.Errorf("%s %v, notes %v", o.Status, o.Err, notes)
			}
		})
	}
	if n := len(elsewhere.events()); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	w := newWorld(t, "  ops: {url: 'secret:missing', events: [before]}\n")
	o, _ := w.read("open.yaml", "open.txt")
	w.refused(o, `hooks.ops.url: no secret "missing" is stored`)
}

// Nothing that a hook answers lets a call through that the policy denies, or that a person must
// approve.
func TestAHookAllowsNothing(t *testing.T) {
	for _, answer := range []string{`{}`, `{"note": "fine"}`, `{"allow": true}`, `{"refuse": ""}`, `{"refuse": "no"}`} {
		r := newReceiver(t, says(answer), nil)
		w := newWorld(t, "  ops: {url: '"+r.URL+"', events: [asked, before, after, denied]}\n")
		for policy, path := range map[string]string{"open.yaml": "secret.txt", "ask.yaml": "open.txt"} {
			o, _ := w.read(policy, path)
			if code := fault.CodeOf(o.Err); o.Status != tool.StatusDenied || code != fault.Denied && code != fault.NeedsApproval || o.Output != nil {
				t.Errorf("%s, %s: %s %v", answer, policy, o.Status, o.Err)
			}
		}
	}
}

func TestAProgramIsAHook(t *testing.T) {
	for name, c := range map[string]struct{ script, refusal, note string }{
		"a refusal":       {`grep -q '"path":"open.txt"' && echo '{"refuse": "it is mine"}'`, `the hook "guard" refused the call: it is mine`, ""},
		"a note":          {`cat > /dev/null; echo '{"note": "seen"}'`, "", "guard: seen"},
		"a status":        {"echo '{}'; exit 3", "the program exited with status 3", ""},
		"a signal":        {"kill -9 $$", "the program was ended by", ""},
		"no answer":       {"cat > /dev/null", "its answer is not a JSON object", ""},
		"it allows":       {`echo '{"allow": true}'`, "its answer has other fields", ""},
		"a long answer":   {"yes | head -c 100000", "its answer has more than 65535 bytes", ""},
		"no end":          {"while :; do sleep 1; done", "did not answer within 300ms|was stopped after", ""},
		"other files":     {`cat WORKSPACE/secret.txt 2>/dev/null && echo x; echo '{"note": "confined"}'`, "", "guard: confined"},
		"writes":          {`echo x 2>/dev/null > WORKSPACE/open.txt; echo '{"note": "confined"}'`, "", "guard: confined"},
		"other programs":  {`id > /dev/null; echo '{"note": "ran"}'`, "", "guard: ran"}, // as any script in the sandbox
		"the environment": {`test -z "$REMIT_TEST_TOKEN" && echo '{"note": "empty"}'`, "", "guard: empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REMIT_TEST_TOKEN", "token")
			file := filepath.Join(t.TempDir(), "hook")
			timeout := "10s"
			if name == "no end" {
				timeout = "300ms"
			}
			w := newWorld(t, "  guard: {command: ['"+file+"'], events: [before], arguments: true, timeout: "+timeout+"}\n")
			script := "#!/bin/sh\n" + strings.ReplaceAll(c.script, "WORKSPACE", w.workspace)
			if err := os.WriteFile(file, []byte(script), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			o, notes := w.read("open.yaml", "open.txt")
			switch {
			case c.refusal == "":
				if o.Status != tool.Completed || notes["before"] != c.note {
					t.Errorf("%s %v, notes %v", o.Status, o.Err, notes)
				}
			case fault.CodeOf(o.Err) != fault.HookRefused || !anyOf(o.Err.Error(), c.refusal):
				t.Errorf("%s %v, want %s", o.Status, o.Err, c.refusal)
			}
			if b, err := os.ReadFile(filepath.Join(w.workspace, "open.txt")); err != nil || string(b) != "open" {
				t.Errorf("the workspace has %q, %v", b, err)
			}
		})
	}
}

func anyOf(text, wants string) bool {
	for want := range strings.SplitSeq(wants, "|") {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

func TestAProgramThatIsNotThereRefuses(t *testing.T) {
	w := newWorld(t, "  guard: {command: [/nonexistent/hook], events: [before]}\n")
	o, _ := w.read("open.yaml", "open.txt")
	w.refused(o, "it failed: ")
}

// Hooks are called in their order, until one refuses.
func TestHooksFollowEachOther(t *testing.T) {
	first, second, third := newReceiver(t, says(`{"note": "one"}`), nil), newReceiver(t, says(`{"refuse": "two"}`), nil), newReceiver(t, says(`{}`), nil)
	w := newWorld(t, "  a: {url: '"+first.URL+"', events: [before, denied]}\n  b: {url: '"+second.URL+"', events: [before, denied]}\n  c: {url: '"+third.URL+"', events: [before]}\n")
	o, notes := w.read("open.yaml", "open.txt")
	w.refused(o, `the hook "b" refused the call: two`)
	if len(third.events()) != 0 || notes["before"] != "a: one" || !strings.HasPrefix(notes["denied"], "a: one\nthe hook \"b\" failed: it can refuse a call only at the event before") {
		t.Errorf("notes %v, the third was called %d times", notes, len(third.events()))
	}
}
