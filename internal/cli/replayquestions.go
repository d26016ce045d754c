package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/replays"
)

// replayQuestions counts the questions that a policy would have asked in recorded tasks.
func (s *session) replayQuestions(cmd *cobra.Command, of []string, f replayFlags) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	p, err := policies.Read(f.policy)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var runs []ledger.Run
	for _, id := range of {
		more, err := s.runsOf(ctx, a, id)
		if err != nil {
			return err
		}
		runs = append(runs, more...)
	}
	cut := false
	if f.since != "" {
		more, err := s.runsSince(ctx, a, f)
		if err != nil {
			return err
		}
		cut = len(more) > f.limit
		runs = append(runs, more[:min(len(more), f.limit)]...)
	}
	runs = uniqueRuns(runs)
	busy := s.startActivity("deciding the recorded calls")
	tasks, err := a.Replays.QuestionsOf(ctx, runs, p)
	busy.stop()
	if err != nil {
		return err
	}
	var all replays.Questions
	judged := 0
	for _, t := range tasks {
		if t.Problem == "" {
			judged++
			all.Add(t)
		}
	}
	if s.json {
		return s.printJSON(map[string]any{"policy": p.Name(), "tasks": tasks, "judged": judged, "more": cut,
			"total": map[string]any{"calls": all.Calls, "was_ask": all.WasAsk, "ask": all.Ask, "was_deny": all.WasDeny, "deny": all.Deny, "rules": all.Rules}})
	}
	s.tableOfTasks(tasks)
	if judged > 0 {
		s.printPerTask(all, judged)
	}
	if cut {
		s.printf("there are more runs; --limit counts more of them\n")
	}
	return nil
}

// uniqueRuns returns the runs without duplicates.
func uniqueRuns(runs []ledger.Run) []ledger.Run {
	seen := map[uuid.UUID]bool{}
	return slices.DeleteFunc(runs, func(r ledger.Run) bool {
		known := seen[r.ID]
		seen[r.ID] = true
		return known
	})
}

// runsOf are the runs of a session, or the run with an ID.
func (s *session) runsOf(ctx context.Context, a *app.App, id string) ([]ledger.Run, error) {
	if _, runs, err := a.Replays.SessionRuns(ctx, id); err == nil {
		return runs, nil
	}
	id, err := s.runID(ctx, id)
	if err != nil {
		return nil, err
	}
	st, err := a.Reader(ctx)
	if err != nil {
		return nil, err
	}
	run, err := st.Run(ctx, id)
	return []ledger.Run{run}, err
}

// runsSince are live runs, newest first, and one more if there are more than the limit.
func (s *session) runsSince(ctx context.Context, a *app.App, f replayFlags) ([]ledger.Run, error) {
	now := time.Now()
	filter, err := filterFlags{sharedFilter: sharedFilter{since: f.since}, mode: "run", limit: f.limit}.filter(now)
	if err != nil {
		return nil, err
	}
	st, err := a.Reader(ctx)
	if err != nil {
		return nil, err
	}
	filter.Limit++
	return st.Runs(ctx, filter)
}

// questionsOfOne counts the questions of one run or session.
func (s *session) questionsOfOne(ctx context.Context, a *app.App, id string, p *policy.Policy) (replays.Questions, error) {
	var all replays.Questions
	runs, err := s.runsOf(ctx, a, id)
	if err != nil {
		return all, err
	}
	tasks, err := a.Replays.QuestionsOf(ctx, runs, p)
	for _, t := range tasks {
		all = t
	}
	return all, err
}

func (s *session) tableOfTasks(tasks []replays.Questions) {
	var rows [][]cell
	for _, t := range tasks {
		rules := t.Problem
		if rules == "" {
			rules = rulesThatAsk(t.Rules)
		}
		rows = append(rows, []cell{
			{shortRunID(t.Task), dim}, {t.Name, bold}, {itoa(t.Calls), ""}, {fmt.Sprintf("%d → %d", t.WasAsk, t.Ask), yellow},
			{fmt.Sprintf("%d → %d", t.WasDeny, t.Deny), red}, {rules, dim},
		})
	}
	s.table([]string{"TASK", "NAME", "CALLS", "ASKED", "DENIED", "BY"}, rows)
}

// rulesThatAsk lists rules, those that ask most first.
func rulesThatAsk(rules map[string]int) string {
	names := slices.SortedFunc(maps.Keys(rules), func(a, b string) int {
		if d := rules[b] - rules[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%s %d", n, rules[n]))
	}
	return strings.Join(out, ", ")
}

// printPerTask says how many questions some tasks have, and which rules ask them. Of one task
// that has none it says nothing.
func (s *session) printPerTask(q replays.Questions, tasks int) {
	switch {
	case tasks > 1:
		per := func(n int) float64 { return float64(n) / float64(tasks) }
		s.printf("questions per task: %.2f, recorded %.2f (%d tasks, %s)\n", per(q.Ask), per(q.WasAsk), tasks, counted(q.Calls, "call"))
	case q.Ask+q.WasAsk > 0:
		s.printf("questions: %d, recorded %d\n", q.Ask, q.WasAsk)
	}
	if by := rulesThatAsk(q.Rules); by != "" {
		s.printf("  %s\n", show(by))
	}
}
