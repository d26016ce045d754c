package report

import (
	"slices"

	"github.com/remitrun/remit/internal/base/tool"
)

// shownEnds is how many steps at the beginning and at the end of a run reports for people show in
// any case. Of the steps between, they show all that were refused something, and count the others:
// nobody reads a hundred thousand steps, and browsers do not draw them.
const shownEnds = 1000

// BuildShort makes the report with the steps that reports for people show, without their
// outputs, and with secrets taken out. The memory that it takes does not grow with the run.
func BuildShort(d Data) (Report, error) {
	shown := endSteps[Step]{keep: func(s Step) Step {
		s.Output = Value{}
		return s
	}}
	rep, err := build(d, &shown)
	for _, s := range shown.all() {
		s.step.Left = s.left
		rep.Steps = append(rep.Steps, s.step)
	}
	return rep, err
}

// endSteps keeps the steps that reports for people show, in the form T.
type endSteps[T any] struct {
	keep func(Step) T

	kept []placed[T] // those at the beginning, and refused ones after them
	last []placed[T] // the newest, at most 2 * shownEnds of them
	n    int
}

// placed is a step with its place among all steps of the run.
type placed[T any] struct {
	step    T
	place   int // from 0
	left    int // steps before this one that are not shown; see all
	refused bool
}

func (e *endSteps[T]) begin(*Report) error { return nil }

func (e *endSteps[T]) add(s Step) error {
	x := placed[T]{step: e.keep(s), place: e.n, refused: s.Status == tool.StatusDenied.String() || s.SideEffects.attempts() > 0}
	if e.n++; x.place < shownEnds {
		e.kept = append(e.kept, x)
		return nil
	}
	e.last = append(e.last, x)
	if len(e.last) < 2*shownEnds {
		return nil
	}
	e.forget(len(e.last) - shownEnds)
	return nil
}

// forget removes the first n of the newest steps, except refused ones.
func (e *endSteps[T]) forget(n int) {
	for _, x := range e.last[:n] {
		if x.refused {
			e.kept = append(e.kept, x)
		}
	}
	e.last = slices.Delete(e.last, 0, n)
}

func (e *endSteps[T]) end(*Report) error {
	e.forget(max(0, len(e.last)-shownEnds))
	return nil
}

// all gives the steps to show, in order.
func (e *endSteps[T]) all() []placed[T] {
	out := slices.Concat(e.kept, e.last)
	next := 0
	for i := range out {
		out[i].left, next = out[i].place-next, out[i].place+1
	}
	return out
}
