package approval_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/tools/builtin/request"
)

// reader is a tool that reads a path and tells that it ran.
type reader struct{ ran int }

func (r *reader) Spec() *tool.Spec {
	return &tool.Spec{ID: "test.read", Title: "read", Version: "1", Source: "builtin", Effects: tool.EffectSet(tool.FSRead),
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{"path":{"type":"string"}}}`)}
}

func (r *reader) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	path, _ := args["path"].(string)
	return permit.Prepared{Actions: []tool.Action{{Kind: tool.FileRead, Path: env.Workspace + "/" + path}}, Run: func(context.Context, permit.Permit) (tool.Result, error) {
		r.ran++
		return tool.Result{Output: map[string]any{}}, nil
	}}, nil
}

// plain fills in facts as if there were no links.
type plain struct{}

func (plain) Fill(_ context.Context, _ tool.Env, _ policy.Limits, _ runner.Call, as []tool.Action) error {
	for i := range as {
		as[i].Real = as[i].Path
	}
	return nil
}

func (plain) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

// requests is a run whose calls request authority.
type requests struct {
	tool *reader
	desk *approval.Desk
	rn   *runner.Runner
	run  *runner.Run
	says store.Vote // the answer to the next question
	last store.Approval
}

// fataler is what both kinds of tests have.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// newRequests starts a run. Each entry of srcs is a policy of its chain.
func newRequests(t fataler, s *sqlite.Store, srcs ...string) *requests {
	t.Helper()
	r := &requests{tool: &reader{}}
	cat, err := catalog.New(append(request.Tools(), r.tool)...)
	if err != nil {
		t.Fatal(err)
	}
	env := policy.Env{Workspace: "/w", Path: []string{"/usr/bin"}}
	var ps []*policy.Policy
	for _, src := range srcs {
		p, err := policy.Parse("p.yaml", []byte("version: 1\n"+src))
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	g, err := grant.Root(uuid.Must(uuid.NewV7()), "agent:"+uuid.NewString(), env, ps...)
	if err != nil {
		t.Fatal(err)
	}
	r.desk = &approval.Desk{Store: s, Here: func(_ context.Context, c approval.Case) (store.Vote, error) {
		r.last = c.Question
		v := r.says
		if v.Session != nil {
			v.Session, _ = json.Marshal(c.Body.Pattern)
		}
		return v, nil
	}, Edits: func(runner.Question) ([]approval.Edit, error) {
		return []approval.Edit{{File: "/p.yaml", Lines: []learn.Line{{List: "files.read.allow", Text: "x"}}, Diff: "+x\n"}}, nil
	}}
	r.rn = &runner.Runner{Catalog: cat, Record: s, Facts: plain{}, Execs: runner.Direct{}, Ask: r.desk}
	if r.run, _, err = r.rn.Start(context.Background(), runner.Info{ID: uuid.Must(uuid.NewV7()), Grant: g, Bound: env}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *requests) request(t fataler, args tool.Args) runner.Outcome {
	t.Helper()
	args["reason"] = "it is needed"
	return r.rn.Execute(context.Background(), r.run, runner.Call{Tool: tool.AuthorityRequest, Args: args})
}

func (r *requests) wants(path string) tool.Args {
	return tool.Args{"tool": "test.read", "args": map[string]any{"path": path}}
}

func (r *requests) read(path string) runner.Outcome {
	return r.rn.Execute(context.Background(), r.run, runner.Call{Tool: "test.read", Args: tool.Args{"path": path}})
}

const asking = "files: {read: {allow: [free/**], ask: [ask/**], deny: [ask/never/**]}}"

func TestWhatARequestIsAnswered(t *testing.T) {
	r := newRequests(t, openStore(t), asking)
	session := store.Vote{By: "user:ann", Yes: true, Session: []byte{}}
	tests := []struct {
		name  string
		args  tool.Args
		says  store.Vote
		wants string
	}{
		{"what is allowed needs nobody", r.wants("free/a"), store.Vote{}, "allowed"},
		{"approved for one call", r.wants("ask/a"), yes("user:ann"), "approved"},
		{"approved for the session", r.wants("ask/b/c"), session, "approved_for_session"},
		{"covered by that approval", r.wants("ask/b/d"), store.Vote{}, "approved_for_session"},
		{"refused", r.wants("ask/e"), store.Vote{By: "user:ann", Reason: "not now"}, "refused"},
		{"what is denied is proposed", r.wants("ask/never/a"), yes("user:ann"), "proposed"},
		{"allowed operations", tool.Args{"operations": []any{"files.read free/a", "files.read free/b"}}, store.Vote{}, "allowed"},
		{"operations that ask", tool.Args{"operations": []any{"files.read free/a", "files.read ask/a"}}, store.Vote{}, "asks"},
		{"denied operations", tool.Args{"operations": []any{"files.write free/a", "files.read free/a"}}, store.Vote{}, "proposed"},
	}
	for _, tt := range tests {
		r.says = tt.says
		o := r.request(t, tt.args)
		if o.Err != nil || o.Output["status"] != tt.wants {
			t.Errorf("%s: %v, %v; want %s", tt.name, o.Output, o.Err, tt.wants)
		}
		if tt.says.Reason != "" && o.Output["reason"] != tt.says.Reason {
			t.Errorf("%s: the person's words are not told: %v", tt.name, o.Output)
		}
	}
	if r.tool.ran != 0 {
		t.Errorf("requests made %d calls", r.tool.ran)
	}
	var b approval.Body
	if err := json.Unmarshal(r.last.Body, &b); err != nil || !b.Requested || b.Wanted != "it is needed" || !strings.Contains(b.Whole(), "says | it is needed\n") {
		t.Errorf("the question does not show the request: %s, %v", r.last.Body, err)
	}
}

func TestRequestsThatCannotBe(t *testing.T) {
	r := newRequests(t, openStore(t), asking)
	for name, tt := range map[string]struct {
		args tool.Args
		code fault.Code
	}{
		"a call and operations":   {tool.Args{"tool": "test.read", "operations": []any{"files.read a"}}, fault.ArgsInvalid},
		"nothing":                 {tool.Args{}, fault.ArgsInvalid},
		"arguments without tool":  {tool.Args{"args": map[string]any{}, "operations": []any{"files.read a"}}, fault.ArgsInvalid},
		"a request":               {tool.Args{"tool": string(tool.AuthorityRequest)}, fault.ArgsInvalid},
		"an unknown tool":         {tool.Args{"tool": "test.none"}, fault.ToolUnknown},
		"arguments that are none": {tool.Args{"tool": "test.read", "args": map[string]any{"p": "x"}}, fault.ArgsInvalid},
		"no kind of operation":    {tool.Args{"operations": []any{"root everything"}}, fault.ArgsInvalid},
	} {
		if o := r.request(t, tt.args); fault.CodeOf(o.Err) != tt.code {
			t.Errorf("%s: %v", name, o.Err)
		}
	}
	r.rn.Ask = nil
	for _, path := range []string{"ask/a", "ask/never/a"} {
		if o := r.request(t, r.wants(path)); o.Err == nil {
			t.Errorf("%s: without anybody to ask: %v", path, o.Output)
		}
	}
}

// maxWaiting is how many proposals of a run may wait.
const maxWaiting = 20

func TestProposalsOfARunAreBounded(t *testing.T) {
	r := newRequests(t, openStore(t), asking)
	for i := range maxWaiting + 1 {
		o := r.request(t, r.wants("other/"+strings.Repeat("a", i+1)))
		if full := fault.CodeOf(o.Err) == fault.LimitReached; full != (i == maxWaiting) {
			t.Fatalf("proposal %d: %v", i, o.Err)
		}
	}
}

// After any answers to any requests a call that a policy of the chain denies does not run, and
// one that asks runs only with an approval of its own.
func TestNoAnswerToARequestExceedsThePolicies(t *testing.T) {
	s := openStore(t)
	files := []string{"a/f", "b/f", "c/f"}
	rapid.Check(t, func(t *rapid.T) {
		list := func(label string) string {
			return "[" + strings.Join(rapid.SliceOfDistinct(rapid.SampledFrom(files), rapid.ID[string]).Draw(t, label), ", ") + "]"
		}
		rules := func(i string) string {
			return "files: {read: {allow: " + list("allow"+i) + ", ask: " + list("ask"+i) + ", deny: " + list("deny"+i) + "}}"
		}
		r := newRequests(t, s, rules("1"), rules("2"))
		once, session := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			path := rapid.SampledFrom(files).Draw(t, "path")
			effect := r.run.Grant.Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: "/w/" + path, Real: "/w/" + path}).Effect
			if rapid.Bool().Draw(t, "request") {
				r.says = store.Vote{By: "user:ann", Yes: rapid.Bool().Draw(t, "yes")}
				if r.says.Yes && rapid.Bool().Draw(t, "session") {
					r.says.Session = []byte{}
				}
				switch o := r.request(t, r.wants(path)); o.Output["status"] {
				case "approved":
					once[path] = true
				case "approved_for_session":
					session[path] = true
				case "proposed":
					id, _ := o.Output["question"].(string)
					if _, err := s.Vote(context.Background(), uuid.MustParse(id), yes("user:ann")); err != nil && fault.CodeOf(err) != fault.ApprovalGone {
						t.Fatal(err)
					}
				}
				continue
			}
			r.says = store.Vote{By: "user:ann"} // whoever is asked anew refuses
			ran := r.tool.ran
			r.read(path)
			may := effect == policy.Allow || effect == policy.Ask && (once[path] || session[path])
			if did := r.tool.ran > ran; did != may {
				t.Fatalf("%s (%s; approved once %v, for the session %v): ran %v", path, effect, once[path], session[path], did)
			}
			if effect == policy.Ask && !session[path] {
				once[path] = false
			}
		}
	})
}
