package runs

import (
	"context"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
)

// LearnFrom writes what is learned from an outcome, under a policy and with
// what a person was asked about and allowed.
func (s *Runs) LearnFrom(root *policy.Policy, workspace string, out sandbox.Outcome, tried ledger.Attempts, approved ...tool.Target) (LearnedExec, error) {
	wide, err := root.Widened(policy.Wide{Files: true, Hold: true, System: "standard", Ask: len(approved) > 0})
	if err != nil {
		return LearnedExec{}, err
	}
	rules, err := wide.Bind(s.Home.Env(workspace))
	if err != nil {
		return LearnedExec{}, err
	}
	l := &execLearner{runs: s, root: root, approved: approved}
	return l.learned("learned", workspace, out, tried, policy.Chain{rules})
}

// LogEntry is the log entry of a notice.
var LogEntry = logEntry

// NotifierOf is the observer that tells people of violations.
func NotifierOf(s *Runs) func(runner.Notice) { return s.notifier() }

// AskerOf is who is asked about the connections of a typed command under terms; nil: nobody.
func AskerOf(terms policy.Terms, admin bool, ask func(context.Context, tool.Action, policy.Decision) bool) func(context.Context, tool.Action, policy.Decision) bool {
	return (&execTool{q: ExecRequest{Ask: ask}, admin: admin}).asker(terms)
}

// TypedBy approves commands that a person types, who is an admin or not.
func TypedBy(admin bool) Typed { return Typed{By: "user:ann", Where: "test", admin: admin} }
