package cli

import (
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/keeper"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/overview"
)

func (s *session) statusCmd() *cobra.Command {
	var dir, since string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which changed files here your own programs will run",
		Long: `Lists the files of this project that have changed and that programs of yours
run, or follow: package.json, Makefile, conftest.py, .venv, node_modules,
executables and their like. Look at them before you build, test or install.

Remit looks at the files themselves: a program in a sandbox cannot set back
when they were changed. Your own changes are in the list, too. BY is the run
that is known to have changed the file last.

Source files, documents and data in folders are not in it: read the difference
that your version control shows, with the files that it ignores.
`,
		Example: `  remit status
  remit status --since 7d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			from, err := parseTime("--since", since, now)
			if err == nil && from.After(now) {
				err = fault.New(fault.Usage, "--since %q has not come yet", since)
			}
			if err != nil {
				return err
			}
			folder, err := home.Workspace(dir)
			if err != nil {
				return err
			}
			if dir == "" {
				folder = overview.Root(folder)
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			busy := s.startActivity("looking at the files")
			status, err := (&overview.Overview{Home: a.Home, Undo: a.Changes.Folder(), Reader: a.Reader}).Look(cmd.Context(), folder, from)
			busy.stop()
			if err != nil {
				return err
			}
			if kept, err := keeper.Ask(cmd.Context(), a.Home.Dir); err == nil && kept.Sandboxes > 0 {
				status.Gaps = append(status.Gaps, overview.Gap{Why: "commands of an agent's session may still run, here or elsewhere, and change files"})
			}
			if s.json {
				return s.printJSON(status)
			}
			s.printStatus(status)
			return nil
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "project `DIR` (default: that of the current folder)")
	c.Flags().StringVar(&since, "since", "", "changes after this `TIME`: 2h, 7d, 2026-01-31 or RFC 3339 (default:\nsince the last work of agents here began, and at least 24h)")
	return c
}

func (s *session) printStatus(v overview.Status) {
	now := time.Now()
	since := when(v.Since, now)
	if v.Work {
		since += ", when the last work of agents here began"
	}
	s.facts("project", "  ", cell{show(v.Folder), bold})
	s.facts("since", "    ", cell{text: since})
	s.facts("looked at", "", cell{text: counted(v.Looked, "name")})
	if len(v.Files) > 0 {
		s.printf("\n%s your programs will run what has changed here; look at it first:\n", s.paint(yellow, "!"))
	}
	var rows [][]cell
	known := false
	for _, c := range together(v.Files) {
		name, by, files := showPath(c.Path), "not known", ""
		if c.Target != "" {
			name += " -> " + showPath(c.Target)
		}
		if c.Files > 1 {
			files = itoa(c.Files)
		}
		if c.Run != nil {
			known, by = true, shortRunID(c.Run.ID)
		}
		rows = append(rows, []cell{{name, bold}, {files, ""}, {c.Program, ""}, {when(c.At, now), dim}, {by, dim}})
	}
	if len(rows) > 0 {
		s.table([]string{"CHANGED", "FILES", "RUN BY", "WHEN", "BY"}, rows)
	}
	for _, g := range v.Gaps {
		if g.Path != "" {
			g.Why = showPath(g.Path) + ": " + g.Why
		}
		s.printf("%s not all is known: %s\n", s.paint(yellow, "!"), show(g.Why))
	}
	switch {
	case known:
		s.printf("%s\n", s.paint(dim, "remit show RUN says what a run did, remit undo RUN restores what it changed"))
	case len(v.Files)+len(v.Gaps) == 0:
		s.printf("\nNo file that your programs are known to run has changed since then.\n")
	}
}

// together makes one row of many files of one kind in a folder. Files with names of their own, as Makefile, stay apart.
func together(list []overview.Changed) (out []overview.Changed) {
	const many = 5
	of := func(c overview.Changed) string { return path.Dir(c.Path) + "/\x00" + c.Program }
	count, row := map[string]int{}, map[string]int{}
	for _, c := range list {
		if c.OfKind {
			count[of(c)]++
		}
	}
	for _, c := range list {
		at, made := row[of(c)]
		switch {
		case !c.OfKind || count[of(c)] <= many:
			out = append(out, c)
		case !made:
			row[of(c)] = len(out)
			c.Path = path.Dir(c.Path) + "/"
			out = append(out, c)
		default:
			o := &out[at]
			if o.Files += c.Files; c.At.After(o.At) {
				o.At, o.Run = c.At, c.Run
			}
		}
	}
	return out
}
