package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/authority/policy/cases"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policyreview"
)

func (s *session) policyTestCmd() *cobra.Command {
	var schema bool
	c := &cobra.Command{
		Use:   "test [FILE]",
		Short: "Decide the calls of a file and compare with what it expects",
		Long: `The file names a policy (or several, all of which must allow) and cases: each a
call or an action, and the effect that is expected of it. Nothing is run, and
nothing of this machine is looked up. A failing case is printed with every rule
that took part. The exit status is 1 if a case fails, and 2 if the file or a
policy cannot be used. --schema prints the format's JSON Schema.
`,
		Example: `  remit policy test policy-test.yaml
  remit policy test --schema > policy-test.schema.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := s.Out.Write(cases.Schema())
				return err
			}
			if len(args) == 0 {
				return fault.New(fault.Usage, "FILE is missing").WithHint("see %s --help", cmd.CommandPath())
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			results, err := a.PolicyReview.Test(args[0])
			if err != nil {
				return err
			}
			return s.printCases(results)
		},
	}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of such files, for editors")
	return c
}

func (s *session) printCases(results []policyreview.CaseResult) error {
	failed := 0
	for _, r := range results {
		if !r.Pass {
			failed++
		}
	}
	status := exit(0)
	if failed > 0 {
		status = exit(1)
	}
	if s.json {
		if err := s.printJSON(map[string]any{"ok": failed == 0, "cases": results, "failed": failed}); err != nil {
			return err
		}
		return status.orNil()
	}
	var rows [][]cell
	for _, r := range results {
		mark, col := "✓", green
		if !r.Pass {
			mark, col = "✗", red
		}
		rows = append(rows, []cell{{mark, col}, {r.Name, bold}, {r.Expect, ""}, {r.Effect, ""}, {r.Rule, dim}})
	}
	s.table([]string{"", "CASE", "EXPECTED", "IS", "RULE"}, rows)
	for _, r := range results {
		if r.Pass {
			continue
		}
		s.printf("\n%s %s (%s): %s\n  %s\n", s.paint(red, "✗"), show(r.Name), show(r.Where), show(r.Why), show(r.Reason))
		s.printRules(r.Rules)
	}
	s.printf("\n%s, %d failed\n", counted(len(results), "case"), failed)
	return status.orNil()
}

// orNil is the status as an error, none for success.
func (e exit) orNil() error {
	if e == 0 {
		return nil
	}
	return e
}
