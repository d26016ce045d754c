package frozen

import (
	"bytes"
	"slices"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
)

// Call is a call that is to be matched.
type Call struct {
	Step   string // the plan step's ID; "": of an agent, which names none
	Tool   tool.ID
	Digest tool.Digest // the tool's
	Args   []byte      // canonical JSON
}

// Progress is how far a run has come. Steps are named by their index, from 1.
type Progress interface {
	// Begun reports whether the step's call was made, or is being made.
	Begun(step int) bool
	// Ended tells how a step ended, if it has.
	Ended(step int) (plan.Ended, bool)
	// Output is the recorded output of a step that has ended, nil for none.
	Output(step int) (map[string]any, error)
}

// Match finds the step that a call is: a step that was not made so far, whose
// dependencies have ended, whose condition can hold and whose arguments are the
// call's. A call that is none is fault.NotInPlan. The step's index is from 1; the
// caller must see to it that it counts as begun before the next call is matched.
func (f *Plan) Match(c Call, run Progress) (int, error) {
	if f == nil || f.plan == nil {
		return 0, fault.New(fault.NotInPlan, "the frozen plan is empty")
	}
	if c.Step != "" {
		s, ok := f.plan.Step(c.Step)
		if !ok {
			return 0, fault.New(fault.NotInPlan, "the frozen plan has no step %q", clip.Text(c.Step, 100))
		}
		return s.Index, f.match(s, c, run)
	}
	var nearest error
	for _, s := range f.plan.Steps {
		if s.Tool != c.Tool {
			continue
		}
		err := f.match(s, c, run)
		if err == nil {
			return s.Index, nil
		}
		if nearest == nil {
			nearest = err
		}
	}
	if nearest == nil {
		nearest = fault.New(fault.NotInPlan, "no step of the frozen plan calls %q", clip.Text(string(c.Tool), 100))
	}
	return 0, nearest
}

func (f *Plan) match(s *plan.Step, c Call, run Progress) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.NotInPlan, "the step %q of the frozen plan "+format, append([]any{s.ID}, args...)...)
	}
	switch at := f.steps[s.Index-1]; {
	case at.Tool != c.Tool:
		return bad("calls %q, not %q", string(at.Tool), clip.Text(string(c.Tool), 100))
	case at.Digest != c.Digest.String():
		return bad("calls %q, which has changed since", string(at.Tool))
	case run.Begun(s.Index):
		return bad("was already called; each step is called once")
	}
	v := values{f, run, map[int]bool{}}
	for _, d := range s.Deps() {
		if _, ok := run.Ended(d); !ok {
			return bad("follows the step %q, which has not ended", f.plan.Steps[d-1].ID)
		}
	}
	if !f.mayRun(s, v) {
		return bad("is skipped: its condition is false")
	}
	args, err := s.Resolve(v)
	if err != nil {
		return bad("cannot be computed here: %s", fault.Message(err))
	}
	want, err := canon.Marshal(map[string]any(args))
	if err != nil {
		return bad("cannot be computed here: %v", err)
	}
	if !bytes.Equal(want, c.Args) {
		return bad("has other arguments%s", f.different(args, c.Args))
	}
	return nil
}

// mayRun reports whether a step's condition holds. Whether another step has
// stopped the plan is the scheduler's to know: both are tried.
func (f *Plan) mayRun(s *plan.Step, v values) bool {
	for _, stopped := range [...]bool{false, true} {
		st := plan.State{Success: !stopped, Failure: stopped, Stopped: stopped}
		for _, d := range s.Deps() {
			st.Success = st.Success && v.Ended(d).Status == tool.Completed
			st.Failure = st.Failure || v.broken(d)
		}
		if ok, err := s.Condition(v, st); err == nil && ok {
			return true
		}
	}
	return false
}

// different names the arguments that are not the step's, without their values.
func (f *Plan) different(want tool.Args, got []byte) string {
	v, err := canon.Decode(got)
	have, ok := v.(map[string]any)
	if err != nil || !ok {
		return ""
	}
	var names []string
	for k := range want {
		a, err := canon.Marshal(want[k])
		b, err2 := canon.Marshal(have[k])
		if _, there := have[k]; !there || err != nil || err2 != nil || !bytes.Equal(a, b) {
			names = append(names, k)
		}
	}
	for k := range have {
		if _, there := want[k]; !there {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	text := ""
	for i, n := range names {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + clip.Text(n, 100)
	}
	return text
}

// values gives expressions what the frozen plan and the run say.
type values struct {
	f   *Plan
	run Progress
	bad map[int]bool // what broken found out
}

func (v values) Input(name string) any { return v.f.inputs[name] }

func (v values) Ended(step int) plan.Ended {
	e, _ := v.run.Ended(step)
	return e
}

func (v values) Output(step int) (map[string]any, error) { return v.run.Output(step) }

// broken reports whether a step, or one that it depends on, went wrong.
func (v values) broken(step int) bool {
	if bad, known := v.bad[step]; known {
		return bad
	}
	e, ok := v.run.Ended(step)
	bad := !ok || e.Status != tool.Completed && e.Status != tool.Skipped ||
		slices.ContainsFunc(v.f.plan.Steps[step-1].Deps(), v.broken)
	v.bad[step] = bad
	return bad
}
