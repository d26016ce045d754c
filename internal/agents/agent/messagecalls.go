package agent

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// MessageCall says what became of a tool call of a message.
type MessageCall struct {
	Message    int     `json:"message" doc:"Number of the message with the call"`
	CallID     string  `json:"tool_call_id" doc:"ID of the call in that message"`
	Run        string  `json:"run_id"`
	Index      int     `json:"index" doc:"Number of the call in the run"`
	Tool       string  `json:"tool"`
	Status     string  `json:"status" doc:"As in runs: completed, denied, …"`
	Effect     string  `json:"effect,omitempty" doc:"Of the decision: allow, ask or deny"`
	Rule       string  `json:"rule,omitempty" doc:"The rule that decided"`
	Approved   bool    `json:"approved,omitempty" doc:"A person approved the call"`
	Code       string  `json:"code,omitempty" doc:"Of the error, as E1001"`
	DurationMS float64 `json:"duration_ms"`
}

// MessageCalls gives the recorded tool calls of the messages from one number to another, in
// order. A call that an interrupted turn made again is there twice.
func (s *Service) MessageCalls(ctx context.Context, id string, from, to int) ([]MessageCall, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	first, err := s.firstRun(ctx, r.ID, from, to)
	if err != nil || first == 0 {
		return []MessageCall{}, err
	}
	runs, err := s.o.Record.SessionRuns(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	out := []MessageCall{}
	for _, run := range runs {
		if run.Seq < first {
			continue
		}
		past := false
		for c, err := range s.callsOf(ctx, run.Seq, from) {
			if err != nil {
				return nil, err
			}
			number, call, ok := splitStep(c.Step)
			if past = number > to; past {
				break
			}
			if ok && number >= from {
				out = append(out, messageCall(run, c, number, call))
			}
		}
		if past {
			break
		}
	}
	return out, nil
}

// firstRun finds the first run that some messages belong to; 0: they belong to none.
func (s *Service) firstRun(ctx context.Context, session uuid.UUID, from, to int) (ledger.Seq, error) {
	for m, err := range s.o.Record.Messages(ctx, session, max(from, 1), false) {
		if err != nil || m.Number > to {
			return 0, err
		}
		if m.Run != 0 {
			return m.Run, nil
		}
	}
	return 0, nil
}

// callsOf gives the calls of a run from those of a message on, and maybe some before. A long
// run is not read from its beginning: its steps are in the order of messages.
func (s *Service) callsOf(ctx context.Context, run ledger.Seq, message int) iter.Seq2[ledger.Call, error] {
	low, high := 1, 1
	last, err := s.o.Record.LastCall(ctx, run)
	if err == nil {
		high = max(last, 1)
	}
	for err == nil && high-low > 64 {
		middle := (low + high) / 2
		var number int
		if number, err = s.messageAt(ctx, run, middle); number == 0 || number >= message {
			high = middle
		} else {
			low = middle
		}
	}
	if err != nil {
		return func(yield func(ledger.Call, error) bool) { yield(ledger.Call{}, err) }
	}
	return s.o.Record.CallsFrom(ctx, run, low)
}

// messageAt gives the message of the first tool call of a run from an index on; 0: there is
// none.
func (s *Service) messageAt(ctx context.Context, run ledger.Seq, index int) (int, error) {
	for c, err := range s.o.Record.CallsFrom(ctx, run, index) {
		if err != nil {
			return 0, err
		}
		if number, _, ok := splitStep(c.Step); ok {
			return number, nil
		}
	}
	return 0, nil
}

// splitStep reads what StepOf wrote; false: the step is not a tool call's.
func splitStep(step string) (message int, call string, ok bool) {
	before, call, ok := strings.Cut(step, ":")
	message, err := strconv.Atoi(before)
	if !ok || err != nil || message < 1 {
		return 0, "", false
	}
	return message, call, true
}

func messageCall(run ledger.Run, c ledger.Call, number int, call string) MessageCall {
	out := MessageCall{
		Message: number, CallID: call, Run: run.ID.String(), Index: c.Index, Tool: string(c.Tool), Status: c.Status.String(), Rule: c.Rule, Approved: c.Approved,
		DurationMS: float64(c.Duration.Microseconds()) / 1000,
	}
	if c.Rule != "" {
		out.Effect = c.Effect.String()
	}
	if c.Code != fault.Code(0) {
		out.Code = c.Code.Error()
	}
	return out
}
