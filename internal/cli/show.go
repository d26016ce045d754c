package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/report"
)

func (s *session) showCmd() *cobra.Command {
	var step int
	c := &cobra.Command{
		Use:     "show RUN",
		Aliases: []string{"show-run"},
		Short:   "Show the calls of a run, or one call in full",
		Long: `RUN is a run's ID, or its beginning (at least 4 characters). Text that looks
like a secret is masked, except with --json. In the arguments of calls that a
person was asked to approve, only known secrets are masked. Of a long run, the
first and last 1,000 calls are shown, and all that were refused something;
--json has all.
`,
		Example: `  remit show 0199f3c2
  remit show 0199f3c2 --step 3
  remit show 0199f3c2 --json`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			whole := !cmd.Flags().Changed("step")
			if s.json && whole {
				return a.History.WriteRun(cmd.Context(), s.Out, args[0])
			}
			if !whole {
				one, err := a.History.Step(cmd.Context(), args[0], step, !s.json)
				if err != nil {
					return err
				}
				return s.printStep(one)
			}
			d, err := a.History.Report(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r, err := report.BuildShort(d)
			if err != nil {
				return err
			}
			return s.printSteps(r)
		},
	}
	c.Flags().IntVar(&step, "step", 0, "show the call with this `NUMBER` in full")
	return c
}

func (s *session) printSteps(r report.Report) error {
	sign, col := icon(r.Run.Status)
	s.facts("run", "  ", cell{text: r.Run.ID}, cell{text: r.Run.Name})
	s.facts("status", "   ", cell{sign + " " + r.Run.Status, col}, cell{text: "mode " + r.Run.Mode},
		cell{text: "started " + r.Run.StartedAt.Local().Format(time.DateTime)}, cell{text: "took " + millis(r.Summary.TotalDurationMS)})
	if r.Run.Unverified {
		s.facts("record", "   ", cell{"not verified", red}, cell{text: "the list of runs was changed and differs from the events, which are shown; run remit verify"})
	}
	s.facts("by", " ", cell{text: r.Run.Principal}, cell{text: "in " + r.Run.Workspace})
	if c := r.Run.Client; c != "" {
		s.facts("client", "  ", cell{text: c}, cell{text: "carries out the calls itself: Remit decides them, and does not see how they end"})
	}
	for _, p := range r.Policy {
		s.facts("policy", "  ", cell{text: p.Name}, cell{p.File, dim})
	}
	s.printf("\n")
	var rows [][]cell
	left := 0
	for _, st := range r.Steps {
		if left += st.Left; st.Left > 0 {
			rows = append(rows, []cell{{"…", dim}, {}, {}, {fmt.Sprintf("%d not shown", st.Left), dim}, {}, {}})
		}
		sign, col := icon(st.Status)
		status := st.Status
		if by := st.Executor(); by != "" {
			status += ", " + by
		}
		why := ruleText(st.Decision.Effect, st.Decision.Rule)
		if st.Error != nil {
			why = st.Error.Code + " " + st.Error.Message
		}
		rows = append(rows, []cell{
			{itoa(st.Index), dim}, {sign + " " + status, col}, {st.Tool, bold}, {stepName(st.Index, st.Name, st.ID), ""},
			{millis(st.DurationMS), dim}, {firstLine(why), ""},
		})
	}
	s.tableWhole([]string{"#", "STATUS", "TOOL", "STEP", "TOOK", "RULE OR REASON"}, rows)
	if left > 0 {
		s.printf("%s\n", s.paint(dim, fmt.Sprintf("%d calls are not shown, none of them was refused anything: --json lists all, --step NUMBER shows one", left)))
	}
	s.printWeakened(r.Steps)
	s.printPlaces(r.Steps)
	s.printReached(r.Steps)
	return nil
}

// printWeakened warns of commands that ran with less than full isolation.
func (s *session) printWeakened(steps []report.Step) {
	for _, st := range steps {
		for _, h := range st.SideEffects.Happened {
			if h.Effect == tool.SystemExec.String() && h.Rule != "" {
				s.printf("%s call %d ran %s with less than full isolation: %s\n", s.paint(yellow, "!"), st.Index, show(h.On), show(h.Rule))
			}
		}
	}
}

// printPlaces names the commands that did not run on this machine.
func (s *session) printPlaces(steps []report.Step) {
	for _, st := range steps {
		for _, h := range st.SideEffects.Happened {
			if h.Place != "" {
				s.printf("  call %d ran %s on %s\n", st.Index, show(h.On), show(h.Place))
			}
		}
	}
}

// printReached lists the connections of confined processes, and their refused
// actions.
func (s *session) printReached(steps []report.Step) {
	var rows [][]cell
	more := 0
	for _, st := range steps {
		for _, h := range st.SideEffects.Happened {
			if h.Address == "" && h.Effect != tool.NetworkSocket.String() && (h.On != tool.Further || h.Rule == "") {
				continue
			}
			rows = append(rows, []cell{
				{itoa(st.Index), dim}, {"✓ allowed", green}, {h.On, ""}, {cmp.Or(h.Address, h.Purpose, "-"), ""}, {fmt.Sprint(h.Bytes), ""}, {fmt.Sprint(h.Received), ""}, {h.Rule, dim},
			})
		}
		for _, x := range st.SideEffects.Refused {
			what := x.Action
			if x.Count > 1 {
				what += fmt.Sprintf(" (%d times)", x.Count)
			}
			rows = append(rows, []cell{{itoa(st.Index), dim}, {"⊘ refused", yellow}, {strings.TrimPrefix(what, "network "), ""}, {"-", dim}, {"-", dim}, {"-", dim}, {refusalText(x.Rule, x.Reason), ""}})
		}
		more += st.SideEffects.RefusedMore
	}
	if len(rows) == 0 && more == 0 {
		return
	}
	s.printf("\n")
	s.tableWhole([]string{"#", "DECISION", "CONNECTION", "ADDRESS", "SENT", "RECEIVED", "RULE OR REASON"}, rows)
	if more > 0 {
		s.printf("%s\n", s.paint(dim, fmt.Sprintf("and %d more refused", more)))
	}
}

// millis prints a report's duration.
func millis(n float64) string { return ms(time.Duration(n * float64(time.Millisecond))) }

// printStep shows one call as indented JSON, with all control characters escaped or
// made visible.
func (s *session) printStep(st report.Step) error {
	if s.json {
		return s.printJSON(st)
	}
	tmp := &session{Streams: Streams{Out: &visible{s}}, lookup: s.lookup}
	return tmp.printJSON(st)
}

// visible makes control characters visible.
type visible struct{ s *session }

func (v *visible) Write(b []byte) (int, error) {
	v.s.printf("%s", showLines(string(b)))
	return len(b), nil
}

func (s *session) reportCmd() *cobra.Command {
	var format, out string
	c := &cobra.Command{
		Use:   "report RUN",
		Short: "Report on a run: timeline, denials, resources used",
		Long: `The HTML report is one self-contained file without scripts. Of a long run it
and the text report show the first and last 1,000 steps, and all that were
refused something; JSON has all steps. Text that looks like a secret is masked
in all reports. In the arguments of calls that a person was asked to approve,
only known secrets are masked.
`,
		Example: `  remit report 0199f3c2
  remit report 0199f3c2 --format html -o report.html
  remit report 0199f3c2 --format json`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.json && !cmd.Flags().Changed("format") {
				format = "json"
			}
			if format != "text" && format != "json" && format != "html" {
				return fault.New(fault.Usage, "--format %q is not valid; expected text, json or html", format)
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			d, err := a.History.VerifiedReport(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if out == "" {
				return s.writeReport(s.Out, format, d)
			}
			return s.toFile(out, func(w io.Writer) error { return s.writeReport(w, format, d) })
		},
	}
	c.Flags().StringVarP(&format, "format", "f", "text", "`FORMAT` of the report: text, json or html")
	c.Flags().StringVarP(&out, "output", "o", "", "write to this `FILE` instead of standard output")
	return c
}

func (s *session) writeReport(w io.Writer, format string, d report.Data) error {
	return report.Write(w, format, d, report.Options{Color: s.colours(w), Width: s.width()})
}
