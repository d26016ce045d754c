package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
)

func (s *session) agentsCmd() *cobra.Command {
	var before string
	var limit int
	c := &cobra.Command{
		Use:   "agents [AGENT]",
		Short: "List agents, or describe one; install hooks in other agents",
		Long: `AGENT is an agent's name, its ID, or the beginning of one. Agents are created
with remit chat --model, the HTTP API or package remit. Newest first.

The commands below are for agents of others, as Claude Code: they let Remit
decide the calls of such an agent.
`,
		Example: `  remit agents
  remit agents Editor
  remit agents Editor --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(limit, 10000); err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return s.describeAgent(cmd, a, args[0])
			}
			return s.listAgents(cmd, a, before, limit)
		},
	}
	c.Flags().StringVar(&before, "before", "", "show agents older than this `ID` (next page)")
	c.Flags().IntVar(&limit, "limit", 20, "maximum number of agents")
	c.AddCommand(s.agentsInstallCmd(), s.agentsStatusCmd(), s.agentsRemoveCmd())
	return c
}

// checkLimit checks the value of --limit.
func checkLimit(limit, most int) error {
	if limit < 1 || limit > most {
		return fault.New(fault.Usage, "--limit %d is not between 1 and %d", limit, most).
			WithHint("to list more, continue with --before and the ID that is printed after the list")
	}
	return nil
}

func (s *session) listAgents(cmd *cobra.Command, a *app.App, before string, limit int) error {
	list, next, err := a.Agents.List(cmd.Context(), before, limit)
	if err != nil {
		return err
	}
	if s.json {
		return printPage(s, list, next)
	}
	if len(list) == 0 {
		s.printf("no agents of your own; remit agents status shows the hooks in other makers' agents\n")
		return nil
	}
	now := time.Now()
	var rows [][]cell
	for _, one := range list {
		var has []string
		for _, c := range one.Capabilities {
			has = append(has, c.Ref)
		}
		rows = append(rows, []cell{
			{shortRunID(one.ID.String()), bold}, {one.Name, ""}, {orDash(one.Model), ""}, {when(one.Updated, now), dim}, {orDash(strings.Join(has, ", ")), ""},
		})
	}
	s.table([]string{"AGENT", "NAME", "MODEL", "CHANGED", "CAPABILITIES"}, rows)
	s.older(shortRunID(next))
	return nil
}

func (s *session) describeAgent(cmd *cobra.Command, a *app.App, id string) error {
	v, err := a.Agents.Find(cmd.Context(), id)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(v)
	}
	s.printf("agent     %s  %s\nmodel     %s\nstatus    %s   version %d   created %s   changed %s\n", v.ID, s.paint(bold, show(v.Name)),
		show(orDash(v.Model)), v.Status, v.Version, v.Created.Local().Format(time.DateTime), v.Updated.Local().Format(time.DateTime))
	for _, l := range []struct {
		what string
		n    int64
	}{
		{"model calls per turn", int64(v.Limits.Steps)}, {"tokens per answer", v.Limits.MaxTokens},
		{"bytes of a tool's output at once", int64(v.Limits.Output)}, {"tokens of context before the conversation is compacted", v.Limits.Context},
	} {
		if l.n > 0 {
			s.printf("limit     %d %s\n", l.n, l.what)
		}
	}
	for i, c := range v.Capabilities {
		label := ""
		if i == 0 {
			label = "has"
		}
		config := ""
		if len(c.Config) > 0 {
			config = "  " + s.paint(dim, show(compact(c.Config)))
		}
		s.printf("%-9s %s%s\n", label, show(c.Ref), config)
	}
	for i := range v.Commitments {
		s.printf("commits   %s\n", show(v.Commitments[i].String()))
	}
	if v.Quarantine {
		s.printf("runs      in quarantine as a sub-agent; only this answer comes back:\n  %s\n", show(compact(v.Answer)))
	}
	s.section("policy", v.Policy)
	s.section("prompt", v.SystemPrompt)
	return nil
}

// section prints a text under its title, unless it is empty.
func (s *session) section(title, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	s.printf("\n%s\n", s.paint(bold, title))
	s.indented(text)
}

// indented prints a text of several lines.
func (s *session) indented(text string) {
	for line := range strings.SplitSeq(showLines(text), "\n") {
		s.printf("%s\n", strings.TrimRight("  "+line, " "))
	}
}

// completeAgents completes an agent ID with the newest agents.
func (s *session) completeAgents(cmd *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil || cmd.Name() == "agents" && len(words) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _, err := a.Agents.List(cmd.Context(), "", 20)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, one := range list {
		out = append(out, cobra.CompletionWithDesc(one.ID.String(), show(one.Name)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeFlag completes the value of a flag.
func completeFlag(cmd *cobra.Command, name string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name, with); err != nil {
		panic(err) // the flag is not there: a mistake in this package
	}
}
