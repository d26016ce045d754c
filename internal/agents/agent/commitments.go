package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/model"
)

// commitmentNotice begins the notice that gives unmet commitments back to the model.
const commitmentNotice = "[Remit] You are not done yet: "

// meetCommitments checks the session's commitments at the end of a turn, each with a call
// under the session's grant. It reports true if all are met. Otherwise it adds a notice with
// their results, so that the turn goes on, at most as often as the limits say.
func (l *loop) meetCommitments(ctx context.Context) (bool, error) {
	list, total := l.set.commitments, len(l.set.commitments)
	var unmet []string
	if l.set.quarantined() {
		total++
	}
	if owes := l.owesAnswer(); len(list) == 0 && !owes {
		return true, nil
	} else if owes {
		unmet = append(unmet, "- call the tool "+answerName+" with your answer")
	}
	after := l.conv.last
	for i := range list {
		o, err := l.checkCommitment(ctx, i, after)
		if err != nil {
			return false, err
		}
		if o.Status != tool.Completed {
			unmet = append(unmet, fmt.Sprintf("- %s: %s", &list[i], resultOf(o, l.run.Chain(), l.set.limits.Output).text))
		}
	}
	if len(unmet) == 0 {
		return true, nil
	}
	tried := l.conv.returned()
	if tried >= l.set.limits.Attempts {
		return false, fault.New(fault.CommitmentUnmet, "%d of %d commitments are not met after %d attempts", len(unmet), total, tried+1).
			WithHint("send a message that asks for another way")
	}
	text := fmt.Sprintf("%s%d of %d commitments of this task are not met. They are checked again when you finish; this is attempt %d of %d.\n%s",
		commitmentNotice, len(unmet), total, tried+1, l.set.limits.Attempts+1, strings.Join(unmet, "\n"))
	return false, l.add(ctx, Message{Kind: Notice, Role: model.User, Text: text})
}

// checkCommitment makes the call that checks a commitment after a message, or finds it in an
// earlier run of the session.
func (l *loop) checkCommitment(ctx context.Context, i, after int) (runner.Outcome, error) {
	c := l.set.commitments[i]
	id, args := c.Call()
	call := runner.Call{Agent: true, Step: fmt.Sprintf("%d/commitment-%d", after, i+1), Tool: id, Args: args, Commitment: &c}
	before, err := l.earlier(ctx, call.Step)
	if err != nil {
		return runner.Outcome{}, err
	}
	if before != nil && (before.Status == tool.Completed || before.Code == fault.CommitmentUnmet) {
		return l.output(ctx, before)
	}
	if err := l.gate(ctx, call.Step); err != nil {
		return runner.Outcome{}, err
	}
	l.index++
	call.Index = l.index
	o, err := l.run.Call(ctx, call)
	if err == nil && ctx.Err() != nil && o.Status != tool.Completed {
		err = context.Cause(ctx)
	}
	return o, err
}

// returned counts how often commitments were given back to the model in the current turn.
func (c *conversation) returned() int {
	n := 0
	for _, e := range c.turn() {
		switch {
		case e.Kind == Summary:
			n += e.Attempts
		case e.Kind == Notice && strings.HasPrefix(e.Text, commitmentNotice):
			n++
		}
	}
	return n
}
