package cli

import (
	"github.com/spf13/cobra"
)

func (s *session) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Show which confinement this machine supports",
		Long: `Tests each layer of confinement and shows whether it works, why not, and how to
enable it. Also shows limits, isolation levels, and the state of $REMIT_HOME.
If a command needs a layer that is missing, it is refused; it never runs with
less confinement than its policy requires.
`,
		Example: "  remit doctor",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			layers := a.Layers(cmd.Context())
			checks := a.Check(cmd.Context())
			if s.json {
				return s.printJSON(map[string]any{"layers": layers, "state": checks})
			}
			var rows [][]cell
			ready := true
			for _, l := range layers {
				sign, col := "✓", green
				if !l.Available {
					sign, col = "✗", red
					if !l.Required {
						sign, col = "–", yellow
					}
					ready = ready && !l.Required
				}
				rows = append(rows, []cell{{sign + " " + l.Name, col}, {l.Detail, ""}})
				if !l.Available && l.Hint != "" {
					rows = append(rows, []cell{{"", ""}, {"→ " + l.Hint, yellow}})
				}
			}
			s.tableWhole([]string{"LAYER", "STATUS"}, rows)
			s.printf("\n")
			if ready {
				s.item(s.paint(green, "✓"), "commands run fully confined")
			} else {
				s.item(s.paint(red, "✗"), "commands (shell.run) are refused until the layers marked ✗ work, unless the policy names an isolation that works; everything else works")
			}
			for _, c := range checks {
				sign, col := "✓", green
				if !c.OK {
					sign, col = "✗", red
				}
				s.item(s.paint(col, sign), c.Name+": "+c.Detail)
			}
			return nil
		},
	}
}
