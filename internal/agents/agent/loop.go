package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// loop carries out a turn. Its position is in the conversation alone, so that it can
// continue any turn that was interrupted; and all its inputs come from its calls, so
// that a replay takes the same steps.
type loop struct {
	set  *setup
	conv *conversation
	run  caller
	// earlier gives the call of a step that an earlier run of the session made; nil: none.
	earlier func(ctx context.Context, step string) (*ledger.Call, error)
	output  func(ctx context.Context, c *ledger.Call) (runner.Outcome, error) // of a recorded call
	// gate is called before each step. It waits while the session is paused; in a replay
	// it ends the turn where the record ends.
	gate    func(ctx context.Context, step string) error
	ending  context.Context // of the process; nil: it goes on
	publish func(Event)     // may be nil
	told    func() string   // violations of sub-agents since the last step; nil: none
	index   int             // of the last call
	used    model.Usage     // tokens of answers that are not recorded with the session yet
}

// caller makes calls. It is a run, or the replay of one.
type caller interface {
	Lookup(id tool.ID) (runner.Entry, error)
	Call(ctx context.Context, c runner.Call) (runner.Outcome, error)
	Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error)
	Chain() policy.Chain
}

// carryOut continues the conversation until the model is done and the commitments are met: it adds the results of
// open tool calls, then the model's next answer, and so on.
func (l *loop) carryOut(ctx context.Context) error {
	for {
		if number, open := l.conv.open(); len(open) > 0 {
			if err := l.calls(ctx, number, open); err != nil {
				return err
			}
			continue
		}
		last := l.conv.latest()
		if last == nil {
			return nil
		}
		if last.Role == model.Assistant {
			if met, err := l.meetCommitments(ctx); met || err != nil {
				return err
			}
			continue
		}
		if err := l.step(ctx); err != nil {
			return err
		}
	}
}

// addUserMessage adds a message of the user. The open calls of an earlier turn get their
// results first.
func (l *loop) addUserMessage(ctx context.Context, text string) error {
	if err := l.abandonCalls(ctx); err != nil {
		return err
	}
	return l.add(ctx, Message{Role: model.User, Text: text})
}

// step asks the model once, unless the turn must end.
func (l *loop) step(ctx context.Context) error {
	if err := l.addTold(ctx); err != nil {
		return err
	}
	repeats, noticed := looping(l.conv.turn())
	switch {
	case repeats && noticed:
		return fault.New(fault.Looping, "the agent repeats the same tool calls with the same results, even after a notice").
			WithHint("send a message that asks for another way")
	case repeats:
		return l.add(ctx, Message{Kind: Notice, Role: model.User, Text: loopNotice})
	case l.conv.steps() >= l.set.limits.Steps:
		return fault.New(fault.LimitReached, "the turn has used its %d steps", l.set.limits.Steps).
			WithHint("send a message to continue, or raise limits.steps of the agent")
	}
	if l.needsCompaction() {
		if done, err := l.compact(ctx); err != nil || done {
			return err
		}
	}
	err := l.answer(ctx)
	if errors.Is(err, fault.ModelContext) {
		if done, cerr := l.compact(ctx); cerr != nil || done {
			return cerr // the next step asks again
		}
	}
	return err
}

// answer adds the model's next message.
func (l *loop) answer(ctx context.Context) error {
	number := l.conv.last + 1
	req := model.Request{
		System: l.set.system, Messages: l.conv.messages(), Tools: l.set.tools, MaxTokens: l.set.limits.MaxTokens,
	}
	if l.summary() > 0 {
		req.Earlier = l.conv.view[0].Answers
	}
	resp, err := l.ask(l.publishText(ctx), fmt.Sprintf("%d/answer", number), req, l.conv.digest())
	if err != nil {
		return err
	}
	m := resp.Message
	m.Role, m.CallID, m.Failed = model.Assistant, "", false
	cut := resp.Stop == model.StopLength
	if len(m.Text) > maxAnswer {
		m.Text, cut = clip.Text(m.Text, maxAnswer)+"\n[cut off: the answer was longer]", true
	}
	if m.Calls = cleanCalls(m.Calls); resp.Stop == model.StopRefused {
		m.Calls = nil
	}
	if cut && m.Text == "" && len(m.Calls) == 0 {
		m.Text = "[cut off: the answer ended before any text]" // services refuse an empty message
	}
	said := messageFrom(m)
	said.Usage, said.Cut = &resp.Usage, cut
	return l.add(ctx, said)
}

// Bounds of an answer as it is recorded.
const (
	maxAnswer = 1 << 20 // bytes of text
	maxCalls  = 128     // tool calls; the model can repeat dropped ones
	maxArgs   = 1 << 20 // bytes of one call's arguments
	maxCallID = 100     // bytes
)

// cleanCalls gives each tool call of a model an ID of its own and arguments that are
// valid JSON, so that it can be recorded and answered.
func cleanCalls(calls []model.Call) []model.Call {
	if len(calls) > maxCalls {
		calls = calls[:maxCalls]
	}
	out := slices.Clone(calls)
	for i := range out {
		if len(out[i].ID) > maxCallID { // the record cuts longer names of steps
			out[i].ID = ""
		}
	}
	out = model.Calls(out)
	for i := range out {
		k := &out[i]
		if k.Malformed == "" && (len(k.Args) > maxArgs || !isObject(k.Args)) {
			k.Malformed = fmt.Sprintf("the arguments are not a JSON object of at most %d bytes", maxArgs)
		}
		if k.Malformed != "" && (len(k.Args) > maxArgs || !json.Valid(k.Args)) {
			k.Args = json.RawMessage(toJSON(clip.Text(string(k.Args), maxFailedOutput)))
		}
	}
	return out
}

func isObject(raw json.RawMessage) bool {
	v, err := canon.Decode(raw)
	_, ok := v.(map[string]any)
	return err == nil && ok
}

// ask calls the model. If an earlier run got the answer, but Remit ended before it was
// added to the conversation, that answer is used.
func (l *loop) ask(ctx context.Context, step string, req model.Request, digest tool.Digest) (model.Response, error) {
	before, err := l.earlier(ctx, step)
	if err != nil {
		return model.Response{}, err
	}
	if before != nil && before.Status == tool.Completed {
		o, err := l.output(ctx, before)
		if err != nil {
			return model.Response{}, err
		}
		return response(o)
	}
	if err := l.gate(ctx, step); err != nil {
		return model.Response{}, err
	}
	l.index++
	args := l.set.chat.ask(l.set, req, digest)
	o, err := l.run.Call(ctx, runner.Call{Index: l.index, Step: step, Tool: chatID, Args: args, Agent: true, Thought: true})
	if err != nil {
		return model.Response{}, err
	}
	if o.Status != tool.Completed {
		return model.Response{}, o.Err
	}
	return response(o)
}

// publishText has an answer published as it comes in: the progress that model.chat
// reports is the next piece of its text.
func (l *loop) publishText(ctx context.Context) context.Context {
	if l.publish == nil {
		return ctx
	}
	return tool.WithProgress(ctx, func(p tool.Progress) { l.event(Event{Type: TextDelta, Text: p.Message}) })
}

// response reads a model's answer from the outcome of a call.
func response(o runner.Outcome) (model.Response, error) {
	var resp model.Response
	b, err := canon.Marshal(o.Output)
	if err == nil {
		err = json.Unmarshal(b, &resp)
	}
	if err != nil {
		return resp, fault.Wrap(fault.ModelFailed, err, "the model's answer cannot be read")
	}
	return resp, nil
}

// add adds messages to the conversation, even if the turn was just cancelled: finished work is
// recorded.
func (l *loop) add(ctx context.Context, ms ...Message) error {
	added, err := l.conv.add(context.WithoutCancel(ctx), ms...)
	if err != nil {
		return err
	}
	for i := range added {
		if u := added[i].Usage; u != nil {
			l.used = l.used.Add(*u)
		}
		l.event(Event{Type: MessageAdded, Message: &added[i], At: added[i].Created})
	}
	return nil
}

func (l *loop) event(e Event) {
	if l.publish != nil {
		l.publish(e)
	}
}
