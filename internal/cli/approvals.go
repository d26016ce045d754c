package cli

import (
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
)

func (s *session) approvalsCmd() *cobra.Command {
	var all bool
	var limit int
	c := &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for approval, and answer them",
		Long: `A policy can require a person's approval for a call. This lists the pending
ones. An approval covers exactly that call, with exactly those arguments. If
the call was refused because no terminal was attached, repeat it after it is
approved.
`,
		Example: `  remit approvals
  remit approvals show 0199c1d2
  remit approvals approve 0199c1d2
  remit approvals deny 0199c1d2 --reason "not on a Friday"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			f := store.QuestionFilter{State: store.Waiting, Limit: limit}
			if all {
				f.State = 0
			}
			list, err := a.Approvals.List(cmd.Context(), f)
			if err != nil {
				return err
			}
			return s.printQuestions(list, all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also list answered and expired ones")
	c.Flags().IntVar(&limit, "limit", 50, "maximum number of approvals")
	c.AddCommand(s.approvalsShowCmd(), s.approvalsHistoryCmd(), s.approveCmd(), s.denyCmd(), s.approvalsWatchCmd())
	return c
}

// grantOf returns the grant that the answer was given under, "" if none.
func grantOf(v store.Vote) string {
	if v.Grant == uuid.Nil {
		return ""
	}
	return v.Grant.String()
}

func (s *session) printQuestions(list []store.Approval, all bool) error {
	if !all {
		open := list[:0]
		for _, q := range list {
			if q.State == store.Waiting {
				open = append(open, q)
			}
		}
		list = open
	}
	if s.json {
		return printPage(s, list, "")
	}
	if len(list) == 0 {
		s.printf("no pending approvals\n")
		return nil
	}
	rows := make([][]cell, len(list))
	colours := map[store.QuestionState]colour{store.Waiting: yellow, store.Approved: green, store.Used: green, store.Refused: red}
	for i, q := range list {
		b, err := approvals.BodyOf(q)
		if err != nil {
			return err
		}
		state := q.State
		rows[i] = []cell{
			{text: shortRunID(q.ID.String())}, {text: state.String(), colour: colours[state]}, {text: when(q.Asked, time.Now())}, {text: q.Holder},
			{text: calledTool(b)}, {text: b.Risk}, {text: b.Reason},
		}
	}
	s.table([]string{"APPROVAL", "STATE", "ASKED", "HOLDER", "TOOL", "RISK", "REASON"}, rows)
	return nil
}

// maxAbout bounds the text that a list shows of a call's arguments, in characters.
const maxAbout = 60

// calledTool is a question's tool with the most telling argument, such as its command.
func calledTool(b approval.Body) string {
	return strings.TrimSpace(string(b.Tool) + " " + oneLine(report.About(b.Args)))
}

// oneLine shortens a text for a list.
func oneLine(text string) string { return clip.Text(strings.Join(strings.Fields(text), " "), maxAbout) }

func (s *session) approvalsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a pending or answered approval in full",
		Example: "  remit approvals show 0199c1d2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			q, b, err := a.Approvals.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(q)
			}
			h, err := a.Approvals.History(cmd.Context(), q.ID.String(), approvals.Everything)
			if err != nil {
				return err
			}
			s.printf("%s %s, %s\n", s.paint(bold, show(string(b.Tool))), q.ID, q.State)
			if q.Interrupted != "" {
				s.printf("  %-10s %s\n", "stopped", show(q.Interrupted))
			}
			if s.printBody(b, "  ") {
				s.printf("  in full:\n")
				s.printWhole(b, "    ")
			}
			s.printEvidence(h, "  ")
			s.printf("  %-10s %s, call %d\n", "run", q.RunID, q.Call)
			s.printf("  %-10s %s\n", "until", q.Until.Local().Format(time.DateTime))
			if q.Needs > 1 || q.Admin || len(q.Roles) > 0 {
				s.printf("  %-10s %s\n", "needs", approvalNeeds(q))
			}
			for _, v := range q.Votes {
				s.printVote(v)
			}
			return nil
		},
	}
}

func (s *session) approvalsHistoryCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "history ID",
		Short: "Show earlier decisions about similar calls",
		Long: `Counts earlier approvals of the same tool, target and session pattern, and the
recorded calls that the pattern would have covered, of the 90 days before.
`,
		Example: "  remit approvals history 0199c1d2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			h, err := a.Approvals.History(cmd.Context(), args[0], approvals.Everything)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(h)
			}
			for _, text := range h.Lines() {
				s.printf("%s\n", text)
			}
			return nil
		},
	}
}

func approvalNeeds(q store.Approval) string {
	out := counted(q.Needs, "approver")
	if q.Admin {
		out += "; one must be an admin"
	}
	if len(q.Roles) > 0 {
		out += "; of the role " + show(strings.Join(q.Roles, " or "))
	}
	if q.Person != "" {
		out += "; not " + show(q.Person)
	}
	return out
}

func (s *session) printVote(v store.Vote) {
	word, col := "no", red
	if v.Yes {
		word, col = "yes", green
	}
	if v.Session != nil {
		word = "yes for the session"
	}
	reason := ""
	if v.Reason != "" {
		reason = ": " + show(v.Reason)
	}
	by := show(v.By)
	if g := grantOf(v); g != "" {
		by += " under grant " + g
	}
	s.printf("  %-10s %s, %s, by %s%s\n", "answer", s.paint(col, word), v.At.Local().Format(time.DateTime), by, reason)
}

func (s *session) approveCmd() *cobra.Command {
	var session bool
	c := &cobra.Command{
		Use:   "approve ID",
		Short: "Approve a call",
		Long: `The approval covers this one call, once. With --session it also covers further
calls of the same run that match the pattern shown by remit approvals show. If
the call was denied and its caller requested authority, it proposes a change of
a policy: the approval applies that change to the file, and a trusted policy
stays trusted. Read it with remit approvals show ID first.
`,
		Example: "  remit approvals approve 0199c1d2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.answer(cmd, args[0], true, session, "")
		},
	}
	c.Flags().BoolVar(&session, "session", false, "also approve matching calls of the same run")
	return c
}

func (s *session) denyCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "deny ID",
		Short:   "Deny a call",
		Example: "  remit approvals deny 0199c1d2 --reason \"wrong branch\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.answer(cmd, args[0], false, false, reason)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "`REASON` to tell the caller")
	return c
}

func (s *session) answer(cmd *cobra.Command, id string, yes, session bool, reason string) error {
	if s.delegated() {
		return errDelegatedAnswer
	}
	a, err := s.open()
	if err != nil {
		return err
	}
	q, err := a.Approvals.Answer(cmd.Context(), id, approvals.Here(yes, session, reason))
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(q)
	}
	s.printf("%s %s\n", s.paint(green, "✓"), answerText(q))
	return s.printApplied(q)
}

// printApplied shows the changes of policies that an approval applied.
func (s *session) printApplied(q store.Approval) error {
	b, err := approvals.BodyOf(q)
	if err != nil || q.State != store.Approved {
		return err
	}
	for _, e := range b.Edits {
		s.printf("  changed %s, for runs that begin from now on\n", show(e.File))
		for line := range strings.Lines(e.Diff) {
			s.printf("    %s\n", show(strings.TrimSuffix(line, "\n")))
		}
	}
	return nil
}

// answerText tells what became of a question after an answer.
func answerText(q store.Approval) string {
	return map[store.QuestionState]string{
		store.Waiting: "approval recorded; " + counted(q.Needs-len(q.Votes), "more approver") + " needed", store.Approved: "approved", store.Used: "approved, and used",
		store.Refused: "denied",
	}[q.State]
}

var errDelegatedAnswer = fault.New(fault.Denied, "a process that runs under a grant cannot approve calls").WithHint("answer from a shell without REMIT_GRANT")
