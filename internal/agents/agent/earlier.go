package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// earlier is what former runs of a session did that did not get into its
// conversation, because Remit ended before.
type earlier struct {
	record partReader
	calls  map[string]*ledger.Call // by step
}

type partReader interface {
	Load(ctx context.Context, p ledger.Part) ([]byte, error)
}

// earlierRuns reads the calls of a session's runs from one on. Another process's
// run that goes on is fault.SessionBusy.
func (s *Service) earlierRuns(ctx context.Context, session uuid.UUID, since ledger.Seq) (*earlier, error) {
	runs, err := s.checkLease(ctx, session)
	if err != nil {
		return nil, err
	}
	return before(ctx, s.o.Record, runs, since)
}

// before gathers the calls of runs from one on.
func before(ctx context.Context, rec callReader, runs []ledger.Run, since ledger.Seq) (*earlier, error) {
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

// step gives a former run's call of a step, nil if there is none.
func (e *earlier) step(_ context.Context, step string) (*ledger.Call, error) {
	return e.calls[step], nil
}

// outcome is how a recorded call ended.
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
	e := &fault.Error{Code: c.Code, Msg: "it did not complete"}
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

// findOutput finds a long output of a session again: by the message that told its
// beginning, the call that this is the result of.
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
		return nil, fault.New(fault.NotFound, "the session has no output %.100q", id).
			WithHint("use the output_id that a shortened output told")
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

// loadOutput loads the output of a step, if it is the one that is meant.
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

// inputsOf is what a run's turns depend on besides its calls: kept with the run, for
// a replay.
func inputsOf(set *setup, conv *conversation) (map[string]any, error) {
	b, err := json.Marshal(RunInputs{Session: set.session, Agent: set.agent, Model: set.model, Limits: set.limits, From: conv.last, Matched: set.matched, Sources: set.sources, Tools: set.brought})
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

// RunInputs is what the record of a session's run holds as its inputs.
type RunInputs struct {
	Session uuid.UUID `json:"session"`
	Agent   Agent     `json:"agent"` // as it was
	Model   string    `json:"model"`
	Limits  Limits    `json:"limits"` // with their defaults
	From    int       `json:"from"`   // the last message before the run
	// Matched is what patterns of tools stood for.
	Matched map[string][]tool.ID `json:"matched"`
	// Sources are the texts of the capabilities that were files, by their IDs.
	Sources map[string]string `json:"sources,omitempty"`
	// Tools are those that sources brought, as the model was told of them.
	Tools map[tool.ID]ToolThen `json:"tools,omitempty"`
}

// ToolThen is a tool of a source as a run offered it.
type ToolThen struct {
	Description string        `json:"description"`
	Input       string        `json:"input"` // its schema, to the byte
	Effects     []tool.Effect `json:"side_effects"`
}

// ReadInputs reads the inputs of a run; false: it is no session's.
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
