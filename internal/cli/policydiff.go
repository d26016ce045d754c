package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/authority/policy/compare"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policyreview"
)

func (s *session) policyDiffCmd() *cobra.Command {
	var dir string
	var runs int
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what another policy would allow and deny",
		Long: `Three answers: what the documents say differently; examples made from the entries
of both that they decide differently; and which calls of the newest recorded
runs would be decided differently, both ways. An entry that the other policy's
entries allow all of is marked so. The exit status is 0 if there is no difference
in effect, and 4 if there is one or it cannot be ruled out.
`,
		Example: `  remit policy diff remit.yaml stricter.yaml
  remit policy diff old.yaml new.yaml --runs 100 --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, files []string) error {
			if runs < 0 {
				return fault.New(fault.Usage, "--runs cannot be negative")
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			ws, err := home.Workspace(dir)
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
	c.Flags().StringVarP(&dir, "workspace", "w", "", "the workspace that patterns are relative to (default: the current folder)")
	c.Flags().IntVar(&runs, "runs", 20, "how many of the newest recorded runs to judge")
	return c
}

func (s *session) printDiff(d policyreview.Difference) {
	if len(d.Changes)+len(d.Witnesses)+len(d.History) == 0 {
		s.printf("no difference; %s of %s are decided alike\n", counted(d.Calls, "recorded call"), counted(d.Runs, "run"))
		return
	}
	s.printf("what they say:\n")
	for _, c := range d.Changes {
		s.printChange(c.Where, c.Was, c.Is, c.Moot)
	}
	if len(d.Changes) == 0 {
		s.printf("  the same\n")
	}
	s.printf("\nexamples that are decided differently:\n")
	var rows [][]cell
	for _, w := range d.Witnesses {
		rows = append(rows, []cell{{direction(w.Was < w.Is), ""}, effectCell(w.Was.String()), effectCell(w.Is.String()), {w.On, ""}, {w.Rule, dim}})
	}
	s.tableOr("none was found", []string{"ALLOWS", "WAS", "IS", "ON", "RULE"}, rows)
	s.printHistory(d)
}

// printHistory shows how recorded calls would be decided, if any were judged.
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
				{e.Run.String()[:13] + " #" + itoa(e.Index), dim}, {string(e.Tool), ""}, {e.On, ""}, {e.Rule, dim}})
		}
	}
	s.tableOr("all are decided alike", []string{"CALLS", "WAS", "IS", "AS", "TOOL", "ON", "RULE"}, rows)
	if d.Skipped > 0 {
		s.printf("%s could not be judged: the record is damaged or erased\n", counted(d.Skipped, "run"))
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
		lost = s.paint(dim, "  (nothing lost: the new policy allows all of it)")
		gained = s.paint(dim, "  (nothing new: the old policy allows all of it)")
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
