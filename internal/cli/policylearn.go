package cli

import (
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/service/policyreview"
)

func (s *session) policyLearnCmd() *cobra.Command {
	var file, name string
	var exact bool
	c := &cobra.Command{
		Use:   "learn RUN...",
		Short: "Write a small policy that allows recorded runs",
		Long: `The new policy allows what the runs did and what is like it, and never more
than they were allowed. Each widening is shown with what it newly allows: in a
comment, and in a list at the end. --exact widens no arguments, folders or hosts.
Paths, URLs and commands become patterns only if one entry of the original
policy covers them. Limits, deny entries and modes are kept; refused actions
become comments. Every recorded call is then decided again under the new
policy. If a decision differs, the command fails and prints no policy.

Reads by confined processes are not recorded. If there were such processes, the
files section is kept unchanged.
`,
		Example: `  remit policy learn 0199f3c2 > least.yaml
  remit policy learn 0199f3c2 0199f3d7 -o least.yaml`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, runs []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if name == "" {
				name = "learned"
				if file != "-" {
					name = strings.TrimSuffix(path.Base(file), path.Ext(file))
				}
			}
			l, err := a.PolicyReview.Learn(cmd.Context(), name, runs, exact)
			if err != nil {
				return err
			}
			if s.json {
				ids := []string{}
				for _, id := range l.Runs {
					ids = append(ids, id.String())
				}
				return s.printJSON(map[string]any{"policy": string(l.Policy), "runs": ids, "allowed": l.Calls, "refused": l.Refused,
					"widened": append([]policyreview.Widening{}, l.Widened...)})
			}
			if err := s.toFile(file, func(w io.Writer) error { _, err := w.Write(l.Policy); return err }); err != nil {
				return err
			}
			s.printWidened(l.Widened)
			s.errorf("checked with %s of %s: %d allowed, %d refused, as recorded\n",
				counted(l.Calls+l.Refused, "call"), counted(len(l.Runs), "run"), l.Calls, l.Refused)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "-", "write to this `FILE`")
	c.Flags().BoolVar(&exact, "exact", false, "widen no arguments of tools, folders or hosts beyond what was used")
	c.Flags().StringVar(&name, "name", "", "`NAME` of the policy (default: the file's name, or learned)")
	return c
}

// printWidened lists what a learned policy allows beyond what the runs did.
func (s *session) printWidened(list []policyreview.Widening) {
	if len(list) == 0 {
		return
	}
	s.errorf("it allows more than the runs did:\n")
	for _, w := range list {
		entry := w.Entry
		if w.Argument != "" {
			entry += " " + w.Argument
		}
		s.errorf("  %s: %s (seen: %s)\n", show(entry), show(w.Allows), show(w.Seen))
	}
}
