package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
)

func (s *session) planCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan",
		Short: "Freeze plans, and check frozen plans",
		Long: `A frozen plan fixes the calls that a run may make: those of the plan, each
once, with these arguments and the tools as they are now.
`,
		Example: "  remit plan freeze plan.yaml -o plan.frozen.json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.planFreezeCmd(), s.planCheckCmd(), s.planCollectCmd())
	return c
}

func (s *session) planFreezeCmd() *cobra.Command {
	var out string
	var inputs []string
	var sign bool
	c := &cobra.Command{
		Use:   "freeze PLAN",
		Short: "Write a frozen plan",
		Long: `The frozen plan holds the plan, the values of its inputs, and the call of every
step. remit run --frozen then allows no other calls. --sign adds your approval,
signed with the ledger's key. If PLAN is already frozen, it is kept and only
signed.
`,
		Example: `  remit plan freeze plan.yaml --input branch=main -o plan.frozen.json
  remit plan freeze plan.frozen.json --sign -o plan.frozen.json
  remit run plan.yaml --frozen plan.frozen.json -p policy.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if sign && s.delegated() {
				return fault.New(fault.Denied, "a process that runs under a grant cannot approve a plan").WithHint("sign it in a shell without REMIT_GRANT")
			}
			given, err := parseInputs(inputs)
			if err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			f, err := a.Runs.FreezeFile(args[0], given)
			if err == nil && sign {
				f, err = a.Runs.ApproveFrozen(cmd.Context(), f)
			}
			if err != nil {
				return err
			}
			return s.toFile(out, func(w io.Writer) error {
				_, err := w.Write(append(f.Encode(), '\n'))
				return err
			})
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "output", "o", "-", "write to this `FILE` (- is standard output)")
	fl.StringArrayVarP(&inputs, "input", "i", nil, "set an input of the plan, as `NAME=VALUE` (repeatable)")
	fl.BoolVar(&sign, "sign", false, "add your approval, signed with the ledger's key")
	return c
}

func (s *session) planCollectCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "collect RUN",
		Short: "Write a plan of the calls that a run made or only planned",
		Long: `The plan has the completed calls, and the calls that were refused because
the run was in planning mode, with these arguments. Read it, freeze it, and let
an agent or remit run carry out the frozen calls.
`,
		Example: `  remit chat --model anthropic/claude-sonnet-4-5 -p policy.yaml --planning
  remit plan collect last -o plan.yaml
  remit plan freeze plan.yaml --sign -o plan.frozen.json
  remit run plan.yaml --frozen plan.frozen.json -p policy.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			got, err := a.History.Collect(cmd.Context(), args[0], false, a.Runs.Plannable)
			if err != nil {
				return err
			}
			for _, id := range got.Left {
				s.errorf("%s %s is left out: only its agent can call it\n", s.paintErr(yellow, "!"), show(string(id)))
			}
			if got.Steps == 0 {
				return fault.New(fault.PlanInvalid, "the run has no call for a plan").WithHint("collect a run of an agent in planning mode")
			}
			p, err := a.Runs.ParsePlan("the collected plan", got.Source)
			if err != nil {
				return err
			}
			return s.toFile(out, func(w io.Writer) error {
				_, err := w.Write(p.Print())
				return err
			})
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "-", "write to this `FILE` (- is standard output)")
	return c
}

func (s *session) planCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FROZEN [PLAN]",
		Short: "Show the calls of a frozen plan, and whether it is still valid",
		Long: `The exit status is 2 if FROZEN cannot be read or was altered, and 4 if a tool
has changed since, or PLAN is not the plan that was frozen.
`,
		Example: "  remit plan check plan.frozen.json plan.yaml",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			f, err := a.Runs.ReadFrozen(args[0])
			if err != nil {
				return err
			}
			var p *plan.Plan
			if len(args) > 1 {
				if p, err = s.readPlan(a, args[1]); err != nil {
					return err
				}
			}
			return s.printFrozen(cmd.Context(), a, f, a.Runs.CheckFrozen(f, p))
		},
	}
}

// printFrozen shows the permissions of a frozen plan, and why it is not valid any more.
func (s *session) printFrozen(ctx context.Context, a *app.App, f *frozen.Plan, problems error) error {
	approvals, others, err := a.Runs.FrozenApprovals(ctx, f)
	if err != nil {
		return err
	}
	if s.json {
		return s.frozenJSON(f, approvals, others, problems)
	}
	if problems == nil {
		s.printf("%s %s\n", s.paint(green, "✓"), f.Digest())
	} else {
		s.printf("%s %s\n", s.paint(red, "✗"), f.Digest())
	}
	for _, x := range approvals {
		s.printf("  approved by %s at %s\n", show(x.By), x.At.Format("2006-01-02 15:04:05Z"))
	}
	if others > 0 {
		s.printf("  %s by other ledgers, ignored here\n", counted(others, "approval"))
	}
	var rows [][]cell
	for _, st := range f.Steps() {
		args, err := canon.Marshal(st.Args)
		if err != nil {
			return err
		}
		risk, _ := tool.ParseRisk(st.Risk)
		rows = append(rows, []cell{{st.ID, bold}, {string(st.Tool), ""}, {st.Risk, riskColour(risk)}, {orDash(tool.EffectSet(st.Effects...).String()), ""}, {string(args), ""}})
	}
	s.tableWhole([]string{"STEP", "TOOL", "RISK", "SIDE EFFECTS", "ARGUMENTS"}, rows)
	if problems != nil {
		for _, e := range asList(problems) {
			s.complain(e)
		}
		return exit(fault.VerifyFailed.Exit())
	}
	return nil
}

func (s *session) frozenJSON(f *frozen.Plan, approvals []frozen.Approval, others int, problems error) error {
	type approval struct {
		By string `json:"by"`
		At string `json:"at"`
	}
	list, texts := []approval{}, []string{}
	for _, x := range approvals {
		list = append(list, approval{x.By, x.At.Format("2006-01-02T15:04:05Z07:00")})
	}
	if problems != nil {
		for _, e := range asList(problems) {
			texts = append(texts, e.Error())
		}
	}
	err := s.printJSON(map[string]any{"ok": problems == nil, "digest": f.Digest().String(), "plan_digest": f.Plan().Digest().String(),
		"inputs": f.Inputs(), "steps": f.Steps(), "approvals": list, "other_approvals": others, "problems": texts})
	if err == nil && problems != nil {
		return exit(fault.VerifyFailed.Exit())
	}
	return err
}

// modeFlags adds the flags that narrow the calls of a run besides its policy.
func modeFlags(fl *pflag.FlagSet, planning *bool, frozenFile *string) {
	fl.StringVar(frozenFile, "frozen", "", "allow only the calls of this frozen plan `FILE`, once each")
	fl.BoolVar(planning, "planning", false, "allow only calls without side effects")
}

// frozenFlag reads the frozen plan in a file, nil if file is empty.
func (s *session) frozenFlag(a *app.App, file string) (*frozen.Plan, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // said above
	}
	return a.Runs.ReadFrozen(file)
}
