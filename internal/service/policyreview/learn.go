package policyreview

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Widening is a permission of a learned policy beyond the actions of the runs.
type Widening = learn.Widening

// Learned is a policy that was learned from recorded runs.
type Learned struct {
	Policy  []byte
	Widened []Widening // its permissions beyond the actions of the runs
	Runs    []uuid.UUID
	Calls   int // recorded calls that were allowed, and are under this policy
	Refused int // recorded calls that were refused, and are under this policy
}

// Learn writes a small policy that allows the actions of recorded runs and similar ones, and
// nothing that they were refused; exact leaves out the similar ones. Every recorded call is decided
// again under it; a different decision is fault.ReplayMismatch. The runs must have the same
// policies and the same workspace.
func (s *Reviewer) Learn(ctx context.Context, name string, ids []string, exact bool) (Learned, error) {
	var out Learned
	st, err := s.Reader(ctx)
	if err != nil {
		return out, err
	}
	l := learner{reviewer: s}
	for _, id := range ids {
		if err := l.load(ctx, st, id); err != nil {
			return out, err
		}
	}
	for _, r := range l.runs {
		if err := l.read(ctx, r); err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, r.rec.Run.ID)
	}
	bound := l.runs[0].rec.Bound
	got, err := learn.Policy(name, l.uses, learn.Options{
		Workspace: bound.Workspace, Home: bound.Home, Chain: l.chain, Confined: l.confined, Exact: exact, Known: s.Catalog.Remembered(),
		Spec:   func(id tool.ID) *tool.Spec { return l.specs[id] },
		Secret: func(text string) bool { return s.Home.Redactor().Text(text) != text },
	})
	if err != nil {
		return out, err
	}
	out.Policy, out.Widened = got.Policy, got.Widened
	return out, l.verify(ctx, &out)
}

// learner collects the uses of recorded runs.
type learner struct {
	reviewer *Reviewer
	runs     []recordedRun
	chain    policy.Chain
	uses     []learn.Use
	specs    map[tool.ID]*tool.Spec
	confined bool
}

type recordedRun struct {
	rec   *replay.Recording
	tools runner.Catalog
}

func (l *learner) load(ctx context.Context, st store.Store, id string) error {
	run, err := st.Run(ctx, id)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(l.runs, func(r recordedRun) bool { return r.rec.Run.ID == run.ID }) {
		return nil // the same run again
	}
	rec, err := replay.Open(ctx, st, run)
	if err != nil {
		return err
	}
	if len(l.runs) > 0 {
		first := l.runs[0].rec
		if !slices.Equal(run.Policies, first.Run.Policies) || rec.Bound.Workspace != first.Bound.Workspace {
			return fault.New(fault.Usage, "run %s was made under other policies or in another workspace than run %s", run.ID, first.Run.ID).
				WithHint("learn from each of them: their policies may differ")
		}
	}
	r := recordedRun{rec: rec}
	if r.tools, err = l.reviewer.Replays.ToolsOf(ctx, rec); err != nil {
		return err
	}
	if l.chain == nil {
		g, err := rec.Grant()
		if err != nil {
			return err
		}
		l.chain, l.specs = g.Chain(), map[tool.ID]*tool.Spec{}
	}
	l.runs = append(l.runs, r)
	return nil
}

// read adds the uses of one run.
func (l *learner) read(ctx context.Context, r recordedRun) error {
	for _, i := range r.rec.Calls() {
		c, _ := r.rec.Call(i)
		if c.Status == tool.Skipped {
			continue
		}
		call, why, err := r.rec.Needs(ctx, r.tools, l.chain, c)
		if err != nil {
			return err
		}
		switch {
		case why != "":
			l.uses = append(l.uses, learn.Use{Tool: c.Tool, Refused: true, Why: why})
		case !letThrough(c):
			l.refused(c, call)
		default:
			if err := l.addDone(ctx, r.rec, c, call); err != nil {
				return err
			}
		}
	}
	return nil
}

// letThrough reports whether a policy or a person allowed a recorded call.
func letThrough(c ledger.Call) bool {
	return c.Effect == policy.Allow || c.Effect == policy.Ask && c.Approved
}

// refused adds the reasons for which a call was refused.
func (l *learner) refused(c ledger.Call, call policy.Call) {
	d := l.chain.Decide(call)
	n := len(l.uses)
	for _, a := range call.Actions {
		if e := l.chain.DecideAction(a); e.Effect != policy.Allow {
			l.uses = append(l.uses, learn.Use{Action: a, Tool: c.Tool, Refused: true, Why: e.Reason})
		}
	}
	if len(l.uses) == n {
		l.uses = append(l.uses, learn.Use{Tool: c.Tool, Refused: true, Why: d.Reason})
	}
}

// addDone adds the actions that a call needed, and the actions that were observed while it ran.
func (l *learner) addDone(ctx context.Context, rec *replay.Recording, c ledger.Call, call policy.Call) error {
	l.specs[c.Tool] = call.Tool
	args := map[string]any(call.Args)
	if args == nil {
		args = map[string]any{}
	}
	seen, more, err := rec.Happened(ctx, c)
	if err != nil {
		return err
	}
	for _, a := range call.Actions {
		l.uses = append(l.uses, learn.Use{Action: a, Tool: c.Tool, Args: args, Below: readsFolder(c.Tool, a, rec.Bound.Workspace, seen)})
	}
	if len(call.Actions) == 0 {
		l.uses = append(l.uses, learn.Use{Tool: c.Tool, Args: args})
	}
	if call.Tool.Effects.Has(tool.SystemExec) && c.Intent != 0 {
		l.confined = true
	}
	l.confined = l.confined || more > 0
	for _, h := range seen {
		a, ok := learn.Observed(rec.Bound.Workspace, h)
		// A folder that was made on the way to a file needs no entry of its own.
		known := slices.ContainsFunc(call.Actions, func(o tool.Action) bool {
			return o.String() == a.String() || a.Kind == tool.FileWrite && o.Kind == a.Kind && strings.HasPrefix(o.Path, a.Path+"/")
		})
		if ok && !known && l.chain.DecideAction(a).Effect != policy.Deny {
			l.uses = append(l.uses, learn.Use{Action: a})
		}
	}
	return l.attempts(ctx, rec, c)
}

// attempts adds the actions that were refused while a call ran.
func (l *learner) attempts(ctx context.Context, rec *replay.Recording, c ledger.Call) error {
	list, err := rec.Attempts(ctx, c)
	for _, t := range list.Refused {
		u := learn.Use{Refused: true, Why: t.Reason, Count: t.Count, Tool: c.Tool}
		if on, ok := strings.CutPrefix(t.Action, tool.Network.String()+" "); ok {
			u.Action.Kind = tool.Network
			if u.Action.Target, ok = learn.ParseTarget(on); !ok {
				u.Action.Unknown = on
			}
		}
		l.uses = append(l.uses, u)
	}
	return err
}

// readsFolder reports whether a call read a folder, and so the files below it: of a file bytes were read,
// of a folder none.
func readsFolder(id tool.ID, a tool.Action, workspace string, seen []tool.Happened) bool {
	if a.Kind != tool.FileRead || id != "fs.list" && id != "fs.grep" {
		return false
	}
	return slices.ContainsFunc(seen, func(h tool.Happened) bool {
		o, ok := learn.Observed(workspace, h)
		return ok && h.Effect == tool.FSRead && h.Bytes == 0 && (o.Path == a.Path || o.Path == a.Real)
	})
}

// verify decides every recorded call again under the learned policy.
func (l *learner) verify(ctx context.Context, out *Learned) error {
	p, err := policy.Parse("learned", out.Policy)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the learned policy cannot be read")
	}
	var wrong fault.List
	for _, r := range l.runs {
		rules, err := p.Bind(r.rec.Bound)
		if err != nil {
			return err
		}
		for _, i := range r.rec.Calls() {
			c, _ := r.rec.Call(i)
			if c.Status == tool.Skipped {
				continue
			}
			d, on, err := r.rec.Judge(ctx, r.tools, policy.Chain{rules}, c)
			if err != nil {
				return err
			}
			switch through := letThrough(c); {
			case through && d.Effect != c.Effect:
				wrong = append(wrong, fault.New(fault.ReplayMismatch, "call %d of run %s would be decided otherwise under the learned policy: %s, was %s: %s: %s",
					i, r.rec.Run.ID, d.Effect, c.Effect, on, d.Reason).WithHint("write its entry by hand, from the policy that it ran under"))
			case !through && d.Effect > c.Effect:
				wrong = append(wrong, fault.New(fault.ReplayMismatch, "call %d of run %s was refused, and would be %s under the learned policy: %s",
					i, r.rec.Run.ID, d.Effect, on))
			case through:
				out.Calls++
			default:
				out.Refused++
			}
		}
	}
	return wrong.Err()
}
