package runs

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/notify"
)

// notifier returns an observer that tells people of a run's violations to which the policy
// responds with notify or more: of each kind the first one.
func (s *Runs) notifier() func(runner.Notice) {
	var mu sync.Mutex
	told := map[policy.Violation]bool{}
	return func(n runner.Notice) {
		if n.State != ledger.Ended {
			return
		}
		if grant := n.Run.Grant.ID(); grant != uuid.Nil && fault.CodeOf(n.Outcome.Err) == fault.BudgetSpent {
			s.Notifier.BudgetUsedUp(grant.String(), n.Run.Grant.Holder(), n.Run.ID.String())
		}
		for _, v := range n.Outcome.Violations {
			if v.Response < policy.NotifyViolation {
				continue
			}
			mu.Lock()
			known := told[v.Kind]
			told[v.Kind] = true
			mu.Unlock()
			if !known {
				s.Notifier.Notify(violationEvent(n, v))
			}
		}
	}
}

// violationEvent is a violation for people. It has no arguments.
func violationEvent(n runner.Notice, v runner.Violation) notify.Event {
	run := n.Run.ID.String()
	return notify.Event{
		Kind: notify.PolicyViolated, ID: fmt.Sprintf("%s.%s", run, v.Kind), At: n.Outcome.Created.Add(n.Outcome.Duration).Round(time.Millisecond),
		Title: fmt.Sprintf("%s was refused (violations.%s: %s)", n.Call.Tool, v.Kind, v.Response), Do: "remit report " + run,
		Facts: map[string]string{"run": run, "call": fmt.Sprint(n.Outcome.Index), "tool": string(n.Call.Tool), "kind": v.Kind.String(),
			"response": v.Response.String(), "holder": n.Run.Grant.Holder()},
	}
}
