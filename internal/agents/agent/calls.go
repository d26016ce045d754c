package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// maxAtOnce is how many calls of one answer run side by side.
const maxAtOnce = 8

// wanted is a tool call of an answer on its way to its result.
type wanted struct {
	call     model.Call
	rc       runner.Call
	harmless bool  // it may run beside others
	refused  error // why it is no call that could be made
	result   *result
}

// calls gives the open calls of an answer their results: those that only read side
// by side, the others one after the other, in the answer's order. Each group's
// results are kept before the next begins.
func (l *loop) calls(ctx context.Context, number int, open []model.Call) error {
	list, err := l.want(ctx, number, open)
	if err != nil {
		return err
	}
	for len(list) > 0 {
		n := together(list)
		group := list[:n]
		list = list[n:]
		if err := l.make(ctx, group); err != nil {
			return err
		}
		ms := make([]Message, n)
		for i, w := range group {
			ms[i] = w.result.message(w.call.ID)
		}
		if err := l.add(ctx, ms...); err != nil {
			return err
		}
	}
	return nil
}

// together is how many of the first calls may run at once.
func together(list []*wanted) int {
	n := 1
	for n < len(list) && n < maxAtOnce && list[n-1].harmless && list[n].harmless {
		n++
	}
	return n
}

// want finds out what each call is: the tool that its name stands for, or what is
// wrong with it, or the result that it came to before Remit ended.
func (l *loop) want(ctx context.Context, number int, open []model.Call) ([]*wanted, error) {
	list := make([]*wanted, len(open))
	for i, k := range open {
		w := &wanted{call: k, rc: runner.Call{Step: StepOf(number, k.ID)}}
		list[i] = w
		before, err := l.earlier(ctx, w.rc.Step)
		if err != nil {
			return nil, err
		}
		if before != nil {
			if w.result, err = l.recorded(ctx, before); err != nil {
				return nil, err
			}
		}
		if w.result == nil {
			l.resolve(w)
		}
		w.harmless = w.harmless || w.result != nil
	}
	return list, nil
}

// StepOf names a tool call in the record: by the message that wants it, and the ID
// that the model gave it there.
func StepOf(message int, call string) string { return fmt.Sprintf("%d:%s", message, call) }

// resolve finds the tool that a call's name stands for.
func (l *loop) resolve(w *wanted) {
	offer, ok := l.set.offers[w.call.Name]
	switch {
	case !ok:
		if w.rc.Tool = tool.ID(w.call.Name); !isID(w.call.Name) {
			w.rc.Tool = "(no tool)"
		}
		w.refused = l.unknown(w.call.Name)
		return
	case w.call.Malformed != "":
		w.rc.Tool = offer.ID
		w.refused = fault.New(fault.ModelCall, "the tool call is malformed: %s", clip(w.call.Malformed, 500)).
			WithHint("write the arguments as one JSON object")
		return
	}
	w.rc.Tool = offer.ID
	v, err := canon.Decode(w.call.Args)
	args, isMap := v.(map[string]any)
	if err != nil || !isMap {
		w.refused = fault.New(fault.ModelCall, "the tool call is malformed: its arguments are no JSON object")
		return
	}
	w.rc.Args = offer.Args(args)
	w.harmless = l.harmless(offer.ID)
}

// isID reports whether a name can stand in the record as it is.
func isID(name string) bool {
	_, err := tool.ParseID(name)
	return err == nil
}

// unknown tells which tools there are.
func (l *loop) unknown(name string) error {
	names := make([]string, 0, len(l.set.tools))
	for _, t := range l.set.tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	err := fault.New(fault.ToolUnknown, "there is no tool %.100q", name)
	if meant := near.Word(name, names); meant != "" {
		return err.WithHint("did you mean %q?", meant)
	}
	if len(names) == 0 {
		return err.WithHint("there are no tools")
	}
	return err.WithHint("the tools are %s", clip(strings.Join(names, ", "), 1000))
}

// make makes the calls of a group at once, and waits for all.
func (l *loop) make(ctx context.Context, group []*wanted) error {
	first := slices.IndexFunc(group, func(w *wanted) bool { return w.result == nil })
	if first < 0 {
		return nil
	}
	if err := l.gate(ctx, group[first].rc.Step); err != nil {
		return err
	}
	errs := make([]error, len(group))
	var all sync.WaitGroup
	for i, w := range group {
		if w.result != nil {
			continue
		}
		l.index++
		w.rc.Index = l.index // before it begins, so that a replay gives it the same place
		if len(group) == 1 {
			errs[i] = l.one(ctx, w)
			continue
		}
		all.Go(func() { errs[i] = l.one(ctx, w) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// one makes one call, or records why it is none.
func (l *loop) one(ctx context.Context, w *wanted) error {
	c := CallEvent{ID: w.call.ID, Name: w.call.Name, Tool: string(w.rc.Tool), Args: w.call.Args}
	l.event(Event{Type: CallStarted, Call: &c})
	var o runner.Outcome
	var err error
	if w.refused != nil {
		o, err = l.run.Refuse(ctx, w.rc, w.refused)
	} else {
		o, err = l.run.Call(l.progress(ctx, c), w.rc)
	}
	if err != nil {
		return err
	}
	if left(ctx, o) {
		return context.Cause(ctx)
	}
	r := resultOf(o, l.run.Chain(), l.set.limits.Output)
	w.result = &r
	ended := c
	ended.Args, ended.Status, ended.Duration, ended.Error = nil, o.Status.String(), o.Duration, problemOf(o.Err)
	l.event(Event{Type: CallEnded, Call: &ended})
	return nil
}

// progress passes on what a tool tells of how far it has come.
func (l *loop) progress(ctx context.Context, c CallEvent) context.Context {
	if l.publish == nil {
		return ctx
	}
	c.Args = nil
	return tool.WithProgress(ctx, func(p tool.Progress) {
		now := c
		l.event(Event{Type: CallProgress, Call: &now, Text: p.Message})
	})
}

// left reports whether a call was given up because Remit ends, before it did
// anything: it is made once the session goes on.
func left(ctx context.Context, o runner.Outcome) bool {
	return errors.Is(context.Cause(ctx), errClosing) && (o.Status == tool.Cancelled || fault.CodeOf(o.Err) == fault.NeedsApproval && !o.Approved)
}

// recorded is the result of a call that an earlier run made, nil if the call is
// to be made: it was never begun, or had done nothing when Remit ended. One that
// may have done something is never made again.
func (l *loop) recorded(ctx context.Context, c *ledger.Call) (*result, error) {
	begun := c.Intent != 0
	switch c.Status {
	case tool.Pending, tool.StatusInterrupted:
		return interrupted(), nil
	case tool.Cancelled:
		if begun {
			return interrupted(), nil
		}
		return nil, nil //nolint:nilnil // it is to be made
	case tool.StatusDenied:
		if !begun && c.Code == fault.NeedsApproval {
			return nil, nil //nolint:nilnil // the question is put again
		}
	default:
	}
	o, err := l.output(ctx, c)
	if err != nil {
		return nil, err
	}
	r := resultOf(o, l.run.Chain(), l.set.limits.Output)
	return &r, nil
}

func interrupted() *result {
	err := fault.New(fault.Interrupted, "Remit ended while this call was under way: it may have taken effect, or not").
		WithHint("look before you do it again")
	return &result{status: tool.StatusInterrupted, err: err, text: errorText(tool.StatusInterrupted, err, nil)}
}

// abandonCalls gives the open calls of a turn that does not go on their results:
// what the record has of them, and else that they were not made.
func (l *loop) abandonCalls(ctx context.Context) error {
	number, open := l.conv.open()
	if len(open) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	list, err := l.want(ctx, number, open)
	if err != nil {
		return err
	}
	ms := make([]Message, len(list))
	for i, w := range list {
		if w.result == nil {
			err := fault.New(fault.ToolCancelled, "the call was not made: the turn was stopped before it")
			w.result = &result{status: tool.Cancelled, err: err, text: errorText(tool.Cancelled, err, nil)}
		}
		ms[i] = w.result.message(w.call.ID)
	}
	return l.add(ctx, ms...)
}
