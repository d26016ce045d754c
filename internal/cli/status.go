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
		Short: "List changed files that your own tools will run",
		Long: `Lists the changed files of this project that your own tools run or take
settings from: package.json, Makefile, conftest.py, .venv, node_modules,
executables and their like. Look at them before you build, test or install.

Remit goes by the time that the system notes at each change (ctime). A program
in a sandbox cannot reset it. Your own changes are listed, too. CHANGED BY is
the run that is known to have changed the file last. If the record has no run
of the project, nothing is listed without --since. Agents without Remit are not
in the record.

Not listed are source code, documents, and data files in subfolders. Review
those with git diff and git status --ignored.

The exit status is 0 with and without changed files.
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
			a, err := s.open()
			if err != nil {
				return err
			}
			if dir == "" {
				folder = overview.Root(folder, a.Home.UserHome)
			}
			busy := s.startActivity("looking at the files")
			status, err := (&overview.Overview{Home: a.Home, Undo: a.Changes.Folder(), Reader: a.Reader}).Look(cmd.Context(), folder, from)
			busy.stop()
			if err != nil {
				return err
			}
			if kept, err := keeper.Ask(cmd.Context(), a.Home.Dir); err == nil && kept.Sandboxes > 0 && !status.NoWork {
				status.Gaps = append(status.Gaps, overview.Gap{Why: "an agent's session is still open, and can change files; remit keeper stop ends it"})
			}
			if s.json {
				return s.printJSON(status)
			}
			s.printStatus(status)
			return nil
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "project `DIR` (default: that of the current folder)")
	c.Flags().StringVar(&since, "since", "", "changes after this `TIME`: 2h, 7d, 2026-01-31 or RFC 3339\n(default: when the last work of agents here began, or\n24h ago if that is earlier; not before their first work)")
	return c
}

func (s *session) printStatus(v overview.Status) {
	now := time.Now()
	s.facts("project", "  ", cell{show(v.Folder), bold})
	if v.NoWork {
		s.facts("work", "     ", cell{text: "the record has no run of this project, so no file is listed"})
		s.printf("\nAgents without Remit's hook or sandbox are not in the record. To list all files that\nyour tools run or read and that have changed: remit status --since 7d\n")
		return
	}
	since := when(v.Since, now)
	if v.Work {
		since += ", when work of agents here began"
	}
	s.facts("since", "    ", cell{text: since})
	s.facts("checked", "  ", cell{text: itoa(v.Looked) + " files and folders"})
	if len(v.Files) > 0 {
		s.printf("\n%s Your own tools will run or read these changed files. Look at them first:\n", s.paint(yellow, "!"))
	}
	var rows [][]cell
	known := false
	for _, c := range together(v.Files) {
		name, by, files := showPath(c.Path), "-", ""
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
		s.table([]string{"CHANGED", "FILES", "USED BY", "WHEN", "CHANGED BY"}, rows)
	}
	for _, g := range v.Gaps {
		if g.Path != "" {
			g.Why = showPath(g.Path) + ": " + g.Why
		}
		s.printf("%s not all was checked: %s\n", s.paint(yellow, "!"), show(g.Why))
	}
	switch {
	case known:
		s.printf("%s\n", s.paint(dim, "remit show RUN says what a run did, remit undo RUN restores what it changed"))
	case len(v.Files)+len(v.Gaps) == 0:
		s.printf("\nNo file that your tools are known to run or read has changed since then.\nSource files are not checked: see git diff.\n")
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
		case !c.OfKind || path.Dir(c.Path) == "." || count[of(c)] <= many:
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
