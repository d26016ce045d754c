package agent

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// earlier has the calls of earlier runs of a session. Calls that its conversation lacks were made
// just before Remit ended.
type earlier struct {
	record partReader
	calls  map[string]*ledger.Call // by step
}

type partReader interface {
	Load(ctx context.Context, p ledger.Part) ([]byte, error)
}

// earlierRuns reads the calls of a session's runs from one on. It fails with
// fault.SessionBusy if another process works on the session.
func (s *Service) earlierRuns(ctx context.Context, session uuid.UUID, since ledger.Seq) (*earlier, error) {
	runs, err := s.checkLease(ctx, session)
	if err != nil {
		return nil, err
	}
	return readCalls(ctx, s.o.Record, runs, since)
}

// readCalls reads the calls of runs from one on.
func readCalls(ctx context.Context, rec callReader, runs []ledger.Run, since ledger.Seq) (*earlier, error) {
	e := &earlier{record: rec, calls: map[string]*ledger.Call{}}
	for _, r := range runs {
		if r.Seq < since {
			continue
		}
		for c, err := range rec.Calls(ctx, r.Seq) {
			if err != nil {
				return nil, err
			}
			if c.Step != "" {
				e.calls[c.Step] = &c
			}
		}
	}
	return e, nil
}

// step gives the call of a step; nil: there is none.
func (e *earlier) step(_ context.Context, step string) (*ledger.Call, error) {
	return e.calls[step], nil
}

// outcome gives the recorded outcome of a call.
func (e *earlier) outcome(ctx context.Context, c *ledger.Call) (runner.Outcome, error) {
	return recordedOutcome(ctx, e.record, c)
}

func recordedOutcome(ctx context.Context, rec partReader, c *ledger.Call) (runner.Outcome, error) {
	o := runner.Outcome{Index: c.Index, Tool: c.Tool, Digest: c.Digest, Status: c.Status, Approved: c.Approved}
	var err error
	if o.References, err = references(ctx, rec, c); err != nil {
		return o, err
	}
	if p, ok := c.Parts[ledger.PartOutput]; ok {
		b, err := rec.Load(ctx, p)
		if err != nil {
			return o, err
		}
		v, err := canon.Decode(b)
		if err != nil {
			return o, fault.Wrap(fault.StoreCorrupt, err, "the output of call %d cannot be read", c.Index)
		}
		o.Output, _ = v.(map[string]any)
	}
	if c.Status == tool.Completed {
		return o, nil
	}
	e := &fault.Error{Code: c.Code, Msg: "the call did not complete"}
	if p, ok := c.Parts[ledger.PartError]; ok {
		b, err := rec.Load(ctx, p)
		if err != nil {
			return o, err
		}
		e.Msg = string(b)
	}
	o.Err = e
	return o, nil
}

// callReader reads the calls of runs.
type callReader interface {
	partReader
	Calls(ctx context.Context, run ledger.Seq) iter.Seq2[ledger.Call, error]
}

// inputsOf gives what a run's turns depend on besides its calls. It is recorded with the
// run, for a replay.
func inputsOf(set *setup, conv *conversation) (map[string]any, error) {
	b, err := json.Marshal(RunInputs{Session: set.session, Agent: set.agent, Model: set.model, Limits: set.limits, From: conv.last, Matched: set.matched, Sources: set.sources, Tools: set.brought,
		Commitments: set.commitments[len(set.agent.Commitments):], Answer: set.answer})
	var v any
	if err == nil {
		v, err = canon.Decode(b)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the agent cannot be written as JSON")
	}
	m, _ := v.(map[string]any) // what an object decodes to
	return m, nil
}

// RunInputs is the inputs of a session's run, as they are recorded.
type RunInputs struct {
	Session uuid.UUID `json:"session"`
	Agent   Agent     `json:"agent"` // as it was then
	Model   string    `json:"model"`
	Limits  Limits    `json:"limits"` // with their defaults
	From    int       `json:"from"`   // the last message before the run
	// Matched has the tools that each pattern matched.
	Matched map[string][]tool.ID `json:"matched"`
	// Sources has the texts of the capabilities that were files, by their IDs.
	Sources map[string]string `json:"sources,omitempty"`
	// Tools has the tools of sources, as the model saw them.
	Tools map[tool.ID]RecordedTool `json:"tools,omitempty"`
	// Commitments are those of a sub-agent besides its agent's.
	Commitments []commitment.Commitment `json:"commitments,omitempty"`
	// Answer is the schema of a quarantined sub-agent's answer.
	Answer json.RawMessage `json:"answer,omitempty"`
}

// RecordedTool is a tool of a source as a run offered it.
type RecordedTool struct {
	Description string        `json:"description"`
	Input       string        `json:"input"` // its schema, byte for byte
	Effects     []tool.Effect `json:"side_effects"`
}

// ReadInputs reads the inputs of a run; false: the run is not a session's.
func ReadInputs(inputs map[string]any) (RunInputs, bool) {
	var in RunInputs
	b, err := canon.Marshal(inputs)
	if err != nil || json.Unmarshal(b, &in) != nil {
		return in, false
	}
	if in.Matched == nil {
		in.Matched = map[string][]tool.ID{}
	}
	return in, in.Session != uuid.Nil && in.Model != ""
}
