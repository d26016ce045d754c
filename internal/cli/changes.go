package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/history"
)

func (s *session) changesCmd() *cobra.Command {
	var diff bool
	c := &cobra.Command{
		Use:   "changes RUN",
		Short: "Review, apply or discard the held writes of a run",
		Long: `A run with --changeset, or under a policy with files.write.hold, writes into a
layer instead of the workspace. This lists the changes that it would make, and
those that cannot be applied: the policy does not allow the path, or the file
in the workspace has changed since. Calls that the policy lets wait for review
(hold: true) follow the files, with their exact arguments.
`,
		Example: `  remit changes 0198a1b2 --diff
  remit changes apply 0198a1b2
  remit changes apply 0198a1b2 src docs/guide.md
  remit changes discard 0198a1b2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			set, err := a.Changes.Show(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.printChangeset(set, diff)
		},
	}
	c.Flags().BoolVar(&diff, "diff", false, "show a diff of text files")
	c.AddCommand(s.applyCmd(), s.discardCmd())
	return c
}

func (s *session) applyCmd() *cobra.Command {
	var again, skip []int
	c := &cobra.Command{
		Use:   "apply RUN [PATH...]",
		Short: "Apply held changes to the workspace",
		Long: `All chosen changes are applied, or none. Without PATH, every change that may be
applied is, and then the held calls are carried out in order. Each is decided
anew, under the run's grant as it is now, and recorded in a run of its own. The
first that does not complete ends it; apply again to go on. A call that was
begun and did not complete is not repeated unless --again names it. remit undo
reverts files, and no calls.
`,
		Example: `  remit changes apply 0198a1b2
  remit changes apply 0198a1b2 src/main.go docs
  remit changes apply 0198a1b2 --skip 4`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			d := changes.Decision{Again: again, Skip: skip, Asker: a.Approvals.Desk(false, s.askAtTerminal(&progress{s: s}), nil)}
			set, err := a.Changes.Apply(cmd.Context(), "", args[0], d, args[1:]...)
			if err != nil {
				return err
			}
			if s.json {
				return s.printChangeset(set, false)
			}
			s.printChanges(set.Changes)
			s.printHeldCalls(set.Calls)
			s.printf("%s applied %s to %s\n", s.paint(green, "✓"), counted(len(set.Changes), "change"), show(set.Set.Workspace()))
			s.printf("  %s\n", s.paint(dim, "remit undo "+set.Run.ID.String()))
			return nil
		},
	}
	c.Flags().IntSliceVar(&again, "again", nil, "repeat held call `NUMBER`, although an earlier attempt may have had its effect (repeatable)")
	c.Flags().IntSliceVar(&skip, "skip", nil, "leave held call `NUMBER` out for good (repeatable)")
	return c
}

func (s *session) discardCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "discard RUN",
		Short:   "Discard held changes",
		Example: `  remit changes discard 0198a1b2`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			set, err := a.Changes.Discard(cmd.Context(), "", args[0])
			if err != nil {
				return err
			}
			if s.json {
				return s.printChangeset(set, false)
			}
			s.printf("discarded the changes of run %s\n", set.Run.ID)
			return nil
		},
	}
}

func (s *session) undoCmd() *cobra.Command {
	var force []string
	c := &cobra.Command{
		Use:   "undo RUN",
		Short: "Restore the files that a run changed",
		Long: `Restores the paths that the run's applied changes, its file tools or its
commands have changed. If one of them has changed since, nothing is restored
unless --force names that path, or a folder around it.

For each command, Remit keeps copies of 2,000 paths with 64 MiB at most. Files
of more than 16 MiB are not kept, and nothing in folders of version control and
of package managers (.git, node_modules, .venv). Changes without a copy are
listed. Then files that are new stay as well, since they may have the content.
Processes that outlive their command are not followed.

"last" is here the newest run in this workspace that changed files and has
ended. An undo cannot be undone.
`,
		Example: `  remit undo last
  remit undo 0198a1b2
  remit undo 0198a1b2 --force src/main.go`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			run, back, err := a.Changes.Undo(cmd.Context(), "", args[0], force...)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(changes.NewUndone(run, back))
			}
			return s.printUndone(cmd.Context(), a.History, run, back)
		},
	}
	c.Flags().StringArrayVar(&force, "force", nil, "restore this `PATH`, and all below it, even if it has changed since (repeatable)")
	return c
}

// printUndone prints the result of an undo.
func (s *session) printUndone(ctx context.Context, h *history.History, run ledger.Run, back changeset.Back) error {
	named := []ledger.Run{run}
	if err := nameByWork(ctx, h, named); err != nil {
		return err
	}
	short := func(p string) string { return show(strings.TrimPrefix(p, run.Workspace+"/")) }
	s.printf("run %s  %s\n", run.ID, show(named[0].Name))
	for i := range back.Restored {
		back.Restored[i].Path = strings.TrimPrefix(back.Restored[i].Path, run.Workspace+"/")
	}
	s.printChanges(back.Restored)
	for _, p := range back.Kept {
		s.printf("kept %s: it holds other files\n", short(p))
	}
	for _, p := range back.Lost {
		s.printf("%s %s is not restored: no copy of it was kept\n", s.paint(yellow, "!"), short(p))
	}
	for _, p := range back.Left {
		s.printf("%s %s stays: it may be what is left of a path that is not restored\n", s.paint(yellow, "!"), short(p))
	}
	if back.More {
		s.printf("%s the run changed more than 2,000 paths; the others are not restored\n", s.paint(yellow, "!"))
	}
	s.printf("%s restored %s\n", s.paint(green, "✓"), counted(len(back.Restored), "path"))
	return nil
}

func (s *session) printChangeset(set changes.Changeset, diff bool) error {
	if s.json {
		out, err := set.Describe(diff)
		if err != nil {
			return err
		}
		return s.printJSON(out)
	}
	s.printf("run %s  %s  %s  %s\n", set.Run.ID, set.Set.State(), counted(len(set.Changes), "change"), show(set.Set.Workspace()))
	if !diff || set.Set.State() != changeset.Review {
		s.printChanges(set.Changes)
	} else if err := s.printDiffs(set); err != nil {
		return err
	}
	s.printHeldCalls(set.Calls)
	if set.Set.State() == changeset.Review {
		s.printf("  %s\n", s.paint(dim, "remit changes apply "+set.Run.ID.String()))
	}
	return nil
}

func (s *session) printDiffs(set changes.Changeset) error {
	for _, c := range set.Changes {
		s.printChanges([]changeset.Change{c})
		text, err := set.Set.Text(c)
		if err != nil {
			return err
		}
		if text.Omitted != "" {
			s.printf("%s\n", s.paint(dim, show(text.Omitted+": "+sums(c))))
		}
		s.printDifference("a/"+c.Path, "b/"+c.Path, text.Diff)
	}
	return nil
}

// printDifference prints how two texts differ.
func (s *session) printDifference(was, is string, d diff.Diff) {
	if len(d.Hunks) == 0 {
		return
	}
	s.printf("%s\n%s\n", s.paint(dim, show("--- "+was)), s.paint(dim, show("+++ "+is)))
	for _, h := range d.Hunks {
		s.printf("%s\n", s.paint(dim, h.Head()))
		for _, l := range h.Lines {
			line := show(l.Sign() + l.Text)
			switch l.Op {
			case diff.Insert:
				line = s.paint(green, line)
			case diff.Delete:
				line = s.paint(red, line)
			}
			s.printf("%s\n", line)
			if l.NoEnd {
				s.printf("%s\n", s.paint(dim, diff.NoEnd))
			}
		}
	}
}

// printHeldCalls shows held calls with their arguments.
func (s *session) printHeldCalls(calls []changes.HeldCall) {
	colours := map[changes.CallState]colour{changes.CallDone: green, changes.CallFailed: red, changes.CallUnknown: red}
	for _, h := range calls {
		col, ok := colours[h.State]
		if !ok {
			col = yellow
		}
		s.printf("%s %s %s  %s\n", s.paint(col, fmt.Sprintf("%-8s", h.State)), "call "+itoa(h.Number), s.paint(bold, show(string(h.Tool))), s.paint(dim, show(h.Rule)))
		for _, t := range h.Touches {
			s.printf("         touches    %s\n", show(t))
		}
		if len(h.Args) > 0 {
			s.printf("         arguments  %s\n", show(string(h.Args)))
		}
		if h.Error != "" {
			s.printf("         %s\n", s.paint(red, show(strings.TrimSpace(h.Code+" "+h.Error))))
		}
		if h.Run != "" {
			s.printf("         in run     %s\n", h.Run)
		}
	}
}

// sums returns the hashes of contents that are not shown.
func sums(c changeset.Change) string {
	var out []string
	for _, n := range []changeset.Node{c.From, c.To} {
		if n.Type == changeset.File && len(n.Hash) >= 16 {
			out = append(out, "sha256 "+n.Hash[:16])
		}
	}
	return strings.Join(out, " → ")
}

// printChanges prints a line for each change.
func (s *session) printChanges(list []changeset.Change) {
	for _, c := range list {
		sign, col := changeSign(c)
		line := sign + " " + showPath(c.Path)
		if what := changeDetail(c); what != "" {
			line += "  " + s.paint(dim, what)
		}
		switch {
		case c.Refused != "":
			line += "  " + s.paint(yellow, "refused: "+show(c.Refused))
		case c.Conflict != "":
			line += "  " + s.paint(red, "conflict: "+show(c.Conflict))
		}
		s.printf("%s %s\n", s.paint(col, fmt.Sprintf("%-8s", c.Kind)), line)
	}
}

// showPath prints a path on one line, quoted where it could be mistaken for
// another one.
func showPath(p string) string {
	if shown := show(p); shown != p || strings.TrimSpace(p) != p {
		return fmt.Sprintf("%+q", p)
	}
	return p
}

func changeSign(c changeset.Change) (string, colour) {
	switch c.Kind {
	case changeset.Added:
		return "+", green
	case changeset.Deleted:
		return "-", red
	}
	return "~", yellow
}

// changeDetail describes a change after its path.
func changeDetail(c changeset.Change) string {
	mode := func(m uint32) string { return fs.FileMode(m & 0o777).String() }
	switch {
	case c.Kind == changeset.Mode && c.From.Mode == c.To.Mode:
		return attrNames(c.From) + " → " + attrNames(c.To)
	case c.Kind == changeset.Mode:
		return mode(c.From.Mode) + " → " + mode(c.To.Mode)
	case c.From.Type != changeset.Nothing && c.To.Type != changeset.Nothing && c.From.Type != c.To.Type:
		return string(c.From.Type) + " → " + string(c.To.Type)
	case c.To.Type == changeset.Link:
		return "→ " + showPath(c.To.Target)
	case c.To.Type == changeset.Folder || c.From.Type == changeset.Folder:
		return "folder"
	case c.Kind == changeset.Modified:
		return fmt.Sprintf("%d → %d bytes", c.From.Size, c.To.Size)
	case c.Kind == changeset.Added:
		return fmt.Sprintf("%d bytes", c.To.Size)
	}
	return ""
}

// attrNames lists the extended attributes of a node.
func attrNames(n changeset.Node) string {
	var vals map[string][]byte
	if n.Attrs == "" || json.Unmarshal([]byte(n.Attrs), &vals) != nil || len(vals) == 0 {
		return "no attributes"
	}
	return showPath(strings.Join(slices.Sorted(maps.Keys(vals)), " "))
}
