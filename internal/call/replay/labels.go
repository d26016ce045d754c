package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

func (r *Recording) flow(ctx context.Context, c ledger.Call) (f ledger.CallFlow, err error) {
	return f, r.json(ctx, c.Parts, ledger.PartFlow, &f)
}

// CheckLabels joins the labels of the calls again, in their recorded order, and returns the
// first call whose context was recorded with others. The agents of one session share a
// context, so a session's can have more.
func (r *Recording) CheckLabels(ctx context.Context) (*Mismatch, error) {
	flows := map[int]ledger.CallFlow{}
	for _, i := range r.order {
		f, err := r.flow(ctx, r.calls[i])
		if err != nil {
			return nil, err
		}
		if f.Read > 0 {
			flows[i] = f
		}
	}
	for _, i := range r.order {
		f, ok := flows[i]
		if !ok {
			continue
		}
		is := slices.Clone(r.Run.Labels)
		for k, other := range flows {
			if k != i && other.Added > 0 && other.Added < f.Read {
				is = append(is, r.calls[k].Labels...)
			}
		}
		slices.Sort(is)
		is = slices.Compact(is)
		missing := slices.ContainsFunc(is, func(l string) bool { return !slices.Contains(f.Context, l) })
		if missing || r.Run.Session == uuid.Nil && len(is) != len(f.Context) {
			return &Mismatch{Index: i, What: "labels of the context", Was: fmt.Sprintf("%q", f.Context), Is: fmt.Sprintf("%q", is)}, nil
		}
	}
	return nil, nil
}

// judgedContexts are the labels of the context of each call, had a chain decided the run.
type judgedContexts struct {
	chain  policy.Chain
	labels map[int][]string
	values map[int]policy.Decision // by the flows that ask about values
}

// contextsUnder joins the labels of the calls that ran, in their order, under a chain.
func (r *Recording) contextsUnder(ctx context.Context, tools runner.Catalog, chain policy.Chain) (map[int][]string, error) {
	if !chain.HasFlows() {
		return nil, nil
	}
	if r.judged != nil && slices.Equal(r.judged.chain, chain) {
		return r.judged.labels, nil
	}
	flows, err := chain.Flows()
	if err != nil {
		return nil, err
	}
	out, seen := map[int][]string{}, flows.Set(r.Run.Labels)
	values := map[int]policy.Decision{}
	j, err := r.judgeValues(ctx, flows, chain)
	if err != nil {
		return nil, err
	}
	for _, i := range r.order {
		c := r.calls[i]
		out[i] = flows.Names(seen)
		if j != nil {
			if values[i], err = j.judge(ctx, tools, c, seen); err != nil {
				return nil, err
			}
		}
		if wasHeld(c) || beforeIntent(c) || c.Status == tool.Skipped || c.Status == tool.StatusDenied {
			continue
		}
		call, why, err := r.Needs(ctx, tools, chain, c)
		if err != nil {
			return nil, err
		}
		if why == "" {
			of, err := r.labelsOf(ctx, c, flows, &call)
			if err != nil {
				return nil, err
			}
			seen |= of.Result
		}
	}
	r.judged = &judgedContexts{slices.Clone(chain), out, values}
	return out, nil
}

// wasHeld reports whether a call was held: it ended before anything was carried out.
func wasHeld(c ledger.Call) bool {
	_, held := c.Parts[ledger.PartHeld]
	return held && c.Intent == 0 && c.Status == tool.Completed
}

// labelsOf returns the labels of a recorded call, including labels recorded for files.
func (r *Recording) labelsOf(ctx context.Context, c ledger.Call, flows *policy.Flows, call *policy.Call) (policy.Of, error) {
	f, err := r.flow(ctx, c)
	if err != nil {
		return policy.Of{}, err
	}
	call.Recorded = policy.RecordedLabels{Around: f.Around, Typed: f.Typed}
	return flows.Of(*call, r.Run.Client != "").Reaching(flows.Set(f.Reached)), nil
}

// judgeFlows decides a call by the flows of a chain, as the runner does.
func (r *Recording) judgeFlows(ctx context.Context, d policy.Decision, c ledger.Call, call policy.Call, chain policy.Chain, context []string) (policy.Decision, error) {
	if d.Effect == policy.Deny || !chain.HasFlows() {
		return d, nil
	}
	flows, err := chain.Flows()
	if err != nil {
		return d, err
	}
	of, err := r.labelsOf(ctx, c, flows, &call)
	if err != nil {
		return d, err
	}
	seen, err := r.flow(ctx, c)
	if err != nil {
		return d, err
	}
	if f := flows.DecideFlows(flows.Narrow(flows.Set(context)|flows.Set(seen.Referred), of, r.Run.Client != ""), call); f.Effect < policy.Allow {
		f.Admin = d.Admin
		return f, nil
	}
	if f, ok := r.judged.values[c.Index]; ok && f.Effect < d.Effect {
		f.Admin = d.Admin
		return f, nil
	}
	return d, nil
}
