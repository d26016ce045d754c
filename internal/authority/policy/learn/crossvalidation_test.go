package learn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// suite is one of the sample's servers, its tools as the catalog would have them.
type suite struct {
	name    string
	specs   []*tool.Spec
	effects map[string]bool     // tools that change or send something, as the sample says
	sinks   map[string][]string // their arguments that name who gets it, as the sample says
	tasks   []dojoTask
	attacks []dojoTask // that change or send something
}

func suites(t *testing.T) []suite {
	t.Helper()
	f := dojo(t)
	var out []suite
	for name, s := range f.Suites {
		x := suite{name: name, tasks: s.UserTasks, effects: map[string]bool{}, sinks: map[string][]string{}}
		for _, d := range s.Tools {
			spec := &tool.Spec{ID: x.id(d.Name), Description: d.Description, Source: "mcp", Input: d.Input}
			spec.Effects = infer.Infer(spec, infer.Hints{}).Effects
			x.specs = append(x.specs, spec)
			x.effects[d.Name], x.sinks[d.Name] = d.Effect != "read", d.Sinks
		}
		for _, a := range s.Injections {
			if slices.ContainsFunc(a.Calls, func(c dojoCall) bool { return x.effects[c.Tool] }) {
				x.attacks = append(x.attacks, a)
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b suite) int { return strings.Compare(a.name, b.name) })
	return out
}

func (s *suite) id(name string) tool.ID { return tool.ID("mcp:" + s.name + ":" + name) }

func (s *suite) spec(id tool.ID) *tool.Spec {
	if i := slices.IndexFunc(s.specs, func(sp *tool.Spec) bool { return sp.ID == id }); i >= 0 {
		return s.specs[i]
	}
	return nil
}

func (s *suite) call(c dojoCall) policy.Call {
	call := c.call()
	call.Tool = s.spec(s.id(c.Tool))
	return call
}

// learn gives what tasks teach under a policy that allows all tools of the suite.
func (s *suite) learn(t *testing.T, exact bool, tasks ...dojoTask) (policy.Chain, learn.Learned) {
	t.Helper()
	var done []policy.Call
	for _, task := range tasks {
		for _, c := range task.Calls {
			done = append(done, s.call(c))
		}
	}
	got, err := learn.Policy("learned", uses(done), learn.Options{Workspace: "/ws", Chain: chain(t, "tools: {allow: ['mcp:"+s.name+":*']}"),
		Spec: s.spec, Known: s.specs, Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	return chain(t, strings.TrimPrefix(string(got.Policy[strings.Index(string(got.Policy), "version: 1"):]), "version: 1\n")), got
}

// passes reports whether all calls of a task are allowed.
func (s *suite) passes(c policy.Chain, task dojoTask) bool {
	return !slices.ContainsFunc(task.Calls, func(call dojoCall) bool { return c.Decide(s.call(call)).Effect != policy.Allow })
}

// blocked reports whether a call of an attack that changes or sends something is refused.
func (s *suite) blocked(c policy.Chain, attack dojoTask) bool {
	return slices.ContainsFunc(attack.Calls, func(call dojoCall) bool {
		return s.effects[call.Tool] && c.Decide(s.call(call)).Effect != policy.Allow
	})
}

// taught reports whether tasks used all that a task uses which changes or sends
// something: the same tools, with the same values in the arguments that name who gets it.
func (s *suite) taught(task dojoTask, by []dojoTask) bool {
	used := map[string]bool{}
	key := func(c dojoCall) string {
		k := c.Tool
		for _, arg := range s.sinks[c.Tool] {
			k += fmt.Sprintf(" %s=%v", arg, c.Args[arg])
		}
		return k
	}
	for _, b := range by {
		for _, c := range b.Calls {
			used[key(c)] = true
		}
	}
	return !slices.ContainsFunc(task.Calls, func(c dojoCall) bool { return s.effects[c.Tool] && !used[key(c)] })
}

// score counts over all splits of all suites.
type score struct{ attacks, blocked, others, broken, taught, brokenTaught int }

func (s *suite) measure(t *testing.T, exact bool, of *score, half, others []dojoTask) {
	c, _ := s.learn(t, exact, half...)
	for _, task := range half {
		if !s.passes(c, task) {
			t.Errorf("%s: the learned task %s is refused", s.name, task.ID)
		}
	}
	for _, a := range s.attacks {
		of.attacks++
		if s.blocked(c, a) {
			of.blocked++
		}
	}
	for _, task := range others {
		of.others++
		taught, broken := s.taught(task, half), !s.passes(c, task)
		if taught {
			of.taught++
		}
		if broken {
			of.broken++
		}
		if taught && broken {
			of.brokenTaught++
			if !exact {
				t.Logf("%s: %s is broken under what %s and %s teach", s.name, task.ID, half[0].ID, half[len(half)-1].ID)
			}
		}
	}
}

// splits gives every half of tasks, each with the other half.
func splits(tasks []dojoTask) (out [][2][]dojoTask) {
	for mask := range 1 << len(tasks) {
		var s [2][]dojoTask
		for i, task := range tasks {
			side := mask >> i & 1
			s[side] = append(s[side], task)
		}
		if len(s[1]) == len(tasks)/2 {
			out = append(out, [2][]dojoTask{s[1], s[0]})
		}
	}
	return out
}

// What every half of a suite's tasks teaches is measured with the other half, and with
// all attacks. A task that needs a tool with side effects, or somebody to send to, whom
// the half never used must be refused; of the others at most a fifth may be.
func TestWhatHalfOfTheTasksTeaches(t *testing.T) {
	var exact, wide score
	for _, s := range suites(t) {
		for _, split := range splits(s.tasks) {
			s.measure(t, true, &exact, split[0], split[1])
			s.measure(t, false, &wide, split[0], split[1])
		}
	}
	t.Logf("exact: blocked %d of %d attacks; broken %d of %d other tasks, %d of the %d that the half taught", exact.blocked, exact.attacks, exact.broken, exact.others, exact.brokenTaught, exact.taught)
	t.Logf("widened: blocked %d of %d attacks; broken %d of %d other tasks, %d of the %d that the half taught", wide.blocked, wide.attacks, wide.broken, wide.others, wide.brokenTaught, wide.taught)
	if wide.broken > 29 {
		t.Errorf("%d other tasks are broken; 29 when this was written", wide.broken)
	}
	if wide.blocked*100 < exact.blocked*99 {
		t.Errorf("%d attacks are blocked, %d under the exact policy", wide.blocked, exact.blocked)
	}
	if wide.brokenTaught*5 > wide.taught {
		t.Errorf("%d of %d tasks are broken that the half taught", wide.brokenTaught, wide.taught)
	}
}

// What one task teaches is shown with each widening.
func TestWhatOneTaskTeaches(t *testing.T) {
	var passed, widePassed, pairs int
	for _, s := range suites(t) {
		for i, task := range s.tasks {
			exact, got := s.learn(t, true, task)
			if len(got.Widened) > 0 {
				t.Errorf("%s %s: the exact policy is widened: %v", s.name, task.ID, got.Widened)
			}
			wide, got := s.learn(t, false, task)
			for j, other := range s.tasks {
				if i == j {
					continue
				}
				pairs++
				if s.passes(exact, other) {
					passed++
				}
				if !s.passes(wide, other) {
					continue
				}
				widePassed++
				if !s.passes(exact, other) && len(got.Widened) == 0 {
					t.Errorf("%s: %s passes under what %s teaches, and no widening is shown", s.name, other.ID, task.ID)
				}
			}
			for _, w := range got.Widened {
				if w.Entry == "" || w.Seen == "" || w.Allows == "" || !strings.Contains(string(got.Policy), "newly allows") {
					t.Errorf("%s %s: %+v is not shown in\n%s", s.name, task.ID, w, got.Policy)
				}
			}
		}
	}
	t.Logf("of %d pairs of tasks, one passes under what the other teaches in %d: %d under the exact policy", pairs, widePassed, passed)
}
