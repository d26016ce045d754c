package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/authority/reach/waymap"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// authorityHelp is the help of remit authority.
const authorityHelp = `Answers whether data of FROM can get to TO, over all holders that the policy
names, all tools, and all paths, hosts and commands at once. FROM and TO are
holders (agent:docs), or sections with an entry as in policies: 'files src/**',
'network *', 'commands git push **', 'tools mcp:mail:*', 'models openai/*'. FROM
may also be a label: 'label private'.

The answer "no way" is computed for all paths, hosts and commands, not for
examples. It assumes that no other program replaces a protected file while a
command runs: Remit then ends the command. A way is shown step by step, each
with an example, the rule that decides it, and its place, and then the fewest
entries of policies that every way needs. The exit status is 0 if there is no
way, 4 if there is one, and 5 if each needs a person's approval or a tool that
Remit cannot look into. --html writes all ways as a picture.

Without arguments it is a table of the questions that are asked first. Without
-p, grants that were issued here are asked about too.

--who shows the holders that can do something, --tests checks a file of expected
answers (exit status 1 if one is wrong), and --diff shows the actions that the
policy NEW opens and OLD does not (4 if there are some).
`

func (s *session) authorityCmd() *cobra.Command {
	var file, dir, who, tests, page string
	var diff bool
	c := &cobra.Command{
		Use:   "authority [FROM TO | OLD NEW]",
		Short: "Ask about everything that a policy allows",
		Long:  authorityHelp,
		Example: `  remit authority
  remit authority 'files private/**' 'network *' --html ways.html
  remit authority agent:docs 'files.write ~/.ssh/**' -p policy.yaml
  remit authority --who 'network POST https://api.bank.example/**'
  remit authority --tests authority.yaml
  remit authority --diff old.yaml new.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			return authorityArgs(args, diff, who != "" || tests != "", page != "")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a, ws, err := s.openIn(dir)
			if err != nil {
				return err
			}
			if diff {
				return s.authorityDiff(a, args[0], args[1], ws)
			}
			w, hint, err := a.PolicyReview.World(cmd.Context(), file, ws)
			if err != nil {
				return err
			}
			s.warn(hint)
			switch {
			case who != "":
				return s.authorityWho(w, who)
			case tests != "":
				return s.authorityTests(w, tests)
			case len(args) == 0:
				return s.authorityOverview(w)
			}
			return s.authority(w, args[0], args[1], page)
		},
	}
	c.Flags().StringVarP(&file, "policy", "p", "", "policy `FILE` (default: the workspace's trusted remit.yaml)")
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` that patterns are relative to (default: the current folder)")
	c.Flags().StringVar(&who, "who", "", "show for each holder whether it can do `TO`")
	c.Flags().StringVar(&tests, "tests", "", "check the expected answers in `FILE`")
	c.Flags().StringVar(&page, "html", "", "write all ways as a picture with its table to `FILE`")
	c.Flags().BoolVar(&diff, "diff", false, "show the actions that the policy NEW opens and OLD does not")
	c.MarkFlagsMutuallyExclusive("who", "tests", "diff", "html")
	c.MarkFlagsMutuallyExclusive("policy", "diff")
	return c
}

// authorityArgs checks that both sides of a question, or both policies, are there.
func authorityArgs(args []string, diff, whole, page bool) error {
	want := 2
	if whole || len(args) == 0 && !diff && !page {
		want = 0
	}
	if len(args) == want {
		return nil
	}
	return fault.New(fault.Usage, "%d arguments, and %d are expected", len(args), want).
		WithHint("quote FROM and TO, as in remit authority 'files src/**' 'network *'; see remit authority --help")
}

// verdicts are the exit statuses and the colours of answers.
var verdicts = map[reach.Verdict]struct {
	status exit
	color  colour
}{reach.Unreachable: {0, green}, reach.Reachable: {4, red}, reach.Conditional: {5, yellow}}

func (s *session) authority(w *reach.World, from, to, page string) error {
	found, err := w.Ways(from, to)
	if err != nil {
		return err
	}
	if page != "" {
		var b bytes.Buffer
		if err := waymap.HTML(&b, found); err != nil {
			return err
		}
		if err := wholefile.Replace(page, b.Bytes()); err != nil {
			return fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: page})
		}
	}
	v := verdicts[found.Verdict]
	if s.json {
		if err := s.printJSON(found); err != nil {
			return err
		}
		return v.status.orNil()
	}
	s.printAnswer(w, found.Answer, found.Cut)
	if page != "" {
		s.printf("\nall ways as a picture: %s\n", show(page))
	}
	return v.status.orNil()
}

func (s *session) authorityOverview(w *reach.World) error {
	o, err := w.Overview()
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(o)
	}
	var rows [][]cell
	for _, r := range o.Rows {
		row := []cell{{r.From, bold}}
		for _, v := range r.Verdicts {
			row = append(row, cell{string(v), verdicts[v].color})
		}
		rows = append(rows, row)
	}
	s.table(append([]string{"FROM"}, o.To...), rows)
	s.printf("\n%s\n", s.paint(dim, "For the steps of one: remit authority 'files **' 'network *'"))
	return nil
}

func (s *session) printAnswer(w *reach.World, answer reach.Answer, cut []reach.Entry) {
	verdict := s.paint(verdicts[answer.Verdict].color, string(answer.Verdict))
	from, to := show(answer.From), show(answer.To)
	without := "gets there without a person"
	switch answer.Verdict {
	case reach.Unreachable:
		s.printf("%s: by the policies, nothing leads from %s to %s\n", verdict, from, to)
		s.printf("  %s\n", s.paint(dim, "asked of "+counted(len(w.Holders), "holder")+" and all built-in tools; assumed: no other program replaces a protected file while a command runs, and docs/authority.md"))
		return
	case reach.Conditional:
		s.printf("%s: %s gets to %s only by an approval or an assumption\n", verdict, from, to)
		without = "gets there"
	default:
		s.printf("%s: %s gets to %s\n", verdict, from, to)
	}
	for i, step := range answer.Steps {
		s.printWayStep(i+1, step)
	}
	if len(cut) > 0 {
		these := "this entry"
		if len(cut) > 1 {
			these = "these entries"
		}
		s.printf("\nWithout %s nothing %s:\n", these, without)
		for _, e := range cut {
			s.printf("    %s\n", placed(e.Rule, e.File, e.Line))
		}
	}
	if len(answer.Steps) > 1 {
		s.printf("\n%s\n", s.paint(dim, "Between steps it is assumed that a model hands on, or obeys, what it reads."))
	}
}

// placed is a rule with its place.
func placed(rule, file string, line int) string {
	if file == "" || line == 0 {
		return show(rule)
	}
	return fmt.Sprintf("%s, %s:%d", show(rule), show(file), line)
}

func (s *session) printWayStep(n int, step reach.Step) {
	s.printf("\n%2d. %s %s %s\n", n, show(step.From), step.Does, show(step.To))
	col := green
	if step.Effect != "allow" {
		col = yellow
	}
	s.printf("    %s  %s\n", s.paint(col, step.Effect), placed(ruleText(step.Effect, step.Rule), step.File, step.Line))
	if step.Why != "" {
		s.printf("    %s\n", s.paint(dim, "at most: "+step.Why))
	}
}

func (s *session) authorityWho(w *reach.World, to string) error {
	answers, err := w.Who(to)
	if err != nil {
		return err
	}
	status := exit(0)
	var rows [][]cell
	var others []string
	for _, a := range answers {
		v := verdicts[a.Verdict]
		if a.Verdict == reach.Unreachable {
			others = append(others, show(a.From))
			continue
		}
		if v.status == 4 || status == 0 {
			status = v.status
		}
		var last reach.Step
		by := ""
		if n := len(a.Steps); n > 0 {
			last = a.Steps[n-1]
			if by = ruleText(last.Effect, last.Rule); last.From != a.From {
				by = "through " + last.From
			}
		}
		rows = append(rows, []cell{{a.From, bold}, {string(a.Verdict), v.color}, {last.To, ""}, {by, dim}})
	}
	if s.json {
		if err := s.printJSON(map[string]any{"to": to, "holders": answers}); err != nil {
			return err
		}
		return status.orNil()
	}
	s.table([]string{"HOLDER", "ANSWER", "EXAMPLE", "BY"}, rows)
	if len(others) > 0 {
		s.printf("no way for: %s\n", strings.Join(others, " "))
	}
	return status.orNil()
}

// checkedAnswer is an expectation with its answer.
type checkedAnswer struct {
	reach.Answer
	Expected reach.Verdict `json:"expected"`
	Pass     bool          `json:"pass"`
	Where    string        `json:"where"`
}

// expectations asks the questions of a file.
func expectations(w *reach.World, file string) (results []checkedAnswer, failed int, err error) {
	src, err := wholefile.Read(file, reach.MaxSize)
	if err != nil {
		return nil, 0, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	list, err := reach.ParseExpectations(file, src)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range list {
		a, err := w.Ask(e.From, e.To)
		if err != nil {
			return nil, 0, fault.Wrap(fault.Usage, err, "%v", err).At(e.Pos)
		}
		if a.Verdict != e.Want {
			failed++
		}
		results = append(results, checkedAnswer{a, e.Want, a.Verdict == e.Want, e.Pos.String()})
	}
	return results, failed, nil
}

func (s *session) authorityTests(w *reach.World, file string) error {
	results, failed, err := expectations(w, file)
	if err != nil {
		return err
	}
	status := exit(min(failed, 1))
	if s.json {
		if err := s.printJSON(map[string]any{"ok": failed == 0, "answers": results, "failed": failed}); err != nil {
			return err
		}
		return status.orNil()
	}
	for _, r := range results {
		mark := s.paint(green, "✓")
		if !r.Pass {
			mark = s.paint(red, "✗")
		}
		s.printf("%s %s -> %s: %s\n", mark, show(r.From), show(r.To), r.Verdict)
		if !r.Pass {
			s.printf("  expected %s (%s)\n", r.Expected, show(r.Where))
			for i, step := range r.Steps {
				s.printWayStep(i+1, step)
			}
		}
	}
	s.printf("%s, %d failed\n", counted(len(results), "question"), failed)
	return status.orNil()
}

func (s *session) authorityDiff(a *app.App, old, new, workspace string) error {
	was, is, err := a.PolicyReview.Worlds(old, new, workspace)
	if err != nil {
		return err
	}
	gains, err := reach.Gains(was, is)
	if err != nil {
		return err
	}
	status := exit(0)
	if len(gains) > 0 {
		status = 4
	}
	if s.json {
		if gains == nil {
			gains = []reach.Gain{}
		}
		if err := s.printJSON(map[string]any{"gains": gains}); err != nil {
			return err
		}
		return status.orNil()
	}
	if len(gains) == 0 {
		s.printf("nothing was found that the new policy opens\n")
		return nil
	}
	type opened struct{ was, is, example, rule string }
	var order []opened
	holders := map[opened][]string{}
	for _, g := range gains {
		o := opened{g.Was, g.Is, g.Example, ruleText(g.Is, g.Rule)}
		if holders[o] == nil {
			order = append(order, o)
		}
		holders[o] = append(holders[o], show(g.Holder))
	}
	for i, o := range order {
		if i > 0 {
			s.printf("\n")
		}
		was, is := effectCell(o.was), effectCell(o.is)
		s.printf("%s to %s  %s\n", s.paint(was.colour, was.text), s.paint(is.colour, is.text), show(o.example))
		s.printf("    by   %s\n    for  %s\n", s.paint(dim, show(o.rule)), strings.Join(holders[o], " "))
	}
	return status.orNil()
}
