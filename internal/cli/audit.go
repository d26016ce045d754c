package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/runs"
)

func (s *session) auditCmd() *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use:   "audit",
		Short: "List recorded events of all runs, newest first",
		Long: `Events record runs, calls, grants, approvals, agents, sessions and changes by
an operator. --event takes one of these names:
  run_started, run_finished, capability_started, capability_executed,
  capability_failed, capability_timeout, capability_slow, capability_skipped,
  security_violation, violation, changeset, grant_issued, grant_standing,
  question_asked, question_voted, question_closed, agent_saved, session_saved,
  message_added, file_saved, operator_action, run_queued, queued_run_changed,
  schedule_saved, queue_paused

violation is a refusal that the policy asked to report. operator_action is a
change to secrets, trusted policies, tool sources, extensions or settings.
security_violation and --denied also list calls that were allowed, but had a
connection or another action refused while they ran.
`,
		Example: `  remit audit --since 24h --denied
  remit audit --event security_violation --json
  remit audit --tool shell.run --failed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(time.Now())
			if err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			found, next, err := a.History.Audit(cmd.Context(), q)
			if err != nil {
				return err
			}
			return s.printAudit(found, next)
		},
	}
	fl := c.Flags()
	f.addTimes(fl, "events")
	fl.StringVar(&f.Event, "event", "", "only events with this `NAME`")
	fl.StringVar(&f.Extension, "extension", "", "only calls by this extension's tools and slash commands")
	fl.StringVar(&f.tool, "tool", "", "only calls of this `TOOL`")
	fl.StringVar(&f.status, "status", "", "only calls and runs with this `STATUS`")
	fl.BoolVar(&f.Failed, "failed", false, "only calls that failed, timed out, or were cancelled or interrupted")
	fl.BoolVar(&f.Denied, "denied", false, "only calls that were denied, or had an action refused")
	fl.Uint64Var(&f.before, "before", 0, "show events before this sequence `NUMBER` (next page)")
	fl.IntVar(&f.Limit, "limit", 50, "maximum number of events")
	return c
}

// auditFlags are the flags of remit audit that need parsing; the others are in the query.
type auditFlags struct {
	history.AuditQuery
	sharedFilter
	status string
	before uint64
}

func (f auditFlags) query(now time.Time) (q history.AuditQuery, err error) {
	q = f.AuditQuery
	if q.Since, q.Until, err = f.parse(now); err != nil {
		return q, err
	}
	if f.status != "" {
		var ok bool
		if q.Status, ok = tool.ParseStatus(f.status); !ok {
			return q, fault.New(fault.Usage, "--status %q is not a valid status", f.status).
				WithHint("expected completed, denied, failed, timeout, cancelled, interrupted or skipped")
		}
	}
	if err := checkLimit(q.Limit, 100000); err != nil {
		return q, err
	}
	if names := history.EventNames(); q.Event != "" && !slices.Contains(names, q.Event) {
		return q, fault.New(fault.Usage, "--event %q is not a valid event", q.Event).
			WithHint("%s", document.Suggest(q.Event, "expected one of", names))
	}
	q.Tool, q.Before = tool.ID(f.tool), ledger.Seq(f.before)
	return q, nil
}

func (s *session) printAudit(found []history.AuditEvent, next ledger.Seq) error {
	if s.json {
		before := ""
		if next > 0 {
			before = strconv.FormatUint(uint64(next), 10)
		}
		return printPage(s, found, before)
	}
	if len(found) == 0 {
		s.printf("no events\n")
		return nil
	}
	now := time.Now()
	var rows [][]cell
	for _, e := range found {
		sign, col := icon(e.Status)
		where := shortRunID(cmp.Or(e.RunID, cmp.Or(e.Grant, e.Subject)))
		if e.Call > 0 {
			where += "/" + itoa(e.Call)
		}
		event := e.Event
		if e.Action != "" {
			event, where = e.Action, e.Target
		}
		if event == runs.EventChangeset || e.Action == "" && e.By != "" || e.Grant != "" || e.Number > 0 {
			event += " " + e.Status
		}
		if e.Client != "" {
			event += map[bool]string{true: ", left to ", false: ", reported by "}[e.Status == ledger.Running] + e.Client
		}
		if e.Refused > 0 {
			event += ", " + itoa(e.Refused) + " refused"
		}
		rows = append(rows, []cell{
			{fmt.Sprint(e.Seq), dim}, {when(e.At, now), dim}, {sign + " " + event, col}, {where, ""}, {string(e.Tool), bold},
			{cmp.Or(e.Code, "-"), ""}, {ruleText(e.Effect, e.Rule), dim},
		})
	}
	s.table([]string{"SEQ", "AT", "EVENT", "RUN/CALL", "TOOL", "CODE", "RULE"}, rows)
	if next > 0 {
		s.older(fmt.Sprint(next))
	}
	return nil
}
