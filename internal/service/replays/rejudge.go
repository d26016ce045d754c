package replays

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Rejudged is a recorded call whose decision another policy would change.
type Rejudged struct {
	Call   int     `json:"call"`
	Step   string  `json:"id,omitempty"`
	Tool   tool.ID `json:"tool"`
	On     string  `json:"on,omitempty"` // the deciding action
	Was    string  `json:"was"`
	Is     string  `json:"is"`
	Rule   string  `json:"rule"`
	Reason string  `json:"reason"`
}

// Rejudge decides a recorded run's calls again under another policy. It gives the calls
// whose decision would change, and the number of calls that were judged.
func (s *Replays) Rejudge(ctx context.Context, id string, p *policy.Policy) ([]Rejudged, int, error) {
	st, err := s.Reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	var q Questions
	out, err := s.rejudge(ctx, st, run, p, &q)
	return out, q.Calls, err
}

// rejudge decides a run's calls again, and adds them to the counts of a task.
func (s *Replays) rejudge(ctx context.Context, st store.Backend, run ledger.Run, p *policy.Policy, q *Questions) ([]Rejudged, error) {
	rec, err := replay.Open(ctx, st, run)
	if err != nil {
		return nil, err
	}
	tools, err := s.ToolsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	g, err := grant.Root(run.ID, run.Principal, rec.Bound, p)
	if err != nil {
		return nil, err
	}
	out := []Rejudged{}
	for _, i := range rec.Calls() {
		c, _ := rec.Call(i)
		if c.Status == tool.Skipped {
			continue
		}
		d, on, err := rec.Judge(ctx, tools, g.Chain(), c)
		if err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
		q.count(c.Effect, d)
		if d.Effect != c.Effect {
			out = append(out, Rejudged{i, c.Step, c.Tool, on, c.Effect.String(), d.Effect.String(), d.Rule.String(), d.Reason})
		}
	}
	return out, nil
}

// RejudgeSession decides the calls of all of a session's runs again under another policy. It
// gives the calls whose decision would change, oldest first, and the number of calls that
// were judged.
func (s *Replays) RejudgeSession(ctx context.Context, id string, p *policy.Policy) ([]RejudgedIn, int, error) {
	_, runs, err := s.SessionRuns(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	out, judged := []RejudgedIn{}, 0
	for _, run := range runs {
		changed, n, err := s.Rejudge(ctx, run.ID.String(), p)
		if err != nil {
			return nil, 0, err
		}
		judged += n
		for _, c := range changed {
			out = append(out, RejudgedIn{Run: run.ID, Rejudged: c})
		}
	}
	return out, judged, nil
}

// RejudgedIn is a decision that would change, and its run.
type RejudgedIn struct {
	Run uuid.UUID `json:"run_id"`
	Rejudged
}
