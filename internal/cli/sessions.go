package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/agents"
)

func (s *session) sessionsCmd() *cobra.Command {
	var q agents.SessionQuery
	c := &cobra.Command{
		Use:   "sessions [SESSION]",
		Short: "List the sessions of agents, or show one in full",
		Long: `SESSION is a session's ID, or its beginning (at least 4 characters). Shows the
session, its runs and its conversation. Secrets are masked, except with --json.

remit chat --session continues a session; remit replay repeats it from its
record.
`,
		Example: `  remit sessions
  remit sessions --agent Editor
  remit sessions 0199f3d0`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(q.Limit, 10000); err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return s.showSession(cmd, a, args[0])
			}
			return s.listSessions(cmd, a, q)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Agent, "agent", "", "only sessions of this `AGENT` (name or ID)")
	f.StringVar(&q.Before, "before", "", "show sessions older than this `ID` (next page)")
	f.IntVar(&q.Limit, "limit", 20, "maximum number of sessions")
	completeFlag(c, "agent", s.completeAgents)
	return c
}

func (s *session) listSessions(cmd *cobra.Command, a *app.App, q agents.SessionQuery) error {
	list, next, err := a.Agents.Sessions(cmd.Context(), q)
	if err != nil {
		return err
	}
	if s.json {
		return printPage(s, list, next)
	}
	if len(list) == 0 {
		s.printf("no sessions\n")
		return nil
	}
	now := time.Now()
	var rows [][]cell
	for _, one := range list {
		sign, col := icon(string(one.State))
		rows = append(rows, []cell{
			{shortRunID(one.ID.String()), bold}, {sign + " " + string(one.State), col}, {when(one.Created, now), dim}, {itoa(one.Last), ""},
			{orDash(shortRunID(one.Run)), ""}, {orDash(one.AgentName), ""}, {one.Title, ""},
		})
	}
	s.table([]string{"SESSION", "STATUS", "CREATED", "MESSAGES", "RUN", "AGENT", "TITLE"}, rows)
	s.older(shortRunID(next))
	return nil
}

func (s *session) showSession(cmd *cobra.Command, a *app.App, id string) error {
	v, err := a.Agents.Session(cmd.Context(), id)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(v)
	}
	s.sessionHead(v.Named)
	if len(v.Runs) > 0 {
		s.printf("\n")
		s.tableOfRuns(v.Runs)
	}
	hide := a.Home.Redactor()
	for _, m := range v.Conversation {
		who := string(m.Role)
		if m.Kind != "" {
			who = string(m.Kind)
		}
		if m.Failed {
			who += ", failed"
		}
		if m.CallID != "" {
			who += "  " + m.CallID
		}
		s.printf("\n%s %s\n", s.paint(bold, fmt.Sprintf("%d %s", m.Number, show(who))), s.paint(dim, m.Created.Local().Format(time.DateTime)))
		if m.Text != "" {
			s.indented(string(hide.JSON([]byte(m.Text))))
		}
		for _, c := range m.Calls {
			s.printf("  %s %s %s\n", s.paint(dim, "●"), show(c.Name), show(compact(hide.JSON(c.Args))))
		}
		if m.Cut {
			s.printf("  %s\n", s.paint(yellow, cutNote))
		}
	}
	return nil
}

func (s *session) sessionHead(v agents.Named) {
	sign, col := icon(string(v.State))
	s.printf("session   %s\nagent     %s  %s\nstatus    %s   %s   created %s   changed %s\n", s.paint(bold, v.ID.String()), v.Agent,
		show(v.AgentName), s.paint(col, sign+" "+string(v.State)), counted(v.Last, "message"), v.Created.Local().Format(time.DateTime),
		v.Updated.Local().Format(time.DateTime))
	if v.Error != nil {
		s.printf("error     %s %s\n", show(v.Error.Code), show(v.Error.Message))
		if v.Error.Hint != "" {
			s.printf("          %s\n", show(v.Error.Hint))
		}
	}
	parent := ""
	if v.Parent != nil {
		parent = v.Parent.String()
	}
	for _, l := range []struct{ label, text string }{{"title", v.Title}, {"parent", parent}, {"grant", v.Grant}} {
		if l.text != "" {
			s.printf("%-9s %s\n", l.label, show(l.text))
		}
	}
	s.printf("tokens    %d in, %d out\n", v.Usage.Input+v.Usage.CacheRead+v.Usage.CacheWrite, v.Usage.Output)
}

// completeSessions completes a session ID with the newest sessions.
func (s *session) completeSessions(cmd *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil || cmd.Name() == "sessions" && len(words) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _, err := a.Agents.Sessions(cmd.Context(), agents.SessionQuery{Limit: 20})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, one := range list {
		out = append(out, cobra.CompletionWithDesc(one.ID.String(), show(strings.TrimSpace(one.AgentName+" "+one.Title))+" "+string(one.State)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeRecorded completes an ID with the newest runs and sessions.
func (s *session) completeRecorded(cmd *cobra.Command, words []string, begin string) ([]string, cobra.ShellCompDirective) {
	runs, directive := s.completeRuns(cmd, words, begin)
	if len(words) > 0 || directive&cobra.ShellCompDirectiveError != 0 {
		return runs, directive
	}
	sessions, also := s.completeSessions(cmd, words, begin)
	return append(runs, sessions...), directive | also
}
