package cli

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/policyreview"
)

// fewRuns is how many runs are so few that the output says so.
const fewRuns = 5

func (s *session) policyLintCmd() *cobra.Command {
	var dir string
	var runs int
	var strict bool
	c := &cobra.Command{
		Use:   "lint [FILE]",
		Short: "Find entries that recorded runs did not need",
		Long: `Decides the calls of the workspace's newest runs under FILE (default: the
workspace's remit.yaml), and reports entries of allow and ask lists:

  unused    no call matched the entry
  shadowed  another entry decided every call that matched it
  broad     narrower entries, which are shown, decide all calls in the same way
  approved  a person approved every call that the entry asked about, at least
            three; it could be an allow entry. Never reported if a call named a
            sensitive file

Entries of files and network are not reported if processes ran, because
their reads are not recorded. The warnings of remit policy check are shown too.
With --strict the exit status is 1 if there is a finding.
`,
		Example: `  remit policy lint
  remit policy lint remit.yaml --runs 100 --strict`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if runs < 1 {
				return fault.New(fault.Usage, "--runs must be at least 1")
			}
			l, warnings, err := s.lintPolicy(cmd.Context(), dir, files, runs)
			if err != nil {
				return err
			}
			if s.json {
				err = s.printJSON(map[string]any{"runs": l.Runs, "calls": l.Calls, "skipped": l.Skipped, "unlisted": l.Unlisted,
					"findings": append([]policyreview.Finding{}, l.Findings...), "warnings": problemsJSON(warnings)})
			} else {
				s.warnOf(warnings)
				s.printLint(l)
			}
			if err == nil && strict && len(l.Findings) > 0 {
				return exit(1)
			}
			return err
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` whose runs are read (default: the current folder)")
	c.Flags().IntVar(&runs, "runs", 20, "number of recorded runs to read, newest first")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 1 if there is a finding")
	return c
}

// lintPolicy checks a policy, by default the workspace's, and lints it against recorded runs.
func (s *session) lintPolicy(ctx context.Context, dir string, files []string, runs int) (l policyreview.Lint, warnings fault.List, err error) {
	a, ws, err := s.openIn(dir)
	if err != nil {
		return l, nil, err
	}
	file := filepath.Join(ws, "remit.yaml")
	if len(files) > 0 {
		file = files[0]
	}
	p, err := policies.Read(file)
	if err != nil {
		return l, nil, err
	}
	mistakes, warnings, err := a.PolicyReview.Check(p)
	if err == nil {
		err = mistakes.Err()
	}
	if err != nil {
		return l, nil, err
	}
	l, err = a.PolicyReview.Lint(ctx, p, ws, runs)
	return l, warnings, err
}

func (s *session) printLint(l policyreview.Lint) {
	s.printf("%s of %s in this workspace\n", counted(l.Calls, "recorded call"), counted(l.Runs, "run"))
	if l.Skipped > 0 {
		s.printf("%s could not be read: the record is damaged or erased\n", counted(l.Skipped, "run"))
	}
	if l.Calls == 0 {
		s.printf("nothing can be said about the policy before calls are recorded\n")
		return
	}
	if l.Runs < fewRuns {
		s.printf("a short history: an entry may be needed although these runs did not need it\n")
	}
	if l.Unlisted > 0 {
		s.printf("entries of files and network are not judged: the record of %s is not complete\n", counted(l.Unlisted, "call"))
	}
	if len(l.Findings) == 0 {
		s.printf("%s no findings\n", s.paint(green, "✓"))
		return
	}
	var rows [][]cell
	broad := false
	for _, f := range l.Findings {
		text := f.Entry + " " + strconv.Quote(f.Pattern)
		if f.By != "" {
			text += ", decided by " + f.By
		}
		rows = append(rows, []cell{{itoa(f.Line), dim}, {itoa(f.Calls), ""}, {f.Kind, yellow}, {text, ""}})
		broad = broad || f.Kind == policyreview.Broad
	}
	s.printf("\n")
	s.tableWhole([]string{"LINE", "CALLS", "FINDING", "ENTRY"}, rows)
	if broad {
		s.printf("\nnarrower entries that decide all these calls in the same way:\n")
	}
	for _, f := range l.Findings {
		if f.Kind != policyreview.Broad {
			continue
		}
		s.printChange(f.Entry, strconv.Quote(f.Pattern), "", false)
		for _, text := range f.Narrower {
			s.printChange(f.Entry, "", strconv.Quote(text), false)
		}
	}
}
