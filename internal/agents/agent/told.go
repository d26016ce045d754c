package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// violationNotice begins the notice that tells a model of its sub-agents' violations.
const violationNotice = "[Remit] A sub-agent of yours was refused something that its policy does not only log: "

// maxTold is how many violations of sub-agents wait for a session's next step.
const maxTold = 20

// watchChild returns an observer of a sub-agent's run: violations to which the policy responds
// with notify or more are told to the parent's session, if this process works on it.
func (s *Service) watchChild(parent uuid.UUID, child childDoc) func(runner.Notice) {
	return func(n runner.Notice) {
		if n.State != ledger.Ended {
			return
		}
		for _, v := range n.Outcome.Violations {
			if v.Response < policy.NotifyViolation {
				continue
			}
			if child.Quarantine { // it may have chosen the rest
				s.queueText(parent, fmt.Sprintf("%q (violations.%s: %s)", child.Name, v.Kind, v.Response))
				continue
			}
			text := fmt.Sprintf("%q called %s (violations.%s: %s)", child.Name, n.Call.Tool, v.Kind, v.Response)
			if !n.Outcome.Withheld() { // else the reason may contain the call's input
				text += ": " + clip.Text(v.Reason, 300)
			}
			s.queueText(parent, text)
		}
	}
}

// queueText keeps a text for a session's next step.
func (s *Service) queueText(id uuid.UUID, text string) {
	l := s.acquireKnown(id)
	if l == nil {
		return
	}
	defer s.release(l)
	l.do(func(o *owner) {
		if len(o.told) < maxTold {
			o.told = append(o.told, text)
		}
	})
}

// takeTold gives the texts that were kept for the session, once.
func (l *session) takeTold() (text string) {
	l.do(func(o *owner) {
		if len(o.told) > 0 {
			text = violationNotice + strings.Join(o.told, "; ")
		}
		o.told = nil
	})
	return text
}

// addTold adds a notice with the messages that the session got since its last step.
func (l *loop) addTold(ctx context.Context) error {
	if l.told == nil {
		return nil
	}
	text := l.told()
	if text == "" {
		return nil
	}
	return l.add(ctx, Message{Kind: Notice, Role: model.User, Text: text})
}

// nextNotice gives the recorded notice of violations that comes next; "": none does.
func (st *rehearsing) nextNotice() string {
	if len(st.record) == 0 {
		return ""
	}
	m, err := decode(st.record[0])
	if err != nil || m.Kind != Notice || !strings.HasPrefix(m.Text, violationNotice) {
		return ""
	}
	return m.Text
}
