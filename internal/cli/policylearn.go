package cli

import (
	"context"
	"io"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policyreview"
)

// policyLearnHelp is the help of remit policy learn.
const policyLearnHelp = `The new policy allows the actions of the runs and similar ones, and never more
than they were allowed. Each widening is shown with the newly allowed actions:
in a comment, and in a list at the end. --exact widens no arguments, folders or
hosts.
Paths, URLs and commands become patterns only if one entry of the original
policy covers them. Limits, deny entries and modes are kept; refused actions
become comments. Every recorded call is then decided again under the new
policy. If a decision differs, the command fails and prints no policy.

Reads by confined processes are not recorded. If there were such processes, the
files section is kept unchanged.

--refused lists the narrowest entries that would allow the refused actions of
the runs (default: the runs of this workspace of the last 24 hours), each with
the reason, and changes nothing. Refusals by a deny entry, an ask entry or a
sensitive name are listed apart, with a warning.
`

func (s *session) policyLearnCmd() *cobra.Command {
	var file, name string
	var exact, refused bool
	c := &cobra.Command{
		Use:   "learn [RUN...]",
		Short: "Write a small policy that allows recorded runs",
		Long:  policyLearnHelp,
		Example: `  remit policy learn 0199f3c2 > least.yaml
  remit policy learn 0199f3c2 0199f3d7 -o least.yaml
  remit policy learn --refused`,
		ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, runs []string) error {
			switch {
			case refused && (exact || file != "-" || name != ""):
				return fault.New(fault.Usage, "--refused writes no policy: it cannot be combined with --exact, --name and --output")
			case refused:
				return s.proposeRefused(cmd.Context(), runs)
			case len(runs) == 0:
				return fault.New(fault.Usage, "RUN is missing").WithHint("remit runs lists them")
			}
			return s.learnPolicy(cmd.Context(), runs, file, name, exact)
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "-", "write to this `FILE`")
	c.Flags().BoolVar(&exact, "exact", false, "widen no arguments of tools, folders or hosts beyond their use")
	c.Flags().BoolVar(&refused, "refused", false, "list entries that would allow the refused actions; nothing is changed")
	c.Flags().StringVar(&name, "name", "", "`NAME` of the policy (default: the file's name, or learned)")
	return c
}

// learnPolicy writes the policy to a file; name is the policy's name, "" for the file's name.
func (s *session) learnPolicy(ctx context.Context, runs []string, file, name string, exact bool) error {
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
	l, err := a.PolicyReview.Learn(ctx, name, runs, exact)
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
}

// printWidened lists the permissions of a learned policy beyond the actions of the runs.
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

// proposeRefused lists entries for the refused actions of runs.
func (s *session) proposeRefused(ctx context.Context, runs []string) error {
	a, ws, err := s.openIn("")
	if err != nil {
		return err
	}
	got, err := a.PolicyReview.Propose(ctx, ws, runs, time.Now().Add(-24*time.Hour))
	if err != nil {
		return err
	}
	if s.json {
		got.Proposals = append([]policyreview.Proposal{}, got.Proposals...)
		return s.printJSON(got)
	}
	s.printf("%s of %s\n", counted(got.Refused, "refused call"), counted(got.Runs, "run"))
	if got.Skipped > 0 {
		s.printf("%s could not be read: the record is damaged or erased\n", counted(got.Skipped, "run"))
	}
	title := ""
	for _, p := range got.Proposals {
		s.printProposal(p, &title)
	}
	if len(got.Proposals) > 0 {
		s.printf("\nnothing was changed; add the entries that you want to the policy\n")
	}
	return nil
}

func (s *session) printProposal(p policyreview.Proposal, last *string) {
	title := "entries that would allow the refused actions:"
	switch {
	case p.List == "":
		title = "no entry is proposed for:"
	case p.Warning != "":
		title = s.paint(red, "! refused on purpose; think before you allow any of these:")
	}
	if title != *last {
		s.printf("\n%s\n", title)
		*last = title
	}
	entry := strings.ReplaceAll(showLines(p.Entry), "\n", "\n      ")
	if p.List != "" {
		s.printf("  %s:\n    - %s\n", p.List, entry)
	} else {
		s.printf("  %s\n", entry)
	}
	s.printf("      # refused %s: %s\n", countedTimes(p.Count), show(p.Reason))
	if p.Policy != "" {
		s.printf("      # by the policy %q\n", p.Policy)
	}
	if p.Warning != "" {
		s.printf("      # %s\n", s.paint(red, "WARNING: "+show(p.Warning)))
	}
}

func countedTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return itoa(n) + " times"
}
