package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/replays"
)

type replayFlags struct {
	policy, plan, from, since string
	limit                     int
}

func (s *session) replayCmd() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay RUN|SESSION...",
		Short: "Repeat a recorded run or session without side effects",
		Long: `The plan is carried out again: arguments and decisions are computed anew, but
the tools' results come from the record. The replay is recorded as a run with
mode replay. The first difference is reported.

For an agent's session, all of its runs are repeated. No model is asked, and
every message must be identical.

--policy decides the recorded calls under another policy, and lists those whose
decision changes. For several runs and sessions, or with --since, it counts the
questions of each task instead: a session, or a run of its own.

--plan compares another plan with the record. --from continues a session for
real from one of its calls, as a new session: CALL is a number in the newest
run, or RUN/NUMBER. It runs under --policy, or else under the workspace's
trusted policy.
`,
		Example: `  remit replay 0199f3c2
  remit replay 0199f3c2 --policy stricter.yaml
  remit replay --policy stricter.yaml --since 7d
  remit replay 0199f3c2 --plan changed.yaml
  remit replay 0199f3d0 --from 7`,
		Args: cobra.ArbitraryArgs,

		ValidArgsFunction: s.completeRecorded,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch many := len(args) > 1 || f.since != ""; {
			case many && f.policy != "" && f.plan == "" && f.from == "":
				return s.replayQuestions(cmd, args, f)
			case many:
				return fault.New(fault.Usage, "several runs, and --since, need --policy").WithHint("remit replay --policy stricter.yaml --since 7d")
			case len(args) == 0:
				return fault.New(fault.Usage, "RUN or SESSION is missing").WithHint("see %s --help", cmd.CommandPath())
			}
			return s.replay(cmd, args[0], f)
		},
	}
	c.Flags().StringVarP(&f.policy, "policy", "p", "", "decide the recorded calls under this policy `FILE`")
	c.Flags().StringVar(&f.plan, "plan", "", "replay this plan `FILE` instead of the recorded plan")
	c.Flags().StringVar(&f.from, "from", "", "continue the session for real from this `CALL`, as a new session")
	c.Flags().StringVar(&f.since, "since", "", "with --policy: count the questions of all runs after this `TIME`: 2h, 7d, 2026-01-31 or RFC 3339")
	c.Flags().IntVar(&f.limit, "limit", 200, "with --since: maximum number of runs")
	return c
}

func (s *session) replay(cmd *cobra.Command, of string, f replayFlags) error {
	if f.plan != "" && (f.policy != "" || f.from != "") {
		return fault.New(fault.Usage, "--plan cannot be combined with --policy or --from")
	}
	a, err := s.open()
	if err != nil {
		return err
	}
	session, err := s.isSession(cmd, a, of)
	switch {
	case err != nil:
		return err
	case session && f.plan != "":
		return fault.New(fault.Usage, "a session has no plan").WithHint("leave out --plan")
	case session:
		return s.replaySession(cmd, a, of, f.policy, f.from)
	case f.from != "":
		return fault.New(fault.Usage, "--from needs a session; %.100q is a run", of)
	case f.policy != "":
		return s.rejudge(cmd, a, of, f.policy)
	}
	var with *plan.Plan
	if f.plan != "" {
		if with, err = s.readPlan(a, f.plan); err != nil {
			return err
		}
	}
	busy := s.startActivity("replaying the run")
	res, err := a.Replays.Run(cmd.Context(), of, with)
	busy.stop()
	if err != nil {
		return err
	}
	return s.printReplay(res)
}

func (s *session) printReplay(res replays.Result) error {
	if s.json {
		out := map[string]any{
			"run_id": res.ID.String(), "replay_of": res.Of.String(), "status": res.Status.String(), "ok": res.Mismatch == nil,
			"calls": res.Calls, "mismatch": res.Mismatch,
		}
		if err := s.printJSON(out); err != nil {
			return err
		}
	}
	if res.Mismatch != nil {
		if s.json {
			return exit(fault.ReplayMismatch.Exit())
		}
		return res.Mismatch.Err()
	}
	if !s.json {
		s.printf("%s run %s replayed: %s; all arguments, decisions and outputs are identical\n  replayed as %s\n",
			s.paint(green, "✓"), res.Of, counted(res.Calls, "call"), res.ID)
	}
	return nil
}

func (s *session) rejudge(cmd *cobra.Command, a *app.App, id, file string) error {
	p, err := policies.Read(file)
	if err != nil {
		return err
	}
	busy := s.startActivity("deciding the recorded calls")
	changed, judged, err := a.Replays.Rejudge(cmd.Context(), id, p)
	var task replays.Questions
	if err == nil {
		task, err = s.questionsOfOne(cmd.Context(), a, id, p)
	}
	busy.stop()
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(map[string]any{"policy": p.Name(), "judged": judged, "changed": changed, "questions": task})
	}
	if len(changed) == 0 {
		s.printf("under %q, none of %s would change\n", p.Name(), counted(judged, "decision"))
		s.printPerTask(task, 1)
		return nil
	}
	var rows [][]cell
	col := map[string]colour{"allow": green, "ask": yellow, "deny": red}
	for _, c := range changed {
		rows = append(rows, []cell{
			{itoa(c.Call), dim}, {string(c.Tool), bold}, {c.Was, col[c.Was]}, {c.Is, col[c.Is]}, {c.On, ""}, {ruleText(c.Is, c.Rule), dim},
		})
	}
	s.table([]string{"#", "TOOL", "OLD", "NEW", "ACTION", "RULE"}, rows)
	s.printf("%d of %s would change under %q\n", len(changed), counted(judged, "decision"), p.Name())
	s.printPerTask(task, 1)
	return nil
}
