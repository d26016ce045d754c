package cli

import (
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
)

func (s *session) policyLearnCmd() *cobra.Command {
	var file, name string
	c := &cobra.Command{
		Use:   "learn RUN...",
		Short: "Write the least policy that would have allowed recorded runs",
		Long: `The policy allows what the runs did and never more than they were allowed. Paths,
URLs and commands are generalised only as far as an entry of the policy they ran
under covers it; what was refused becomes a comment. Limits, deny entries and
modes are kept. Before it is printed, every recorded call is decided anew under
it: if one would be decided otherwise, that is an error, and nothing is printed.
What a confined process read is not in the record, so where there was one, the
entries of files are kept as they were.
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
			l, err := a.PolicyReview.Learn(cmd.Context(), name, runs)
			if err != nil {
				return err
			}
			if s.json {
				ids := []string{}
				for _, id := range l.Runs {
					ids = append(ids, id.String())
				}
				return s.printJSON(map[string]any{"policy": string(l.Policy), "runs": ids, "allowed": l.Calls, "refused": l.Refused})
			}
			if err := s.toFile(file, func(w io.Writer) error { _, err := w.Write(l.Policy); return err }); err != nil {
				return err
			}
			s.errorf("%s of %s are decided under it as they were: %d let through, %d refused\n",
				counted(l.Calls+l.Refused, "call"), counted(len(l.Runs), "run"), l.Calls, l.Refused)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "-", "write to this file")
	c.Flags().StringVar(&name, "name", "", "the policy's name (default: the file's, else learned)")
	return c
}
