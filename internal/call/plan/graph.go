package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// link resolves names to steps and inputs, and finds what cannot be ordered.
func (r *reader) link(p *Plan) {
	for i, s := range p.Steps {
		r.linkNeeds(p, s)
		for _, ref := range r.pending[i] {
			r.linkRef(p, s, ref)
		}
		slices.Sort(s.deps)
		s.deps = slices.Compact(s.deps)
		slices.Sort(s.feeds)
		s.feeds = slices.Compact(s.feeds)
	}
	linkCommitments(p.Steps)
	if cycle := findCycle(p.Steps); cycle != nil {
		names := make([]string, len(cycle))
		for i, s := range cycle {
			names[i] = strconv.Quote(s.ID)
		}
		at := cycle[0].node()
		r.bad(at, cycle[0].field()+".needs", "remove one of these dependencies", "steps wait for each other: %s", strings.Join(names, " → "))
	}
}

func (r *reader) linkNeeds(p *Plan, s *Step) {
	for i, id := range s.Needs {
		at, field := r.needPos[s.Index][i], document.Index(s.field()+".needs", i)
		dep, ok := p.byID[id]
		switch {
		case !ok:
			r.bad(at, field, nearest(id, p.ids()), "no step has the id %q", excerpt(id))
		case dep == s:
			r.bad(at, field, "remove it", "a step cannot need itself")
		default:
			s.deps = append(s.deps, dep.Index)
		}
	}
}

func (p *Plan) ids() []string {
	if len(p.Steps) > 1000 {
		return nil // guessing would take too long
	}
	return sortedKeys(p.byID)
}

func (r *reader) linkRef(p *Plan, s *Step, ref *ref) {
	bad := func(hint, format string, args ...any) {
		r.problem(fault.PlanReference, ref.at, ref.field, hint, format, args...)
	}
	if ref.root == "inputs" {
		if _, ok := p.params[ref.name]; !ok {
			bad(orHint(nearest(ref.name, sortedKeys(p.params)), "declare it under inputs"), "the plan declares no input %q", excerpt(ref.name))
		}
		return
	}
	dep, ok := p.byID[ref.name]
	switch {
	case !ok:
		bad(orHint(nearest(ref.name, p.ids()), "give the step that id"), "no step has the id %q", excerpt(ref.name))
		return
	case dep == s:
		bad("", "a step cannot refer to itself")
		return
	}
	switch ref.part {
	case "output":
		dep.used = true
		s.feeds = append(s.feeds, dep.Index)
	case "status", "error":
	default:
		bad(orHint(nearest(ref.part, []string{"output", "status", "error"}), "write output, status or error"), "a step has no %q", excerpt(ref.part))
	}
	ref.step = dep.Index
	s.deps = append(s.deps, dep.Index)
}

// findCycle returns the steps of one cycle, the first one also last, or nil.
func findCycle(steps []*Step) []*Step {
	waits := make([]int, len(steps)+1)
	users := make([][]int, len(steps)+1)
	var ready []int
	for _, s := range steps {
		if waits[s.Index] = len(s.deps); len(s.deps) == 0 {
			ready = append(ready, s.Index)
		}
		for _, d := range s.deps {
			users[d] = append(users[d], s.Index)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, u := range users[i] {
			if waits[u]--; waits[u] == 0 {
				ready = append(ready, u)
			}
		}
	}
	for _, s := range steps {
		if waits[s.Index] > 0 {
			return followCycle(steps, waits, s)
		}
	}
	return nil
}

// followCycle walks from a step that waits for ever to steps that do too, until
// it comes back to one it has seen.
func followCycle(steps []*Step, waits []int, s *Step) []*Step {
	at := map[int]int{}
	var path []*Step
	for {
		if first, seen := at[s.Index]; seen {
			return append(path[first:], s)
		}
		at[s.Index] = len(path)
		path = append(path, s)
		for _, d := range s.deps {
			if waits[d] > 0 {
				s = steps[d-1]
				break
			}
		}
	}
}
