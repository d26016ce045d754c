package replay

import (
	"context"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// valueJudge decides recorded calls by where their values came from, under other policies. The
// calls are taken in their order, one after another.
type valueJudge struct {
	rec   *Recording
	flows *policy.Flows
	chain policy.Chain
	index *provenance.Index
	said  []Word
}

// judgeValues begins to decide the run's calls; nil: no flow of the chain asks about values.
func (r *Recording) judgeValues(ctx context.Context, flows *policy.Flows, chain policy.Chain) (*valueJudge, error) {
	if !flows.Traces() {
		return nil, nil //nolint:nilnil // there is nothing to decide
	}
	j := &valueJudge{rec: r, flows: flows, chain: chain, index: provenance.New(), said: r.said}
	for _, o := range r.others {
		if o.Run.Seq >= r.Run.Seq {
			continue
		}
		do, err := Remember(ctx, r.src, o.Run, o.Said)
		if err != nil {
			return nil, err
		}
		if do != nil {
			do(j.index)
		}
	}
	runner.Given(j.index, chain, r.Plan, r.Inputs, r.Run.Session)
	return j, nil
}

// judge decides the next call, and adds its output to the values.
func (j *valueJudge) judge(ctx context.Context, tools runner.Catalog, c ledger.Call, context policy.Labels) (policy.Decision, error) {
	d, r := policy.Decision{Effect: policy.Allow}, j.rec
	number, _, _ := strings.Cut(c.Step, ":")
	if n, err := strconv.Atoi(number); err == nil {
		for len(j.said) > 0 && j.said[0].Message < n {
			j.index.Say(j.said[0].Kind, j.said[0].Text)
			j.said = j.said[1:]
		}
	}
	if c.Status == tool.Skipped || r.thought(c) {
		return d, nil
	}
	call, why, err := r.Needs(ctx, tools, j.chain, c)
	if err != nil || why != "" {
		return d, err
	}
	call.Run = runner.RunName(r.Run.ID)
	var seen ledger.CallFlow
	of, err := r.labelsOf(ctx, c, j.flows, &call)
	if err != nil {
		return d, err
	}
	was, err := r.flow(ctx, c)
	if err != nil {
		return d, err
	}
	refs, err := r.references(ctx, c)
	if err != nil {
		return d, err
	}
	runner.AddReferences(j.index, refs, call.Args)
	runner.JudgeOrigins(j.flows, context|j.flows.Set(was.Referred), of, call, r.Run.Client != "", j.index, &d, &seen)
	out, err := r.Output(ctx, c)
	if err != nil || out == nil || c.Tool == runner.OutputRead {
		return d, err
	}
	one := runner.Joined(seen, call.Run, c.Index, string(c.Tool), map[string]any(call.Args), out)
	one.Scope = j.flows.Scope()
	j.index.Add(one)
	return d, nil
}
