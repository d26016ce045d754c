package runs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// Carry carries out held calls in a run of its own, until one does not complete. Each is
// decided anew, under the grant of the run that made them as it is now.
func (s *Runs) Carry(ctx context.Context, q changes.Carried) error {
	g, sources, auth, err := s.grantNow(ctx, q.Of, q.Pins)
	if err != nil {
		return err
	}
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return err
	}
	labels := &runner.Context{}
	labels.Add(q.Labels)
	log := s.Changes.Folder().Log(q.ID.String())
	in := runner.Info{ID: q.ID, Name: "apply " + q.Of.Run.Name, Grant: g, Policies: sources, Bound: s.Home.Env(q.Of.Run.Workspace), Total: len(q.Calls), Context: labels, Keep: log}
	if err := s.Secrets.Guard(&in); err != nil {
		return err
	}
	observe, err := s.observers(nil)
	if err != nil {
		return err
	}
	if q.Asker == nil {
		q.Asker = s.Approvals.Desk(false, nil, nil)
	}
	r := s.runner(st, q.Asker, observe)
	r.Hooks = s.Hooks
	if g.Kept() {
		r.Authority, r.GrantStopper = auth, auth
	}
	run, ctx, err := r.Start(ctx, in)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	status := tool.Completed
	for _, c := range q.Calls {
		o := r.Execute(ctx, run, c)
		if err = o.Fatal; err != nil || o.Status != tool.Completed {
			status = tool.Failed
			break
		}
	}
	return errors.Join(err, r.Finish(ctx, run, status), log.Close())
}

// grantNow is the present grant of a recorded run: the former grant, narrowed by the later policies
// and outer bounds. So it is never wider than it was.
func (s *Runs) grantNow(ctx context.Context, of *replay.Recording, pins map[tool.ID]tool.Digest) (g grant.Grant, sources []ledger.PolicySource, auth *grants.Authority, err error) {
	was, err := of.Grant()
	if err != nil {
		return g, nil, nil, err
	}
	nodes, err := of.Descent(ctx)
	if err != nil {
		return g, nil, nil, err
	}
	chain, from := was.Chain(), 0
	for _, n := range nodes {
		if n.Links < from || n.Links > len(chain) {
			return g, nil, nil, fault.New(fault.GrantInvalid, "the recorded grant of run %s does not fit its policies", of.Run.ID)
		}
		g = g.Derive(grant.Terms{ID: n.ID, Holder: n.Holder, Policies: chain[from:n.Links], Budgets: n.Budgets, NotBefore: n.NotBefore, Expires: n.Expires, Kept: n.Kept})
		from = n.Links
	}
	id, err := home.NewID()
	if err != nil {
		return g, nil, nil, err
	}
	terms := grant.Terms{ID: id, Holder: was.Holder(), Policies: slices.Clone(chain[from:]), Pins: pins}
	sources = slices.Clone(of.Policies)
	narrower, err := s.changedSince(of)
	if err != nil {
		return g, nil, nil, err
	}
	if len(nodes) > 0 {
		if auth, _, err = s.Grants.Open(ctx); err != nil {
			return g, nil, nil, err
		}
		today, err := s.Grants.BoundToday(ctx, g)
		if err != nil {
			return g, nil, nil, err
		}
		narrower = append(narrower, today...)
	}
	for _, p := range narrower {
		links, err := grant.Links(s.Home.Env(of.Run.Workspace), p, was.Holder())
		if err != nil {
			return g, nil, nil, err
		}
		terms.Policies = append(terms.Policies, links...)
		sources = append(sources, grants.PolicySource(p, was.Holder()))
	}
	return g.Derive(terms), sources, auth, nil
}

// changedSince gives the policies of a recorded run whose files have changed, and the person's
// outer bound, as they are now.
func (s *Runs) changedSince(of *replay.Recording) ([]*policy.Policy, error) {
	var out []*policy.Policy
	for _, src := range of.Policies {
		if _, err := os.Lstat(src.File); errors.Is(err, fs.ErrNotExist) || src.File == "" {
			continue // one without a file, as of a token
		}
		p, err := policies.Read(src.File)
		if err != nil {
			return nil, err
		}
		if string(p.Source()) != src.Source {
			out = append(out, p)
		}
	}
	outer, err := s.Policies.Outer()
	if err != nil || outer == nil {
		return out, err
	}
	return append(out, outer), nil
}
