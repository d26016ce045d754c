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
		Short: "Test a policy against expected decisions",
		Long: `FILE names a policy (or several, all of which must allow) and a list of cases:
a call or an action, and the expected decision. Nothing is executed, and
results do not depend on this machine. For a failing case, all rules that apply
are printed. The exit status is 1 if a case fails, and 2 if FILE or a policy is
not valid.
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
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of test files, for editors")
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
		rows = append(rows, []cell{{mark, col}, {r.Name, bold}, {r.Expect, ""}, {r.Effect, ""}, {ruleText(r.Effect, r.Rule), dim}})
	}
	s.table([]string{"", "CASE", "EXPECTED", "ACTUAL", "RULE"}, rows)
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

// orNil returns the status as an error, nil for success.
func (e exit) orNil() error {
	if e == 0 {
		return nil
	}
	return e
}
