package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/doctor"
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
			checks := append([]doctor.Check{keeperCheck(cmd.Context(), a.Home.Dir)}, a.Doctor.Check(cmd.Context())...)
			if s.json {
				return s.printJSON(map[string]any{"layers": layers, "state": checks})
			}
			rows, ready := layerRows(layers)
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

// layerRows has a row for each layer, and one row for all working layers without further detail. It
// reports whether all required ones do.
func layerRows(layers []sandbox.Layer) (rows [][]cell, ready bool) {
	ready = true
	works := -1 // the row of those that work
	for _, l := range layers {
		sign, col := "✓", green
		switch {
		case l.Available && l.Detail == sandbox.Works && works >= 0:
			rows[works][1].text += ", " + l.Name
			continue
		case l.Available && l.Detail == sandbox.Works:
			works = len(rows)
			rows = append(rows, []cell{{sign + " " + l.Detail, col}, {l.Name, ""}})
			continue
		case !l.Available && l.Required:
			sign, col, ready = "✗", red, false
		case !l.Available:
			sign, col = "–", yellow
		}
		rows = append(rows, []cell{{sign + " " + l.Name, col}, {l.Detail, ""}})
		if !l.Available && l.Hint != "" {
			rows = append(rows, []cell{{"", ""}, {"→ " + l.Hint, yellow}})
		}
	}
	return rows, ready
}
