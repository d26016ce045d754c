package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// maxParallel is how many calls of one answer run in parallel.
const maxParallel = 8

// toolCall is a tool call of an answer on its way to its result.
type toolCall struct {
	call     model.Call
	rc       runner.Call
	parallel bool    // it may run beside others
	invalid  error   // why it cannot be made; nil: it can
	result   *result // nil: it has none yet
}

// calls gives the open calls of an answer their results, in the answer's order. Calls
// that only read run in parallel, the others alone. The results of a group are recorded
// before the next group starts.
func (l *loop) calls(ctx context.Context, number int, open []model.Call) error {
	list, err := l.prepareCalls(ctx, number, open)
	if err != nil {
		return err
	}
	for len(list) > 0 {
		n := groupSize(list)
		group := list[:n]
		list = list[n:]
		if err := l.makeGroup(ctx, group); err != nil {
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

// groupSize is how many of the first calls may run at once.
func groupSize(list []*toolCall) int {
	n := 1
	for n < len(list) && n < maxParallel && list[n-1].parallel && list[n].parallel {
		n++
	}
	return n
}

// prepareCalls finds for each call the tool that its name stands for, or why it is
// invalid, or the result that it had before Remit ended.
func (l *loop) prepareCalls(ctx context.Context, number int, open []model.Call) ([]*toolCall, error) {
	list := make([]*toolCall, len(open))
	for i, k := range open {
		w := &toolCall{call: k, rc: runner.Call{Agent: true, Step: StepOf(number, k.ID)}}
		list[i] = w
		before, err := l.earlier(ctx, w.rc.Step)
		if err != nil {
			return nil, err
		}
		if before != nil {
			if w.result, err = l.recordedResult(ctx, before); err != nil {
				return nil, err
			}
		}
		if w.result == nil {
			l.resolve(w)
		}
		w.parallel = w.parallel || w.result != nil
	}
	return list, nil
}

// StepOf names a tool call in the record: by the message that contains it, and by the ID
// that the model gave it there.
func StepOf(message int, call string) string { return fmt.Sprintf("%d:%s", message, call) }

// resolve finds the tool that a call's name stands for.
func (l *loop) resolve(w *toolCall) {
	offer, ok := l.set.offers[w.call.Name]
	switch {
	case !ok:
		if w.rc.Tool = tool.ID(w.call.Name); !isID(w.call.Name) {
			w.rc.Tool = "(no tool)"
		}
		w.invalid = l.unknown(w.call.Name)
		return
	case w.call.Malformed != "":
		w.rc.Tool = offer.ID
		w.invalid = fault.New(fault.ModelCall, "the tool call is malformed: %s", clip.Text(w.call.Malformed, 500)).
			WithHint("write the arguments as one JSON object")
		return
	}
	w.rc.Tool, w.rc.Bounds = offer.ID, offer.Bounds()
	v, err := canon.Decode(w.call.Args)
	args, isMap := v.(map[string]any)
	if err != nil || !isMap {
		w.invalid = fault.New(fault.ModelCall, "the tool call is malformed: its arguments are not a JSON object")
		return
	}
	w.rc.Args = offer.Args(args)
	if offer.ID == tool.AuthorityRequest {
		w.rc.Args = l.wantedOf(w.rc.Args)
	}
	w.parallel = l.readsOnly(offer.ID)
}

// wantedOf gives the arguments of a request with the wanted call as it would be made: the
// model knows its tool by the offered name, and may leave out arguments that have a default.
func (l *loop) wantedOf(args tool.Args) tool.Args {
	name, _ := args["tool"].(string)
	offer, ok := l.set.offers[name]
	if !ok {
		return args
	}
	args = maps.Clone(args)
	args["tool"] = string(offer.ID)
	if wanted, ok := args["args"].(map[string]any); ok {
		args["args"] = map[string]any(offer.Args(wanted))
	}
	return args
}

// isID reports whether a name can be recorded as a tool ID.
func isID(name string) bool {
	_, err := tool.ParseID(name)
	return err == nil
}

// unknown is the error for a name that no tool has. Its hint lists the names.
func (l *loop) unknown(name string) error {
	names := make([]string, 0, len(l.set.tools))
	for _, t := range l.set.tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	err := fault.New(fault.ToolUnknown, "unknown tool %.100q: the session has no tool with this name", name)
	if meant := near.Word(name, names); meant != "" {
		return err.WithHint("did you mean %q?", meant)
	}
	if len(names) == 0 {
		return err.WithHint("the session has no tools")
	}
	return err.WithHint("the tools are %s", clip.Text(strings.Join(names, ", "), 1000))
}

// makeGroup makes the calls of a group in parallel, and waits for all.
func (l *loop) makeGroup(ctx context.Context, group []*toolCall) error {
	first := slices.IndexFunc(group, func(w *toolCall) bool { return w.result == nil })
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
			errs[i] = l.makeCall(ctx, w)
			continue
		}
		all.Go(func() { errs[i] = l.makeCall(ctx, w) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// makeCall makes one call, or records why it is invalid.
func (l *loop) makeCall(ctx context.Context, w *toolCall) error {
	c := CallEvent{ID: w.call.ID, Name: w.call.Name, Tool: string(w.rc.Tool), Args: w.call.Args}
	l.event(Event{Type: CallStarted, Call: &c})
	var o runner.Outcome
	var err error
	if w.invalid != nil {
		o, err = l.run.Refuse(ctx, w.rc, w.invalid)
	} else {
		o, err = l.run.Call(l.publishProgress(ctx, c), w.rc)
	}
	if err != nil {
		return err
	}
	if l.notStarted(ctx, o) {
		return errClosing
	}
	r := l.result(o, w.rc.Step)
	w.result = &r
	ended := c
	ended.Args, ended.Status, ended.DurationMS, ended.Error = nil, o.Status.String(), float64(o.Duration.Microseconds())/1000, problemOf(o.Err)
	l.event(Event{Type: CallEnded, Call: &ended})
	return nil
}

// result is the result of a step's call for the model.
func (l *loop) result(o runner.Outcome, step string) result {
	if o.Withheld() {
		return withheldResult(o, l.set.session, step)
	}
	return resultOf(o, l.run.Chain(), l.set.limits.Output)
}

// publishProgress has the progress of a call published as events.
func (l *loop) publishProgress(ctx context.Context, c CallEvent) context.Context {
	if l.publish == nil {
		return ctx
	}
	c.Args = nil
	return tool.WithProgress(ctx, func(p tool.Progress) {
		now := c
		l.event(Event{Type: CallProgress, Call: &now, Text: p.Message})
	})
}

// notStarted reports whether a call ended because Remit ends, before it did anything. It is made
// when the session is resumed.
func (l *loop) notStarted(ctx context.Context, o runner.Outcome) bool {
	switch {
	case errors.Is(context.Cause(ctx), errClosing):
		return o.Status == tool.Cancelled || o.Status == tool.StatusInterrupted || fault.CodeOf(o.Err) == fault.NeedsApproval && !o.Approved
	case l.ending == nil || l.ending.Err() == nil:
		return false
	}
	return o.Status == tool.StatusInterrupted // it waited for a person, or for a sub-agent that did
}

// recordedResult is the result of a call of an earlier run. It is nil if the call must
// still be made, because it had done nothing when Remit ended. A call that may have done
// something is never made again.
func (l *loop) recordedResult(ctx context.Context, c *ledger.Call) (*result, error) {
	started := c.Intent != 0
	switch c.Status {
	case tool.Pending:
		return interrupted(), nil
	case tool.Cancelled, tool.StatusInterrupted:
		if started {
			return interrupted(), nil
		}
		return nil, nil //nolint:nilnil // it must still be made
	case tool.StatusDenied:
		if !started && c.Code == fault.NeedsApproval {
			return nil, nil //nolint:nilnil // the question is asked again
		}
	default:
	}
	o, err := l.output(ctx, c)
	if err != nil {
		return nil, err
	}
	r := l.result(o, c.Step)
	return &r, nil
}

func interrupted() *result {
	err := fault.New(fault.Interrupted, "Remit ended during this call: it may or may not have taken effect").
		WithHint("check before you repeat the call")
	return &result{status: tool.StatusInterrupted, err: err, text: errorText(tool.StatusInterrupted, err, nil)}
}

// abandonCalls gives the open calls of a turn that will not continue their results: the
// recorded one, or else that the call was not made.
func (l *loop) abandonCalls(ctx context.Context) error {
	number, open := l.conv.open()
	if len(open) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	list, err := l.prepareCalls(ctx, number, open)
	if err != nil {
		return err
	}
	ms := make([]Message, len(list))
	for i, w := range list {
		if w.result == nil {
			err := fault.New(fault.ToolCancelled, "the call was not made: the turn was stopped first")
			w.result = &result{status: tool.Cancelled, err: err, text: errorText(tool.Cancelled, err, nil)}
		}
		ms[i] = w.result.message(w.call.ID)
	}
	return l.add(ctx, ms...)
}
