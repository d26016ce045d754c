package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/bench/decide"
	"github.com/remitrun/remit/bench/stat"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/tool"
)

const (
	decideRounds = 31
	decideRepeat = 40 // passes over the questions in a round
)

// decisions asks all engines the same questions in turns. The compared value is the median over the
// rounds of the mean over the questions.
func (b *bench) decisions() error {
	engines, err := decide.Engines()
	if err != nil {
		return err
	}
	var allowed, refused []int
	for i, q := range decide.Questions {
		if q.Allow {
			allowed = append(allowed, i)
		} else {
			refused = append(refused, i)
		}
	}
	yes, no := turns(engines, allowed), turns(engines, refused)
	allocs := 0.0
	for _, i := range allowed {
		allocs = max(allocs, testing.AllocsPerRun(200, func() { engines[0].Allow(i) }))
	}
	b.table.add("one decision, 30 rules, allowed", "< 500 ns", ns(yes[0]), yes[0] < 500)
	b.table.add("heap allocations of it", "0", fmt.Sprint(allocs), allocs == 0)
	for i, least := range map[int]float64{1: 5, 2: 20} {
		r := float64(yes[i]) / float64(yes[0])
		b.table.add("ahead of "+engines[i].Name, fmt.Sprintf("≥ %.0f ×", least), fmt.Sprintf("%.1f × (%s)", r, ns(yes[i])), r >= least)
	}
	slices.SortFunc(b.table.rows[len(b.table.rows)-2:], func(x, y row) int { return -strings.Compare(x.what, y.what) })
	b.table.note("one decision, refused, with every reason", fmt.Sprintf("%s (%s %s, %s %s, which give none)",
		ns(no[0]), engines[1].Name, ns(no[1]), engines[2].Name, ns(no[2])))
	if err := b.manyEntries(); err != nil {
		return err
	}
	return b.tau2()
}

// manyEntries decides the same calls under more and more entries, in turns.
func (b *bench) manyEntries() error {
	sizes := []int{30, 1000, 10000}
	var engines []decide.Engine
	var questions []int
	for _, size := range sizes {
		chain, calls, err := decide.Many(size)
		if err != nil {
			return err
		}
		engines = append(engines, decide.Engine{Allow: func(i int) bool { return chain.Decide(calls[i]).Effect == policy.Allow }})
		questions = questions[:0]
		for i := range calls {
			questions = append(questions, i)
		}
	}
	times := turns(engines, questions)
	for i, most := range map[int]float64{1: 3, 2: 6} {
		r := float64(times[i]) / float64(times[0])
		b.table.add(fmt.Sprintf("one decision under %d entries, beside one under 30", sizes[i]), fmt.Sprintf("≤ %.0f ×", most), fmt.Sprintf("%.2f × (%s beside %s)", r, ns(times[i]), ns(times[0])), r <= most)
	}
	slices.SortFunc(b.table.rows[len(b.table.rows)-2:], func(x, y row) int { return len(x.what) - len(y.what) })
	return nil
}

// turns gives each engine's time for one question.
func turns(engines []decide.Engine, questions []int) []time.Duration {
	times := make([][]time.Duration, len(engines))
	for range decideRounds {
		for e, engine := range engines {
			d := stat.Time(func() {
				for range decideRepeat {
					for _, q := range questions {
						engine.Allow(q)
					}
				}
			})
			times[e] = append(times[e], d/time.Duration(decideRepeat*len(questions)))
		}
	}
	out := make([]time.Duration, len(engines))
	for e := range out {
		out[e] = stat.Median(times[e])
	}
	return out
}

// tau2 decides the calls of tau2-bench's tasks, where they are at hand, under
// a policy with an entry for each tool and a constraint for each argument.
func (b *bench) tau2() error {
	data := os.Getenv("REMIT_TESTDATA")
	if data == "" {
		return nil
	}
	calls, err := readTau2(filepath.Join(data, "perf", "tau2_plans.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	chain, rules, err := tau2Policy(calls)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if d := chain.Decide(c); d.Effect != policy.Allow {
			return fmt.Errorf("tau2: %s: %s", c.Tool.ID, d.Reason)
		}
	}
	var times []time.Duration
	for range decideRounds {
		times = append(times, stat.Time(func() {
			for _, c := range calls {
				chain.Decide(c)
			}
		})/time.Duration(len(calls)))
	}
	b.table.note(fmt.Sprintf("one of tau2-bench's %d calls, %d rules, every argument constrained", len(calls), rules), ns(stat.Median(times)))
	return nil
}

func readTau2(file string) ([]policy.Call, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Tasks []struct {
			Domain string
			Calls  []struct {
				Tool string
				Args json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	var out []policy.Call
	for _, t := range doc.Tasks {
		for _, c := range t.Calls {
			v, err := canon.Decode(c.Args)
			if err != nil {
				return nil, err
			}
			args, _ := v.(map[string]any) // a call without arguments has none
			out = append(out, policy.Call{Tool: &tool.Spec{ID: tool.ID("mcp:" + t.Domain + ":" + c.Tool), Source: "mcp"}, Args: args})
		}
	}
	return out, nil
}

// tau2Policy allows the calls: texts by their shape, numbers by their size,
// all else by its name.
func tau2Policy(calls []policy.Call) (policy.Chain, int, error) {
	type entry struct {
		Tool string         `json:"tool"`
		Args map[string]any `json:"args"`
	}
	entries, ids := map[tool.ID]*entry{}, []tool.ID{}
	for _, c := range calls {
		e := entries[c.Tool.ID]
		if e == nil {
			e = &entry{string(c.Tool.ID), map[string]any{}}
			entries[c.Tool.ID], ids = e, append(ids, c.Tool.ID)
		}
		for name, v := range c.Args {
			rule := map[string]any{"optional": true}
			switch v.(type) {
			case string:
				rule["max_length"], rule["glob"] = 2000, "**"
			case json.Number:
				rule["min"], rule["max"] = -1000000, 1000000
			}
			if was, ok := e.Args[name]; ok && len(was.(map[string]any)) != len(rule) {
				rule = map[string]any{"optional": true} // it has several types
			}
			e.Args[name] = rule
		}
	}
	list := []*entry{}
	for _, id := range ids {
		list = append(list, entries[id])
	}
	src, err := json.Marshal(map[string]any{"version": 1, "name": "tau2", "tools": map[string]any{"allow": list}})
	if err != nil {
		return nil, 0, err
	}
	p, err := policy.Parse("tau2.json", src)
	if err != nil {
		return nil, 0, err
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	return policy.Chain{r}, len(list), err
}
