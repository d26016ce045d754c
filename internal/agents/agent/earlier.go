package agent

import (
	"bytes"
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
	"github.com/remitrun/remit/internal/tools/model"
)

// earlier has the calls of earlier runs of a session. Those that are not in its
// conversation were made just before Remit ended.
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

// findOutput gives a function that finds a long output of a session: by the message with
// its beginning, and the call that this message is the result of.
func (s *Service) findOutput(session uuid.UUID) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, id string) ([]byte, error) {
		for at := session; at != uuid.Nil; {
			out, err := s.outputIn(ctx, at, id)
			if out != nil || err != nil {
				return out, err
			}
			r, err := s.o.Record.Session(ctx, at.String())
			if err != nil {
				return nil, err
			}
			d, err := readSession(r)
			if err != nil {
				return nil, err
			}
			at = d.ForkOf
		}
		return nil, fault.New(fault.NotFound, "unknown output %.100q: the session has no output with this ID", id).
			WithHint("use the output_id of a shortened output")
	}
}

func (s *Service) outputIn(ctx context.Context, session uuid.UUID, id string) ([]byte, error) {
	call, answer := "", 0
	for r, err := range s.o.Record.Messages(ctx, session, 0, true) {
		if err != nil {
			return nil, err
		}
		if call == "" && !bytes.Contains(r.Doc, []byte(id)) {
			continue
		}
		m, err := decode(r)
		if err != nil {
			return nil, err
		}
		if call == "" && m.Role == model.ToolRole {
			var cut cutOutput
			if json.Unmarshal([]byte(m.Text), &cut) == nil && cut.Truncated && cut.ID == id {
				call = m.CallID
			}
		} else if call != "" && m.Role == model.Assistant {
			answer = r.Number
			break
		}
	}
	if answer == 0 {
		return nil, nil
	}
	return s.loadOutput(ctx, session, StepOf(answer, call), id)
}

// loadOutput loads the output of a step, if it has an ID.
func (s *Service) loadOutput(ctx context.Context, session uuid.UUID, step, id string) ([]byte, error) {
	runs, err := s.o.Record.SessionRuns(ctx, session)
	if err != nil {
		return nil, err
	}
	for i := len(runs) - 1; i >= 0; i-- {
		for c, err := range s.o.Record.Calls(ctx, runs[i].Seq) {
			if err != nil {
				return nil, err
			}
			p, ok := c.Parts[ledger.PartOutput]
			if c.Step != step || !ok {
				continue
			}
			b, err := s.o.Record.Load(ctx, p)
			if err != nil || outputID(b) == id {
				return b, err
			}
		}
	}
	return nil, nil
}

// inputsOf gives what a run's turns depend on besides its calls. It is recorded with the
// run, for a replay.
func inputsOf(set *setup, conv *conversation) (map[string]any, error) {
	b, err := json.Marshal(RunInputs{Session: set.session, Agent: set.agent, Model: set.model, Limits: set.limits, From: conv.last, Matched: set.matched, Sources: set.sources, Tools: set.brought,
		Commitments: set.commitments[len(set.agent.Commitments):]})
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
