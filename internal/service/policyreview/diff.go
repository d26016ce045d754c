package policyreview

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/compare"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/policies"
)

// Difference is what differs between two policies.
type Difference struct {
	Changes   []compare.Change
	Witnesses []compare.Witness
	Runs      int // recorded runs that were judged under both
	Calls     int // and their calls
	Skipped   int // runs that could not be judged: their record is damaged or erased
	History   []HistoryChange
}

// Same reports whether the policies have the same effect: no difference was found, and each
// change of the text was shown to have no effect.
func (d Difference) Same() bool {
	for _, c := range d.Changes {
		if !c.Moot {
			return false
		}
	}
	return len(d.Witnesses) == 0 && len(d.History) == 0
}

// HistoryChange counts recorded calls that the two policies decide differently in the same
// way.
type HistoryChange struct {
	Was, Is  policy.Effect
	Count    int
	Examples []HistoryExample // the newest first, at most a few
}

// HistoryExample is one recorded call.
type HistoryExample struct {
	Run   uuid.UUID `json:"run_id"`
	Index int       `json:"index"`
	Tool  tool.ID   `json:"tool"`
	On    string    `json:"on"`
	Rule  string    `json:"rule"` // the new policy's
}

// maxExamples bounds the recorded calls that are shown of one change.
const maxExamples = 3

// Diff compares two policy files: what they say, examples that they
// decide differently, and how they decide the calls of the newest recorded
// runs. With workspace "" relative patterns are bound to a made-up one.
func (s *Reviewer) Diff(ctx context.Context, old, new, workspace string, runs int) (Difference, error) {
	var d Difference
	was, err := policies.Read(old)
	if err != nil {
		return d, err
	}
	is, err := policies.Read(new)
	if err != nil {
		return d, err
	}
	env := s.Home.Env(workspace)
	before, err := chainIn(env, was)
	if err != nil {
		return d, err
	}
	after, err := chainIn(env, is)
	if err != nil {
		return d, err
	}
	d.Changes = compare.Documents(was, is)
	compare.Mark(d.Changes, before, after)
	d.Witnesses = compare.Witnesses(before, after, env)
	if runs > 0 {
		err = s.diffHistory(ctx, &d, was, is, runs)
	}
	return d, err
}

// chainIn binds a policy alone, as it would be a grant's first.
func chainIn(env policy.Env, p *policy.Policy) (policy.Chain, error) {
	r, err := p.Bind(env)
	if err != nil {
		return nil, err
	}
	return policy.Chain{r}, nil
}

// diffHistory judges the newest runs under both policies.
func (s *Reviewer) diffHistory(ctx context.Context, d *Difference, was, is *policy.Policy, limit int) error {
	st, err := s.Reader(ctx)
	if err != nil {
		return err
	}
	runs, err := st.Runs(ctx, store.RunFilter{Mode: ledger.Live, Limit: limit})
	if err != nil {
		return err
	}
	for _, run := range runs {
		rec, err := replay.Open(ctx, st, run)
		if err != nil {
			d.Skipped++
			continue
		}
		d.Runs++
		if err := s.diffRun(ctx, d, rec, was, is); err != nil {
			return err
		}
	}
	return nil
}

func (s *Reviewer) diffRun(ctx context.Context, d *Difference, rec *replay.Recording, was, is *policy.Policy) error {
	var chains [2]policy.Chain
	for i, p := range []*policy.Policy{was, is} {
		g, err := grant.Root(rec.Run.ID, rec.Run.Principal, rec.Bound, p)
		if err != nil {
			return err
		}
		chains[i] = g.Chain()
	}
	tools, err := s.Replays.ToolsOf(ctx, rec)
	if err != nil {
		return err
	}
	for _, i := range rec.Calls() {
		c, _ := rec.Call(i)
		if c.Status == tool.Skipped {
			continue
		}
		d.Calls++
		before, _, err := rec.Judge(ctx, tools, chains[0], c)
		if err != nil {
			return err
		}
		after, on, err := rec.Judge(ctx, tools, chains[1], c)
		if err != nil {
			return err
		}
		if before.Effect != after.Effect {
			d.note(before.Effect, after.Effect, HistoryExample{rec.Run.ID, i, c.Tool, on, after.Rule.String()})
		}
	}
	return nil
}

func (d *Difference) note(was, is policy.Effect, e HistoryExample) {
	for i := range d.History {
		if h := &d.History[i]; h.Was == was && h.Is == is {
			if h.Count++; len(h.Examples) < maxExamples {
				h.Examples = append(h.Examples, e)
			}
			return
		}
	}
	d.History = append(d.History, HistoryChange{was, is, 1, []HistoryExample{e}})
}
