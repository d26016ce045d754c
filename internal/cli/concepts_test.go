package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/cli"
)

// shown is an object that the command line prints and the HTTP API answers: the same one
// in a list and alone. Words in braces are the IDs of the example.
type shown struct {
	cli  string // arguments, without --json
	api  string // a path, requested with GET
	key  string // where each answer has a list: the field that identifies the item, as "run_id={run}"
	in   string // the field of the command's answer with the object, or with its list
	list string // the same of the API's answer

	// more are fields that only the command prints, with the reason.
	more map[string]string
}

// head is what the command prints of a whole run beside the run.
var head = map[string]string{
	"plan": "the name once more, where programs have always read it", "counts": "the totals once more, for the same reason",
	"plan_digest": "of the result", "policy": "of the result", "policies": "of the result", "duration_ms": "of the result",
	"steps": "the calls, which the API gives page by page",
}

// conversation is what the command prints of a whole session beside the session.
var conversation = map[string]string{
	"agent_name": "for people", "runs": "the API lists them by run", "conversation": "the messages, which the API gives page by page",
}

var concepts = map[string]shown{
	"run, in the list":       {cli: "runs", in: "items", api: "/v1/runs", list: "items", key: "run_id={run}"},
	"run":                    {cli: "show {run}", api: "/v1/runs/{run}", more: head},
	"run, of a session":      {cli: "sessions {session}", in: "runs", api: "/v1/runs", list: "items", key: "session_id={session}"},
	"call":                   {cli: "show {run}", in: "steps", api: "/v1/runs/{run}/calls", list: "items", key: "index=1"},
	"event of the ledger":    {cli: "audit", in: "items", api: "/v1/audit", list: "items", key: "event=run_finished"},
	"grant, in the list":     {cli: "grant list", in: "items", api: "/v1/grants", list: "items", key: "id={grant}"},
	"grant":                  {cli: "grant inspect {grant}", api: "/v1/grants/{grant}", more: map[string]string{"limits": "the budgets in words"}},
	"approval, in the list":  {cli: "approvals --all", in: "items", api: "/v1/approvals?all=true", list: "items", key: "id={approval}"},
	"approval":               {cli: "approvals show {approval}", api: "/v1/approvals/{approval}"},
	"history of an approval": {cli: "approvals history {approval}", api: "/v1/approvals/{approval}/history"},
	"tool, in the list":      {cli: "tools", in: "items", api: "/v1/tools", list: "items", key: "id=fs.read"},
	"tool":                   {cli: "tool fs.read", api: "/v1/tools/fs.read"},
	"agent, in the list":     {cli: "agents", in: "items", api: "/v1/agents", list: "items", key: "id={agent}"},
	"agent":                  {cli: "agents {agent}", api: "/v1/agents/{agent}"},
	"session, in the list":   {cli: "sessions", in: "items", api: "/v1/sessions", list: "items", key: "id={session}", more: map[string]string{"agent_name": "for people"}},
	"session":                {cli: "sessions {session}", api: "/v1/sessions/{session}", more: conversation},
	"message":                {cli: "sessions {session}", in: "conversation", api: "/v1/sessions/{session}/messages", list: "items", key: "number=2"},
}

const conceptPolicy = `version: 1
name: concepts
api: {allow: ["*"]}
models: {allow: ["*"]}
files: {read: {allow: ["**"]}, write: {allow: ["out/**"], ask: ["asked/**"]}}
delegate: {actions: [api, files.read, models, tools], to: ["*"], depth: 8}
`

const conceptPlan = `version: 1
name: example
steps:
  - {tool: fs.write, args: {path: out/a.txt, content: "a"}}
  - {tool: fs.write, args: {path: asked/a.txt, content: "a"}}
`

// The command line with --json and the HTTP API give each thing the same fields with the
// same values, in lists and alone.
func TestTheCommandLineAndTheAPIGiveTheSameFields(t *testing.T) {
	r := newRemit(t)
	for name, text := range map[string]string{"policy.yaml": conceptPolicy, "plan.yaml": conceptPlan, "model.yaml": "- {text: \"Hello.\", repeat: true}\n"} {
		must(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
	}
	policy := filepath.Join(r.dir, "policy.yaml")
	r.answer(3, "run", filepath.Join(r.dir, "plan.yaml"), "-p", policy, "-w", r.dir)
	s := r.serve(policy)
	ids := map[string]string{"{grant}": text(r.first("grant", "list"), "id"), "{approval}": text(r.first("approvals"), "id"), "{run}": text(r.first("runs"), "run_id"), "{agent}": text(s.send("/v1/agents", `{"name":"Greeter","model":"scripted:model.yaml"}`), "id")}
	ids["{session}"] = text(s.send("/v1/sessions", `{"agent_id":"`+ids["{agent}"]+`","title":"A talk"}`), "id")
	s.send("/v1/sessions/"+ids["{session}"]+"/messages", `{"content":"Hi"}`)
	fill := func(in string) string {
		for word, id := range ids {
			in = strings.ReplaceAll(in, word, id)
		}
		return in
	}
	for name, c := range concepts {
		t.Run(name, func(t *testing.T) {
			printed := choose(t, r.answer(0, strings.Fields(fill(c.cli))...), c.in, fill(c.key))
			answered := choose(t, s.get(fill(c.api)), c.list, fill(c.key))
			for field, why := range c.more {
				if _, has := printed[field]; !has {
					t.Errorf("the command does not print %s (%s)", field, why)
				}
				delete(printed, field)
			}
			if diff := cmp.Diff(answered, printed); diff != "" {
				t.Errorf("the API and the command differ (-API +command):\n%s", diff)
			}
			if len(printed) < 3 {
				t.Errorf("only %v was compared", slices.Collect(maps.Keys(printed)))
			}
		})
	}
}

// choose gives the object that an answer is or, with a key as "id=X", the one that its list has
// with that field.
func choose(t *testing.T, answer map[string]any, in, key string) map[string]any {
	t.Helper()
	if in == "" {
		return maps.Clone(answer)
	}
	list, _ := answer[in].([]any)
	field, want, _ := strings.Cut(key, "=")
	for _, one := range list {
		if o, ok := one.(map[string]any); ok && fmt.Sprint(o[field]) == want {
			return maps.Clone(o)
		}
	}
	t.Fatalf("nothing in %s has %s: %v", in, key, answer)
	return nil
}

func text(o map[string]any, field string) string {
	s, _ := o[field].(string)
	return s
}

// answer runs a command with --json.
func (r *remit) answer(status int, args ...string) map[string]any {
	r.t.Helper()
	var out, errs bytes.Buffer
	if got := r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, append(args, "--json")...); got != status {
		r.t.Fatalf("remit %v: status %d\n%s%s", args, got, out.String(), errs.String())
	}
	return object(r.t, &out)
}

// first gives the first item of a list.
func (r *remit) first(args ...string) map[string]any {
	r.t.Helper()
	items, _ := r.answer(0, args...)["items"].([]any)
	if len(items) == 0 {
		r.t.Fatalf("remit %v lists nothing", args)
	}
	one, _ := items[0].(map[string]any)
	return one
}

func object(t *testing.T, from io.Reader) map[string]any {
	t.Helper()
	var o map[string]any
	must(t, json.NewDecoder(from).Decode(&o))
	return o
}

// served is remit serve in this process.
type served struct {
	t          *testing.T
	url, token string
}

func (r *remit) serve(policy string) *served {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		environ := []string{"REMIT_HOME=" + r.home, "HOME=" + r.dir, "USER=ann"}
		cli.Main(ctx, []string{"serve", "--listen", "127.0.0.1:0", "-p", policy, "-w", r.dir, "--json"}, cli.Streams{In: strings.NewReader(""), Out: in, Err: &errs}, environ, "test")
		_ = in.Close() // a service that did not start ends the wait below
	}()
	r.t.Cleanup(func() {
		cancel()
		<-ended
	})
	var told struct{ URL, Token string }
	if err := json.NewDecoder(out).Decode(&told); err != nil {
		cancel()
		<-ended
		r.t.Fatalf("remit serve: %v\n%s", err, errs.String())
	}
	return &served{r.t, told.URL, told.Token}
}

func (s *served) get(path string) map[string]any { return s.do(http.MethodGet, path, "") }

func (s *served) send(path, body string) map[string]any { return s.do(http.MethodPost, path, body) }

func (s *served) do(method, path, body string) map[string]any {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	must(s.t, err)
	q.Header.Set("Authorization", "Bearer "+s.token)
	q.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(q)
	must(s.t, err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		b, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, b)
	}
	return object(s.t, res.Body)
}
