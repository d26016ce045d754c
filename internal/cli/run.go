package cli

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// runFlags are the flags that say what a plan runs with.
type runFlags struct {
	runs.Request
	dir, frozenFile string
	inputs          []string
	presented       func() (grants.Presented, error)
}

func (f *runFlags) add(s *session, c *cobra.Command) {
	f.presented = s.presented(c)
	fl := c.Flags()
	fl.StringVarP(&f.Policy, "policy", "p", "", "policy `FILE` to run under")
	fl.StringVarP(&f.dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	fl.BoolVar(&f.Changeset, "changeset", false, "hold writes until remit changes apply")
	modeFlags(fl, &f.Planning, &f.frozenFile)
	fl.StringArrayVarP(&f.inputs, "input", "i", nil, "set an input of the plan, as `NAME=VALUE` (repeatable)")
}

// runRequest makes the request to carry out the plan in a file.
func (s *session) runRequest(f *runFlags, file string) (*app.App, runs.Request, error) {
	q := f.Request
	var err error
	if q.Inputs, err = parseInputs(f.inputs); err != nil {
		return nil, q, err
	}
	a, ws, err := s.openIn(f.dir)
	if err != nil {
		return nil, q, err
	}
	q.Workspace = ws
	if q.Grant, err = f.presented(); err != nil {
		return nil, q, err
	}
	if q.Plan, err = s.readPlan(a, file); err != nil {
		return nil, q, err
	}
	q.Frozen, err = s.frozenFlag(a, f.frozenFile)
	return a, q, err
}

func (s *session) runCmd() *cobra.Command {
	var f runFlags
	var queued queueFlags
	c := &cobra.Command{
		Use:   "run PLAN",
		Short: "Execute a plan",
		Long: `Each step is decided by the policy, recorded, run confined, and its result
recorded. Without -p, the workspace's trusted remit.yaml applies; without that,
every call is denied. PLAN is a file, or - for standard input.

With --queue the run is queued instead, with the plan as it is now, and remit
serve or remit queue work starts it.
`,
		Example: `  remit run plan.yaml -p policy.yaml
  remit run plan.yaml -w ~/project --input branch=main
  remit run plan.yaml -p policy.yaml --changeset
  remit run plan.yaml -p policy.yaml --frozen plan.frozen.json
  make-plan | remit run - -p policy.yaml
  remit run plan.yaml -p policy.yaml --json | jq .status
  remit run plan.yaml -p policy.yaml --queue --delay 10m --unique nightly`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := queued.options(cmd)
			if err != nil {
				return err
			}
			a, q, err := s.runRequest(&f, args[0])
			if err != nil {
				return err
			}
			if queued.on {
				return s.queueRun(cmd.Context(), a, q, o)
			}
			return s.runPlan(cmd.Context(), a, q)
		},
	}
	f.add(s, c)
	c.Flags().BoolVar(&f.Wait, "wait", false, "without a terminal, wait for remit approvals")
	queued.add(c, false)
	return c
}

// readPlan reads a plan from a file, or from standard input if file is -.
func (s *session) readPlan(a *app.App, file string) (*plan.Plan, error) {
	if file != "-" {
		return a.Runs.ReadPlan(file)
	}
	const name = "standard input"
	src, err := io.ReadAll(io.LimitReader(s.In, plan.MaxSize+1)) // one more, so that a longer one is refused
	if err != nil {
		return nil, fault.Wrap(fault.PlanInvalid, err, "cannot be read: %v", err).At(fault.Pos{File: name})
	}
	return a.Runs.ParsePlan(name, src)
}

// runPlan carries out a plan and shows its progress.
func (s *session) runPlan(ctx context.Context, a *app.App, q runs.Request) error {
	live := s.newProgress(a.Home.Redactor(), len(q.Plan.Steps))
	q.Observe, q.Started, q.Here = live.observe, live.started, s.askAtTerminal(live)
	res, err := a.Runs.Plan(ctx, q)
	live.stop()
	if err != nil {
		return err
	}
	if s.json {
		err = a.History.WriteRun(context.WithoutCancel(ctx), s.Out, res.ID.String())
	} else {
		s.printResult(res)
	}
	if err != nil {
		return err
	}
	if res.Stopped != nil {
		return res.Stopped
	}
	return runExit(ctx.Err() != nil, res.Status)
}

func parseInputs(pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fault.New(fault.Usage, "--input %q is not NAME=VALUE", p)
		}
		if _, twice := out[k]; twice {
			return nil, fault.New(fault.Usage, "--input %s is given twice", k)
		}
		out[k] = v
	}
	return out, nil
}

// runExit returns the exit status for a run's status.
func runExit(interrupted bool, status tool.Status) error {
	switch {
	case interrupted || status == tool.Cancelled:
		return exit(130)
	case status == tool.Completed:
		return nil
	case status == tool.StatusDenied:
		return exit(fault.Denied.Exit())
	}
	return exit(fault.ToolFailed.Exit())
}

func (s *session) printResult(res runs.Result) {
	sign, col := icon(res.Status.String())
	n := res.Counts
	parts := []string{itoa(n.Completed) + " completed"}
	for _, p := range []struct {
		n    int
		word string
	}{{n.Denied, "denied"}, {n.Failed, "failed"}, {n.Skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, itoa(p.n)+" "+p.word)
		}
	}
	s.printf("%s %s: %s of %s in %s\n", s.paint(col, sign), res.Status, strings.Join(parts, ", "), counted(n.Total, "step"), ms(res.Duration))
	if n.Refused > 0 {
		s.printf("%s %s refused while running  %s\n", s.paint(yellow, "⊘"), counted(n.Refused, "action"), s.paint(dim, "remit show "+shortRunID(res.ID.String())))
	}
	s.printf("  %s\n", s.paint(dim, "remit report "+shortRunID(res.ID.String())))
	s.printHeld(res)
}

// printHeld prints the number of held changes.
func (s *session) printHeld(res runs.Result) {
	if res.Waiting > 0 {
		s.printf("%s held for review\n", counted(res.Waiting, "call"))
	}
	if res.Held == nil && res.Waiting == 0 {
		return
	}
	s.printf("%s held\n  %s\n", counted(len(res.Held), "change"), s.paint(dim, "remit changes "+shortRunID(res.ID.String())+" --diff"))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// warn prints a hint about a policy, if there is one, to standard error.
func (s *session) warn(h policies.Hint) {
	if h != "" {
		s.errorf("%s %s\n", s.paintErr(yellow, "!"), show(string(h)))
	}
}

// started prints the run's ID, and a hint about its policy.
func (p *progress) started(run *runner.Run, h policies.Hint) {
	p.s.warn(h)
	if p.s.json {
		return
	}
	p.s.printf("run %s  %s\n", run.ID, p.s.clip(show(run.Name), len("run ")+len(run.ID.String())+gap))
}
