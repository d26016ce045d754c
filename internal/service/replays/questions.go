package replays

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Questions are how many calls of a task, which is a session or a run of its own, need approval
// or are denied: as recorded, and under another policy.
type Questions struct {
	Task    string         `json:"task"`
	Session bool           `json:"session"` // else the task is a run
	Name    string         `json:"name"`
	Calls   int            `json:"calls"`
	WasAsk  int            `json:"was_ask"`
	Ask     int            `json:"ask"`
	WasDeny int            `json:"was_deny"`
	Deny    int            `json:"deny"`
	Rules   map[string]int `json:"rules"`             // those that ask, without their place in a list
	Problem string         `json:"problem,omitempty"` // why the task could not be decided again
}

// count adds a call.
func (q *Questions) count(was policy.Effect, d policy.Decision) {
	q.Calls++
	switch was {
	case policy.Ask:
		q.WasAsk++
	case policy.Deny:
		q.WasDeny++
	}
	switch d.Effect {
	case policy.Ask:
		q.Ask++
		if q.Rules == nil {
			q.Rules = map[string]int{}
		}
		rule := d.Rule.Name
		rule, _, _ = strings.Cut(rule, "[")
		q.Rules[rule]++
	case policy.Deny:
		q.Deny++
	}
}

// Add joins the counts of another task.
func (q *Questions) Add(o Questions) {
	q.Calls, q.WasAsk, q.Ask, q.WasDeny, q.Deny = q.Calls+o.Calls, q.WasAsk+o.WasAsk, q.Ask+o.Ask, q.WasDeny+o.WasDeny, q.Deny+o.Deny
	if q.Rules == nil {
		q.Rules = map[string]int{}
	}
	for rule, n := range o.Rules {
		q.Rules[rule] += n
	}
}

// QuestionsOf decides the calls of recorded tasks again under another policy, and counts the
// questions of each. A task that cannot be decided again has a problem.
func (s *Replays) QuestionsOf(ctx context.Context, runs []ledger.Run, p *policy.Policy) ([]Questions, error) {
	st, err := s.Reader(ctx)
	if err != nil {
		return nil, err
	}
	out, at := []Questions{}, map[uuid.UUID]int{}
	for _, run := range runs {
		task, session := run.ID, run.Session != uuid.Nil
		if session {
			task = run.Session
		}
		i, known := at[task]
		if !known {
			i, at[task] = len(out), len(out)
			out = append(out, Questions{Task: task.String(), Session: session, Name: run.Name, Rules: map[string]int{}})
		}
		if err := s.questionsOf(ctx, st, run, p, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Replays) questionsOf(ctx context.Context, st store.Backend, run ledger.Run, p *policy.Policy, q *Questions) error {
	_, err := s.rejudge(ctx, st, run, p, q)
	if err != nil && ctx.Err() == nil {
		q.Problem = fault.Message(err)
		return nil
	}
	return err
}
