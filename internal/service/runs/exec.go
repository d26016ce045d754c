package runs

import (
	"context"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// ExecRequest asks for one command, typed by a person, to be run in the sandbox
// as a run of its own.
type ExecRequest struct {
	Argv      []string
	Policy    string           // a policy file; "": the workspace's, if trusted
	Workspace string           // absolute; the command starts there
	Grant     grants.Presented // not empty: the command is under this grant, and needs an entry in its commands
	Changeset bool             // hold writes
	Learn     string           // not "": learn a policy of this name, see ExecResult.Learned
	Root      *policy.Policy   // holds instead of Policy if not nil
	Home      string           // the command's HOME, which persists; "": an empty one
	Env       map[string]string
	Services  []sandbox.Service
	Publish   []sandbox.Port
	Stdio     *sandbox.Stdio
	Outputs   []string                               // the files that its output goes to
	Started   func(run *runner.Run, h policies.Hint) // nil, or called once the run is recorded
	// Ask answers where the network rules ask; nil says no. Notice is told of
	// each connection. Both are called from several goroutines.
	Ask    func(ctx context.Context, a tool.Action, d policy.Decision) bool
	Notice func(sandbox.Connection)
}

// ExecResult is how the command ended.
type ExecResult struct {
	Result
	Command sandbox.Outcome
	Err     error        // why it did not end well, nil if it exited with 0
	Learned *LearnedExec // nil unless asked for, and where the command did not begin
	// Open are the questions that an agent's command asked while it ran and that wait for their answers.
	Open []store.Approval
}

// Exec runs a command that a person typed. The command needs no entry in the
// policy's commands: typing it is recorded as the approval of exactly that
// command. All else in the policy holds.
func (s *Runs) Exec(ctx context.Context, q ExecRequest) (ExecResult, error) {
	s.Box.Warm()
	var res ExecResult
	var learner *execLearner
	root := q.Root
	switch {
	case q.Learn != "" && !q.byHand():
		return res, fault.New(fault.Usage, "a grant's holder cannot learn a wider policy").WithHint("leave out --grant")
	case len(q.Publish) > 0 && !q.byHand():
		return res, fault.New(fault.Usage, "a grant's holder cannot publish a port").WithHint("leave out --grant or --publish")
	}
	if q.Learn != "" {
		var err error
		if learner, root, err = s.execLearner(&q); err != nil {
			return res, err
		}
	}
	t := &execTool{box: s.Box, q: q, admin: s.Approvals.IsAdmin(home.Person())}
	c, err := catalog.New(t)
	if err != nil {
		return res, err
	}
	args, err := ExecArgs(q.Argv)
	if err != nil {
		return res, err
	}
	for _, port := range q.Publish {
		list, _ := args["publish"].([]any)
		args["publish"] = append(list, port.String())
	}
	b, ctx, begun, err := s.Start(ctx, Request{
		Policy: q.Policy, Root: root, Workspace: q.Workspace, Changeset: q.Changeset || learner != nil, Started: q.Started, Grant: q.Grant,
		Asker: q.typed(home.Person(), t.admin),
	}, runner.Info{Name: execName(q.Argv), Total: 1})
	if err != nil {
		return res, err
	}
	b.Runner.Catalog = c
	o := b.Runner.Execute(ctx, b.Run, runner.Call{Tool: ExecID, Args: args, Long: true})
	res.Command, res.Err = t.outcome, hinted(o)
	if res.Result, err = b.Finish(ctx, begun, o.Status, o.Fatal); err != nil || learner == nil || t.outcome.Duration == 0 {
		return res, err
	}
	learned, err := learner.learned(q.Learn, q.Workspace, t.outcome, o.Attempts, b.Run.Grant.Chain())
	res.Learned = &learned
	return res, err
}

// Chain is the chain of policies that a run of the request would be under. Nothing is recorded.
func (s *Runs) Chain(ctx context.Context, q Request) (policy.Chain, error) {
	var in runner.Info
	if _, err := s.authority(ctx, q, &in, &Result{}); err != nil {
		return nil, err
	}
	return in.Grant.Chain(), nil
}

// Profile says what a command would get to see and use. Nothing is run or recorded.
func (s *Runs) Profile(ctx context.Context, q ExecRequest) (sandbox.Profile, error) {
	chain, err := s.Chain(ctx, Request{Policy: q.Policy, Root: q.Root, Workspace: q.Workspace, Grant: q.Grant})
	if err != nil {
		return sandbox.Profile{}, err
	}
	p, err := s.Box.Profile(chain.Owning(q.Home), sandbox.Command{
		Argv: q.Argv, Dir: q.Workspace, Typed: q.byHand(), Long: true, Env: q.Env, Services: q.Services, Publish: q.Publish,
	})
	if l := chain.Limits(); err == nil && (q.Changeset || l.Hold) {
		p.Notes = append(p.Notes, sandbox.HeldNote(l))
	}
	return p, err
}

// ExecID is what the record calls the tool. It is in no catalog but that of its
// own run: nobody else can call it.
const ExecID = tool.ID("exec")

// execTool is the one call of such a run.
type execTool struct {
	box     Box
	q       ExecRequest
	admin   bool // the person may approve admin calls
	outcome sandbox.Outcome
}

func (t *execTool) Spec() *tool.Spec {
	return &tool.Spec{
		ID: ExecID, Title: "Run a typed command", Version: "1", Source: "builtin", Risk: tool.High,
		Description: "Runs a command that a person typed, with the person's own streams, in the sandbox.",
		Input: []byte(`{"type": "object", "additionalProperties": false, "required": ["argv"],
			"properties": {"argv": {"type": "array", "minItems": 1, "items": {"type": "string"}},
				"publish": {"type": "array", "items": {"type": "string"}}}}`),
		Output: []byte(`{"type": "object"}`),
		Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.FSDelete, tool.FSChmod,
			tool.NetworkHTTP, tool.NetworkSocket),
	}
}

// Own is the command's home folder.
func (t *execTool) Own() string { return t.q.Home }

// Prepare implements permit.Tool.
func (t *execTool) Prepare(env tool.Env, _ tool.Args) (permit.Prepared, error) {
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.Command, Argv: t.q.Argv, Dir: env.Workspace, Typed: t.q.byHand()}},
		Run:     t.run,
	}, nil
}

func (t *execTool) run(ctx context.Context, p permit.Permit) (tool.Result, error) {
	starts := command.Actions(t.q.Argv, p.Env(), p.Env().Workspace)
	made := shelltool.MakeFolders(p, starts)
	out, err := t.box.Run(ctx, p, sandbox.Command{
		Argv: t.q.Argv, Dir: p.Env().Workspace, Typed: t.q.byHand(), Long: true, Stdio: t.q.Stdio, Ask: t.asker(p.Chain().Terms()), Notice: t.q.Notice, Observe: t.q.Learn != "",
		Env: t.q.Env, Services: t.q.Services, Publish: t.q.Publish,
	})
	if err != nil && out.Duration == 0 {
		return tool.Result{}, err // it did not run
	}
	out.Hints = slices.Concat(made, shelltool.HintMissing(p, out), shelltool.HintWorktrees(p, starts, out), shelltool.HintErrors(p, out), shelltool.HintFollowed(out))
	if out.Changed != nil && !slices.ContainsFunc(t.q.Outputs, func(f string) bool { return writable(p.Chain(), f) }) {
		p.Change(*out.Changed)
	}
	t.outcome = out
	if err == nil {
		err = shelltool.Failure(out)
	}
	return tool.Result{Output: shelltool.Ended(out)}, err
}

// writable reports whether processes may be able to write to a file.
func writable(chain policy.Chain, f string) bool {
	return chain.DecideAction(tool.Action{Kind: tool.FileWrite, Path: f, Real: f}).Effect != policy.Deny
}

// asker asks the person who typed the command about its connections; nil: another person must
// be asked, and a connection does not wait for that.
func (t *execTool) asker(terms policy.Terms) func(context.Context, tool.Action, policy.Decision) bool {
	if t.q.Ask == nil || terms.NeedsOthers(false, t.admin) != "" {
		return nil
	}
	return func(ctx context.Context, a tool.Action, d policy.Decision) bool {
		return terms.NeedsOthers(d.Admin, t.admin) == "" && t.q.Ask(ctx, a, d)
	}
}

// execName is the name of the run: not the arguments, which may be secret and can be erased from
// the record.
func execName(argv []string) string {
	if len(argv) == 0 {
		return "exec"
	}
	return "exec " + filepath.Base(argv[0])
}

// ExecArgs are the recorded arguments of a typed command.
func ExecArgs(argv []string) (tool.Args, error) {
	list := make([]any, len(argv))
	for i, s := range argv {
		if !utf8.ValidString(s) {
			return nil, fault.New(fault.Usage, "argument %d, %q, is not UTF-8, so it cannot be recorded", i, s).
				WithHint("put the command into a script file")
		}
		list[i] = s
	}
	return tool.Args{"argv": list}, nil
}

// byHand reports whether typing the command is the permission to start it: not
// for who acts under a grant.
func (q *ExecRequest) byHand() bool { return q.Grant.Token == "" }

// typed gives who approves the one call of the run, or nil where others must.
func (q *ExecRequest) typed(by string, admin bool) runner.Asker {
	if q.byHand() {
		return Typed{by, "command line", admin}
	}
	return nil
}

// Typed approves the one call of the run: its command was typed by who would be
// asked. It is one person's yes, and no admin's unless the person is one.
type Typed struct {
	By, Where string
	admin     bool
}

// Ask implements runner.Asker.
func (t Typed) Ask(_ context.Context, q runner.Question) (runner.Answer, error) {
	a := runner.Answer{By: t.By, Where: t.Where, At: time.Now().UTC()}
	listed := func(r policy.Refusal) bool { return r.Effect == policy.Ask && r.Rule != nil && r.Rule.Line > 0 }
	others := q.Terms.NeedsOthers(q.Decision.Admin, t.admin)
	switch {
	case q.Within:
		a.Reason = "typing a command allows it to start, and nothing that it does then"
	case others != "" && (q.Decision.Admin && !t.admin || slices.ContainsFunc(q.Decision.Refusals, listed)):
		a.Reason = others + ", and typing it is not that"
	default:
		a.Yes = true
	}
	return a, nil
}

// RecordedTools are the tools of recorded runs of typed commands; they run nothing.
func RecordedTools() (runner.Catalog, error) { return catalog.New(RecordedCommand{}) }

// RecordedCommand describes the needs of the one call in recorded runs of remit exec. It runs
// nothing.
type RecordedCommand struct{}

// Spec implements permit.Tool.
func (RecordedCommand) Spec() *tool.Spec { return (&execTool{}).Spec() }

// Prepare implements permit.Tool. The result cannot run.
func (RecordedCommand) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	list, _ := args["argv"].([]any)
	a := tool.Action{Kind: tool.Command, Dir: env.Workspace, Typed: true}
	for _, w := range list {
		s, _ := w.(string)
		a.Argv = append(a.Argv, s)
	}
	if len(a.Argv) == 0 {
		a.Unknown = "the record names no command"
	}
	return permit.Prepared{Actions: []tool.Action{a}}, nil
}

// TypedSpec describes the tool of a typed command, which no catalog lists.
func TypedSpec() *tool.Spec { return (&execTool{}).Spec() }
