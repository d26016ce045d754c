package remit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/runner"
	_ "github.com/remitrun/remit/internal/confine/sandbox/spawn" // lets the program's binary be the sandbox's helper
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// Options says where and under what a [Runtime] works. The zero Options use
// the person's own ledger and the current folder, and deny everything that no
// trusted remit.yaml of that folder allows.
type Options struct {
	// Home is the folder of the ledger, its keys and logs. Default: as the
	// remit command finds it, $REMIT_HOME, else $XDG_DATA_HOME/remit, else
	// ~/.local/share/remit. A policy.yaml in it bounds every run.
	Home string
	// Workspace is the folder that relative paths of calls and policies are
	// relative to. Default: the current folder.
	Workspace string
	// Policy is the file of the policy that holds. Default: the workspace's
	// remit.yaml, if the person has trusted it with `remit policy trust`.
	Policy string
	// PolicySource is the policy itself (YAML or JSON), instead of a file.
	PolicySource []byte
	// Grant is the token of a grant that all runs are under; Policy and
	// PolicySource then narrow it further. Default: none.
	Grant string
	// GrantKey is the file of the private key that the grant is bound to.
	GrantKey string
	// User is the name of the person that calls are made for, as the record
	// shows it. Default: $USER, else "local".
	User string
	// Environ is the environment (as NAME=value) that settings are taken from
	// and that commands get what the policy lists of. Default: the process's.
	Environ []string
	// Changeset holds the writes of runs, even if the policy does not hold them: the workspace
	// stays unchanged until [Runtime.Apply]. See [Runtime.Changes].
	Changeset bool
	// Frozen is the file of a frozen plan: all calls must be in it, each once.
	// remit plan freeze makes one.
	Frozen string
	// Planning lets only calls without side effects through.
	Planning bool
	// Tools are Go functions as tools of this program, each named as "harbour.berths". Plans
	// and sessions call them by that name. Agents are given all of a group by the capability
	// of the group's name, as "harbour". As with every tool that is not built in, a policy
	// must allow them: tools: {allow: ["harbour.*"]}.
	Tools []AgentTool
	// Models are ways to language models beside those of the settings. See [ModelProvider].
	Models []ModelProvider
	// Ask decides where a policy says ask. Nil: such calls are denied. It is
	// called from several goroutines at once if calls are made so, and must
	// end when ctx does. An error is a no.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Observe, if not nil, is told when a call enters a state. It is called
	// from the call's goroutine and must be quick.
	Observe func(Notice)
	// Around, if not nil, is called around each call. Before a call runs, an error
	// refuses it ([HookRefused]), and so does a crash or no answer within 10 s. The note
	// is added to the record, at every stage. A hook cannot allow or change a call. It is
	// called from several goroutines at once, and must end when ctx does.
	Around func(ctx context.Context, e HookEvent) (note string, err error)
}

// Runtime executes calls and keeps their record. It is safe for concurrent
// use, and several runtimes and commands, also in other processes, may share
// one Home.
type Runtime struct {
	app       *app.App
	opts      Options
	workspace string
	root      *policy.Policy // nil: the policy is found anew for each run
	frozen    *frozen.Plan   // nil: calls are bound to none
}

// Open makes a runtime. It must be closed. The policy and the settings are
// checked here; the ledger is opened, or made, when it is first needed. Once ctx has
// ended, Open fails; a runtime that is open does not depend on it.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "cancelled before the runtime was open")
	}
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	if o.Home != "" {
		home, err := filepath.Abs(o.Home)
		if err != nil {
			return nil, fault.Wrap(fault.Usage, err, "the home folder %q cannot be used", o.Home)
		}
		environ = append(environ[:len(environ):len(environ)], "REMIT_HOME="+home) // the last one counts
	}
	cfg, err := home.FromEnv(environ)
	if err != nil {
		return nil, err
	}
	if o.User != "" {
		cfg.User = o.User
	}
	rt := &Runtime{opts: o}
	if rt.workspace, err = home.Workspace(o.Workspace); err != nil {
		return nil, err
	}
	if err := rt.readPolicy(); err != nil {
		return nil, err
	}
	own, err := programTools(o.Tools)
	if err != nil {
		return nil, err
	}
	models, err := programProviders(o.Models)
	if err != nil {
		return nil, err
	}
	if rt.app, err = app.New(cfg, app.Own{Tools: own, Models: models}); err != nil {
		return nil, err
	}
	if o.Frozen != "" {
		if rt.frozen, err = rt.app.Runs.ReadFrozen(o.Frozen); err != nil {
			return nil, errors.Join(err, rt.app.Close())
		}
	}
	return rt, nil
}

func (rt *Runtime) readPolicy() (err error) {
	switch o := rt.opts; {
	case o.Policy != "" && o.PolicySource != nil:
		return fault.New(fault.Usage, "Policy and PolicySource cannot both hold").WithHint("give one of them")
	case o.PolicySource != nil:
		rt.root, err = policy.Parse("(policy)", o.PolicySource)
	case o.Policy != "":
		rt.root, err = policies.Read(o.Policy)
	}
	return err
}

// Close ends what runs in sandboxes, signs the ledger's end and closes it.
func (rt *Runtime) Close() error { return rt.app.Close() }

// Tools lists the tools that can be called, sorted by ID.
func (rt *Runtime) Tools() []Tool {
	var out []Tool
	for _, s := range rt.app.Catalog().Specs() {
		t := Tool{ID: string(s.ID), Title: s.Title, Description: s.Description, Input: s.Input, Output: s.Output, Risk: s.Risk.String()}
		for _, e := range s.Effects.List() {
			t.Effects = append(t.Effects, e.String())
		}
		out = append(out, t)
	}
	return out
}

// person is the approver if the program names none. The environment does not say: with another
// $USER one person would count as two.
func (rt *Runtime) person() string {
	if rt.opts.User != "" {
		return "user:" + rt.opts.User
	}
	return home.Person()
}

// request holds the common settings of all runs of the runtime.
func (rt *Runtime) request() runs.Request {
	q := runs.Request{
		Root: rt.root, Workspace: rt.workspace, Changeset: rt.opts.Changeset, Frozen: rt.frozen, Planning: rt.opts.Planning,
		Grant: grants.Presented{Token: rt.opts.Grant, KeyFile: rt.opts.GrantKey}, Hooks: rt.hooks(),
	}
	if rt.opts.Ask != nil {
		q.Here = askFunction(rt.opts.Ask, rt.person())
	}
	if watch := rt.opts.Observe; watch != nil {
		q.Observe = func(n runner.Notice) { watch(noticeOf(n)) }
	}
	return q
}

// RunPlan carries out the plan in a file. Inputs are values for the inputs that
// the plan declares, as text: strings as they are, other types as JSON. Calls
// that are denied or fail are no error: the Run's Status and Counts tell of
// them, and Calls gives each. An error means that the plan could not be run or
// recorded.
func (rt *Runtime) RunPlan(ctx context.Context, file string, inputs map[string]string) (Run, error) {
	p, err := rt.app.Runs.ReadPlan(file)
	if err != nil {
		return Run{}, err
	}
	q := rt.request()
	q.Plan, q.Inputs = p, inputs
	res, err := rt.app.Runs.Plan(ctx, q)
	return runOf(res), err
}

// RunPlanSource is RunPlan for a plan's source. Errors call it name.
func (rt *Runtime) RunPlanSource(ctx context.Context, name string, source []byte, inputs map[string]string) (Run, error) {
	p, err := rt.app.Runs.ParsePlan(name, source)
	if err != nil {
		return Run{}, err
	}
	q := rt.request()
	q.Plan, q.Inputs = p, inputs
	res, err := rt.app.Runs.Plan(ctx, q)
	return runOf(res), err
}

// Begin starts a run without a plan, whose calls come one by one, and records
// it under this name. The session outlives ctx. It must be ended.
func (rt *Runtime) Begin(ctx context.Context, name string) (*Session, error) {
	q := rt.request()
	q.Name = name
	s, err := rt.app.Runs.Begin(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Calls gives the recorded calls of a run in order. run is its ID, or the
// beginning of one (at least 4 characters). Outputs over 64 KiB are told by
// their size only; see Output.
func (rt *Runtime) Calls(ctx context.Context, run string) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		d, steps, err := rt.app.History.Steps(ctx, run)
		if err != nil {
			yield(Result{}, err)
			return
		}
		for step, err := range steps {
			if !yield(recorded(d.Run.ID.String(), step), err) {
				return
			}
		}
	}
}

// Output gives the whole recorded output of one call as JSON, nil if it had
// none.
func (rt *Runtime) Output(ctx context.Context, run string, index int) (json.RawMessage, error) {
	return rt.app.History.Output(ctx, run, index)
}

// Runs gives the runs of the ledger, newest first: those of all programs and commands that
// share Home.
func (rt *Runtime) Runs(ctx context.Context) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		st, err := rt.app.Reader(ctx)
		var page store.RunFilter
		for err == nil {
			var list []ledger.Run
			if list, err = st.Runs(ctx, page); err != nil || len(list) == 0 {
				break
			}
			for _, r := range list {
				if page.Before = r.Seq; !yield(recordedRun(r), nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Run{}, err)
		}
	}
}

// Explain decides a call under the runtime's policy without making it. Files and commands
// are looked up, the network is not used, and nothing is recorded. A call that would be
// denied is no error: the Explanation says so.
func (rt *Runtime) Explain(ctx context.Context, toolID string, args map[string]any) (Explanation, error) {
	chain, err := rt.app.Runs.Chain(ctx, rt.request())
	if err != nil {
		return Explanation{}, err
	}
	var plain tool.Args
	if err := copyJSON(args, &plain); err != nil {
		return Explanation{}, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be written as JSON: %v", err)
	}
	ex, err := rt.app.PolicyReview.ExplainUnder(ctx, chain, rt.workspace, tool.ID(toolID), plain, rt.app.Runs.Facts())
	if err != nil {
		return Explanation{}, err
	}
	out := Explanation{Effect: ex.Effect, Rule: ex.Rule, Reason: ex.Reason, Actions: ex.Actions}
	for _, r := range ex.Rules {
		out.Rules = append(out.Rules, ExplainedRule{Effect: r.Effect, Rule: r.Rule, Where: r.Where, Action: r.Action})
	}
	return out, nil
}

// Replay runs a recorded run again without touching the world: arguments are
// built and decisions made anew, and only the tools' answers come from the
// record. A difference is an error of the code [ReplayMismatch], and the
// result's Mismatch names the first one.
func (rt *Runtime) Replay(ctx context.Context, run string) (Replay, error) {
	res, err := rt.app.Replays.Run(ctx, run, nil)
	out := Replay{Run: res.ID.String(), Of: res.Of.String(), Status: Status(res.Status.String()), Calls: res.Calls}
	if m := res.Mismatch; m != nil {
		out.Mismatch = &Mismatch{Index: m.Index, What: m.What, Recorded: m.Was, Now: m.Is}
		err = errors.Join(err, m.Err())
	}
	return out, err
}

// Verify recomputes the ledger, or the part of it that a run is, and checks its signed checkpoints.
// An altered ledger is an error of the code [VerifyFailed], and the result names each record
// concerned.
func (rt *Runtime) Verify(ctx context.Context, o VerifyOptions) (Verification, error) {
	st, err := rt.app.Reader(ctx)
	if err != nil {
		return Verification{}, err
	}
	return verify(ctx, st, o)
}

// Checkpoint signs the ledger's present state and gives the signed note. A copy
// kept elsewhere shows later whether the ledger was rewritten or rolled back:
// see [VerifyOptions].
func (rt *Runtime) Checkpoint(ctx context.Context) ([]byte, error) {
	st, err := rt.app.Store(ctx)
	if err != nil {
		return nil, err
	}
	return st.Checkpoint(ctx)
}

// Format is a form of reports.
type Format string

// The forms of reports.
const (
	Text Format = "text" // for people, without colours
	JSON Format = "json" // for programs; has a report_version
	HTML Format = "html" // one page that needs nothing else
)

// Report writes the report of a run: its timeline, the denials with their rules, and the files,
// hosts and commands that it touched. Apparent secrets are removed.
func (rt *Runtime) Report(ctx context.Context, w io.Writer, run string, f Format) error {
	d, err := rt.app.History.Report(ctx, run)
	if err != nil {
		return err
	}
	return report.Write(w, string(f), d, report.Options{})
}
