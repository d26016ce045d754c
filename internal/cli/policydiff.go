package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/authority/policy/compare"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policyreview"
)

func (s *session) policyDiffCmd() *cobra.Command {
	var dir string
	var runs int
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what changes between two policies",
		Long: `Shows three things: the changed entries; example calls that the policies decide
differently; and calls of recorded runs that they decide differently. A changed
entry that has no effect is marked, because other entries cover it. The exit
status is 0 if the policies decide alike, and 4 if they do not, or may not.
`,
		Example: `  remit policy diff remit.yaml stricter.yaml
  remit policy diff old.yaml new.yaml --runs 100 --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, files []string) error {
			if runs < 0 {
				return fault.New(fault.Usage, "--runs cannot be negative")
			}
			a, ws, err := s.openIn(dir)
			if err != nil {
				return err
			}
			d, err := a.PolicyReview.Diff(cmd.Context(), files[0], files[1], ws, runs)
			if err != nil {
				return err
			}
			status := exit(0)
			if !d.Same() {
				status = exit(fault.ReplayMismatch.Exit())
			}
			if s.json {
				if err := s.printDiffJSON(d); err != nil {
					return err
				}
				return status.orNil()
			}
			s.printDiff(d)
			return status.orNil()
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` that patterns are relative to (default: the current folder)")
	c.Flags().IntVar(&runs, "runs", 20, "number of recorded runs to check, newest first")
	return c
}

func (s *session) printDiff(d policyreview.Difference) {
	if len(d.Changes)+len(d.Witnesses)+len(d.History) == 0 {
		s.printf("no difference; %s of %s decided alike\n", counted(d.Calls, "recorded call"), counted(d.Runs, "run"))
		return
	}
	s.printf("changed entries:\n")
	for _, c := range d.Changes {
		s.printChange(c.Where, c.Was, c.Is, c.Moot)
	}
	if len(d.Changes) == 0 {
		s.printf("  none\n")
	}
	s.printf("\nexamples decided differently:\n")
	var rows [][]cell
	for _, w := range d.Witnesses {
		rows = append(rows, []cell{{direction(w.Was < w.Is), ""}, effectCell(w.Was.String()), effectCell(w.Is.String()), {w.On, ""}, {ruleText(w.Is.String(), w.Rule), dim}})
	}
	s.tableOr("none found", []string{"ALLOWS", "OLD", "NEW", "ACTION", "RULE"}, rows)
	s.printHistory(d)
}

// printHistory shows how the policies decide recorded calls.
func (s *session) printHistory(d policyreview.Difference) {
	if d.Runs+d.Skipped == 0 {
		return
	}
	s.printf("\n%s of %s:\n", counted(d.Calls, "recorded call"), counted(d.Runs, "run"))
	var rows [][]cell
	for _, h := range d.History {
		for i, e := range h.Examples {
			count := ""
			if i == 0 {
				count = itoa(h.Count)
			}
			rows = append(rows, []cell{{count, bold}, effectCell(h.Was.String()), effectCell(h.Is.String()),
				{e.Run.String()[:13] + " #" + itoa(e.Index), dim}, {string(e.Tool), ""}, {e.On, ""}, {ruleText(h.Is.String(), e.Rule), dim}})
		}
	}
	s.tableOr("all decided alike", []string{"CALLS", "OLD", "NEW", "EXAMPLE", "TOOL", "ACTION", "RULE"}, rows)
	if d.Skipped > 0 {
		s.printf("%s could not be checked: the record is damaged or erased\n", counted(d.Skipped, "run"))
	}
}

func direction(more bool) string {
	if more {
		return "more"
	}
	return "less"
}

func effectCell(e string) cell {
	return cell{e, map[string]colour{"allow": green, "ask": yellow, "deny": red}[e]}
}

func (s *session) tableOr(none string, head []string, rows [][]cell) {
	if len(rows) == 0 {
		s.printf("  %s\n", none)
		return
	}
	s.tableWhole(head, rows)
}

func (s *session) printChange(where, was, is string, moot bool) {
	lost, gained := "", ""
	if moot {
		lost = s.paint(dim, "  (no effect: other entries of the new policy allow it)")
		gained = s.paint(dim, "  (no effect: the old policy allows it already)")
	}
	if was != "" {
		s.printf("  %s %s: %s%s\n", s.paint(red, "-"), show(where), show(was), lost)
	}
	if is != "" {
		s.printf("  %s %s: %s%s\n", s.paint(green, "+"), show(where), show(is), gained)
	}
}

func (s *session) printDiffJSON(d policyreview.Difference) error {
	type witness struct {
		On   string `json:"on"`
		Was  string `json:"was"`
		Is   string `json:"is"`
		Rule string `json:"rule"`
	}
	type change struct {
		Was      string                        `json:"was"`
		Is       string                        `json:"is"`
		Calls    int                           `json:"calls"`
		Examples []policyreview.HistoryExample `json:"examples"`
	}
	ws, hs := []witness{}, []change{}
	more, less := false, false
	for _, w := range d.Witnesses {
		ws = append(ws, witness{w.On, w.Was.String(), w.Is.String(), w.Rule})
		more, less = more || w.Is > w.Was, less || w.Is < w.Was
	}
	for _, h := range d.History {
		hs = append(hs, change{h.Was.String(), h.Is.String(), h.Count, h.Examples})
		more, less = more || h.Is > h.Was, less || h.Is < h.Was
	}
	changes := append([]compare.Change{}, d.Changes...)
	return s.printJSON(map[string]any{
		"same": d.Same(), "allows_more": more, "allows_less": less, "changes": changes, "examples": ws,
		"history": map[string]any{"runs": d.Runs, "calls": d.Calls, "skipped": d.Skipped, "changed": hs},
	})
}
