package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

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
		Short: "List recorded events across all runs, newest first",
		Long: `An event is the start or end of a run, a call, or what happened to a grant, a
question, an agent or a session. --event takes an event's name: run_started,
run_finished, capability_started, capability_executed, capability_failed,
capability_timeout, capability_slow, capability_skipped, security_violation,
changeset, grant_issued, grant_standing, question_asked, question_voted,
question_closed, agent_saved, session_saved, message_added, file_saved,
operator_action (a change by an operator: secrets, trusted policies, tools'
sources, extensions, settings) or violation (what a policy wants to be known of
what was refused).
security_violation and --denied also list calls that were allowed and then
refused something while they ran, as a connection.
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
	fl.StringVar(&f.since, "since", "", "not older than this: 2h, 7d, 2026-01-31 or an RFC 3339 time")
	fl.StringVar(&f.until, "until", "", "not newer than this")
	fl.StringVar(&f.Event, "event", "", "events of this name")
	fl.StringVar(&f.Extension, "extension", "", "calls of this extension's tools, and those that its slash commands made")
	fl.StringVar(&f.tool, "tool", "", "calls of this tool")
	fl.StringVar(&f.status, "status", "", "calls and runs that ended so")
	fl.BoolVar(&f.Failed, "failed", false, "calls that failed, timed out, or were cancelled or interrupted")
	fl.BoolVar(&f.Denied, "denied", false, "calls that were denied, or refused something while they ran")
	fl.Uint64Var(&f.before, "before", 0, "the next page: events before this number")
	fl.IntVar(&f.Limit, "limit", 50, "how many at most")
	return c
}

// auditFlags are the flags of remit audit; what needs no reading is in the query.
type auditFlags struct {
	history.AuditQuery
	since, until, status, tool string
	before                     uint64
}

func (f auditFlags) query(now time.Time) (q history.AuditQuery, err error) {
	q = f.AuditQuery
	if q.Since, err = parseTime("--since", f.since, now); err != nil {
		return q, err
	}
	if q.Until, err = parseTime("--until", f.until, now); err != nil {
		return q, err
	}
	if f.status != "" {
		var ok bool
		if q.Status, ok = tool.ParseStatus(f.status); !ok {
			return q, fault.New(fault.Usage, "--status %q is not a valid status", f.status).
				WithHint("expected completed, denied, failed, timeout, cancelled, interrupted or skipped")
		}
	}
	if q.Limit < 1 || q.Limit > 100000 {
		return q, fault.New(fault.Usage, "--limit is 1 to 100000, not %d", q.Limit).WithHint("--before shows the next page")
	}
	if q.Event != "" && !history.KnownEvent(q.Event) {
		return q, fault.New(fault.Usage, "--event %q is not a valid event", q.Event).WithHint("see remit audit --help")
	}
	if _, err := tool.ParseID(f.tool); f.tool != "" && err != nil {
		return q, fault.New(fault.Usage, "--tool %q is not a valid tool ID", f.tool).WithHint("remit tools lists them")
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
		where := short(orElse(e.RunID, orElse(e.Grant, e.Subject)))
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
		if e.Refused > 0 {
			event += ", " + itoa(e.Refused) + " refused"
		}
		rows = append(rows, []cell{
			{fmt.Sprint(e.Seq), dim}, {when(e.At, now), dim}, {sign + " " + event, col}, {where, ""}, {string(e.Tool), bold},
			{orElse(e.Code, "-"), ""}, {e.Rule, dim},
		})
	}
	s.table([]string{"SEQ", "AT", "EVENT", "RUN/CALL", "TOOL", "CODE", "RULE"}, rows)
	if next > 0 {
		s.older(fmt.Sprint(next))
	}
	return nil
}
