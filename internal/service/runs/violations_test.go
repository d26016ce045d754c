package runs_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/runs"
)

// inbox is a channel to people that keeps what they are told.
type inbox struct{ got chan notify.Event }

func (inbox) Name() string { return "inbox" }

func (i inbox) Deliver(_ context.Context, e notify.Event) error {
	i.got <- e
	return nil
}

func TestPeopleAreToldOfViolations(t *testing.T) {
	in := inbox{make(chan notify.Event, 10)}
	n := notify.New([]notify.Channel{in}, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
	observe := runs.NotifierOf(&runs.Runs{Notifier: n})
	run := &runner.Run{Info: runner.Info{ID: uuid.New(), Grant: grant.New(grant.Terms{Holder: "agent:reader"})}}
	ended := func(list ...runner.Violation) {
		observe(runner.Notice{Run: run, State: ledger.Ended, Call: runner.Call{Tool: "fs.read", Args: tool.Args{"path": "/private"}},
			Outcome: &runner.Outcome{Index: 3, Violations: list}})
	}
	path := func(r policy.Response) runner.Violation {
		return runner.Violation{Kind: policy.PathViolation, Response: r, Reason: "no entry matches /private"}
	}
	ended(path(policy.LogViolation))
	ended(path(policy.NotifyViolation))
	ended(path(policy.NotifyViolation)) // people are told once
	ended(runner.Violation{Kind: policy.HostViolation, Response: policy.RevokeGrant})
	observe(runner.Notice{Run: run, State: ledger.Executing})
	n.Close()
	close(in.got)
	var got []notify.Event
	for e := range in.got {
		got = append(got, e)
	}
	if len(got) != 2 {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	if e := got[0]; e.Kind != "policy.violated" || e.Title != "fs.read was refused (violations.path: notify)" || e.Facts["holder"] != "agent:reader" || e.Facts["call"] != "3" {
		t.Errorf("got %+v", e)
	}
	if got[1].Facts["kind"] != "host" || got[1].Facts["response"] != "revoke" {
		t.Errorf("got %+v", got[1])
	}
}

func TestOperatorsAreToldOfASpentBudget(t *testing.T) {
	in := inbox{make(chan notify.Event, 10)}
	n := notify.New([]notify.Channel{in}, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
	id := uuid.New()
	of := func(g grant.Terms, err error) {
		observe := runs.NotifierOf(&runs.Runs{Notifier: n})
		observe(runner.Notice{Run: &runner.Run{Info: runner.Info{ID: uuid.New(), Grant: grant.New(g)}}, State: ledger.Ended, Call: runner.Call{Tool: "fs.read"}, Outcome: &runner.Outcome{Err: err}})
	}
	spent := fault.New(fault.BudgetSpent, "the calls are used up")
	of(grant.Terms{}, spent) // a person at the machine
	of(grant.Terms{ID: id, Holder: "agent:reader"}, fault.New(fault.LimitReached, "another limit"))
	of(grant.Terms{ID: id, Holder: "agent:reader"}, spent)
	of(grant.Terms{ID: id, Holder: "agent:reader"}, spent) // another run of the grant
	n.Close()
	close(in.got)
	var got []notify.Event
	for e := range in.got {
		got = append(got, e)
	}
	if len(got) != 1 || got[0].Kind != notify.BudgetSpent || got[0].Facts["grant"] != id.String() || got[0].Facts["holder"] != "agent:reader" {
		t.Errorf("told %+v", got)
	}
}
