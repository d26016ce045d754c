package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policies"
)

func (s *session) policyCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check policies for errors",
		Long: `Reports all problems of all files, each with line, column and field: syntax
errors, and entries that can never match, such as a misspelled method, a shell
operator in a command pattern, an unknown built-in tool, a model of an unknown
provider, or a variable that Remit always sets.

Warnings point out likely mistakes, such as a section that no allowed tool can
use. They do not change the exit status.
`,
		Example: "  remit policy check remit.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, files []string) error { return s.policyCheck(files) },
	}
}

func (s *session) policyCheck(files []string) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	var problems, warnings fault.List
	ok := []checkedPolicy{}
	for _, f := range files {
		p, err := policies.Read(f)
		if err != nil {
			problems = append(problems, asList(err)...)
			continue
		}
		bad, doubtful, err := a.PolicyReview.Check(p)
		if err != nil {
			return err
		}
		problems, warnings = append(problems, bad...), append(warnings, doubtful...)
		if len(bad) == 0 {
			ok = append(ok, checkedPolicy{f, p.Name(), p.Digest().String()})
		}
	}
	if s.json {
		return s.printChecked(ok, problems, warnings)
	}
	for _, p := range ok {
		s.printf("%s %s: policy %q is valid\n  %s\n", s.paint(green, "✓"), show(p.File), p.Name, s.paint(dim, p.Digest))
	}
	s.warnOf(warnings)
	return problems.Err()
}

// warnOf prints likely mistakes in a policy.
func (s *session) warnOf(warnings fault.List) {
	for _, w := range warnings {
		s.errorf("%s %s: %s: %s\n", s.paintErr(yellow, "!"), show(w.Pos.String()), show(w.Field), show(w.Msg))
		if w.Hint != "" {
			s.errorf("  %s\n", show(w.Hint))
		}
	}
}

type checkedPolicy struct {
	File   string `json:"file"`
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

type problemJSON struct {
	Code    string `json:"code"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

func problemsJSON(problems fault.List) []problemJSON {
	list := []problemJSON{}
	for _, e := range problems {
		list = append(list, problemJSON{e.Code.Error(), e.Pos.File, e.Pos.Line, e.Pos.Column, e.Field, e.Msg, e.Hint})
	}
	return list
}

// printChecked prints the result of a check as JSON, with all problems and warnings.
func (s *session) printChecked(ok []checkedPolicy, problems, warnings fault.List) error {
	err := s.printJSON(map[string]any{"ok": len(problems) == 0, "policies": ok, "problems": problemsJSON(problems), "warnings": problemsJSON(warnings)})
	if err == nil && len(problems) > 0 {
		return exit(problems[0].Code.Exit())
	}
	return err
}
