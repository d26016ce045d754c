package plan

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Values holds the values that expressions can refer to. Steps are named by their index, from 1;
// only those among [Step.Deps] are asked for, and all of them have ended.
type Values interface {
	Input(name string) any // null for one without a value
	Ended(step int) Ended
	// Output is asked for only where an expression uses it; nil means none.
	Output(step int) (map[string]any, error)
}

// Ended tells how a step ended.
type Ended struct {
	Status  tool.Status
	Code    fault.Code // 0 for none
	Message string
}

// State is what success() and failure() say.
type State struct {
	Success bool // every step it depends on completed, and the plan was not stopped
	Failure bool // the plan was stopped, or a step it depends on, directly or not, went wrong
	Stopped bool // the plan was stopped
}

// Resolve computes the step's arguments. A value that is not there is fault.PlanReference. The
// result shares parts with the plan and the values, so it must not be changed.
func (s *Step) Resolve(v Values) (tool.Args, error) {
	e := evaluator{step: s, values: v}
	out := make(tool.Args, len(s.args.keys))
	if m, ok := s.args.lit.(map[string]any); ok {
		for k, val := range m {
			out[k] = val
		}
		return out, nil
	}
	for i, k := range s.args.keys {
		val, err := e.template(s.args.kids[i])
		if err != nil {
			return nil, err
		}
		out[k] = val
	}
	return out, nil
}

// Condition reports whether the step is to run.
func (s *Step) Condition(v Values, st State) (bool, error) {
	if s.Commitment != nil {
		return !st.Stopped, nil // also after steps that were skipped, or failed with on_error: continue
	}
	if s.cond == nil {
		return st.Success, nil
	}
	if !s.cond.callsState() && !st.Success {
		return false, nil
	}
	e := evaluator{step: s, values: v, state: st}
	val, err := e.expr(s.cond)
	return truth(val), err
}

func (e *expr) callsState() bool {
	switch e.op {
	case "success", "failure", "always":
		return true
	}
	for _, k := range e.kids {
		if k.callsState() {
			return true
		}
	}
	return false
}

type evaluator struct {
	step   *Step
	values Values
	state  State
}

func (e *evaluator) fail(r *ref, hint, format string, args ...any) error {
	err := fault.New(fault.PlanReference, format, args...)
	err.Pos = fault.Pos{File: e.step.Pos.File, Line: r.at.Line, Column: r.at.Column}
	err.Field, err.Hint, err.Msg = r.field, hint, document.Visible(err.Msg)
	return err
}

func (e *evaluator) template(t *template) (any, error) {
	switch {
	case t.ref != nil:
		return e.ref(t.ref)
	case t.parts != nil:
		return e.text(t.parts)
	case t.kids == nil:
		return t.lit, nil
	case t.list:
		out := make([]any, len(t.kids))
		for i, k := range t.kids {
			v, err := e.template(k)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	}
	out := make(map[string]any, len(t.kids))
	for i, k := range t.kids {
		v, err := e.template(k)
		if err != nil {
			return nil, err
		}
		out[t.keys[i]] = v
	}
	return out, nil
}

func (e *evaluator) text(parts []part) (any, error) {
	var b strings.Builder
	for _, p := range parts {
		text := p.text
		if p.ref != nil {
			v, err := e.ref(p.ref)
			if err != nil {
				return nil, err
			}
			if text, err = insertion(v); err != nil {
				return nil, e.fail(p.ref, "", "%s cannot be written as text: %v", p.ref.text, err)
			}
		}
		if b.Len()+len(text) > MaxText {
			r := p.ref
			if r == nil {
				r = parts[0].ref
			}
			if r == nil {
				r = parts[1].ref
			}
			return nil, e.fail(r, "pass the values on as arguments of their own", "the text grows over %d bytes", MaxText)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// insertion is the text of a value inside a longer string: a string as it is,
// a number as it was written, everything else as compact JSON.
func insertion(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return string(v), nil
	}
	b, err := canon.Marshal(v)
	return string(b), err
}

func (e *evaluator) ref(r *ref) (any, error) {
	if r.root == "inputs" {
		return e.walk(r, e.values.Input(r.name))
	}
	end := e.values.Ended(r.step)
	switch r.part {
	case "status":
		return e.walk(r, end.Status.String())
	case "error":
		if end.Status == tool.Completed || end.Status == tool.Skipped {
			return e.walk(r, nil)
		}
		return e.walk(r, map[string]any{"code": end.Code.Error(), "message": end.Message})
	}
	out, err := e.values.Output(r.step)
	if err != nil {
		return nil, err
	}
	if out == nil {
		return nil, e.fail(r, "test steps."+r.name+".status in if", "step %q has no output: it ended as %s", r.name, end.Status)
	}
	return e.walk(r, out)
}

// walk follows a reference's path into a value.
func (e *evaluator) walk(r *ref, v any) (any, error) {
	for _, seg := range r.path {
		var next any
		found := false
		if seg.index < 0 {
			var m map[string]any
			if m, found = v.(map[string]any); found {
				next, found = m[seg.key]
			}
		} else if l, ok := v.([]any); ok && seg.index < len(l) {
			next, found = l[seg.index], true
		}
		if !found {
			what := strconv.Quote(seg.key)
			if seg.index >= 0 {
				what = "[" + strconv.Itoa(seg.index) + "]"
			}
			return nil, e.fail(r, "", "%s: there is no %s in %s", r.text, what, describe(v))
		}
		v = next
	}
	return v, nil
}

// describe tells of a value what helps to correct a reference: its kind and,
// of an object, some of its fields. It quotes untrusted text.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list of " + strconv.Itoa(len(v))
	case map[string]any:
		keys := sortedKeys(v)
		more := ""
		if len(keys) > 8 {
			keys, more = keys[:8], ", …"
		}
		for i, k := range keys {
			keys[i] = strconv.Quote(excerpt(k))
		}
		return "an object with " + strings.Join(keys, ", ") + more
	}
	return "a number"
}

func (e *evaluator) expr(x *expr) (any, error) {
	switch x.op {
	case "lit":
		return x.val, nil
	case "ref":
		return e.ref(x.ref)
	case "success":
		return e.state.Success, nil
	case "failure":
		return e.state.Failure, nil
	case "always":
		return true, nil
	}
	a, err := e.expr(x.kids[0])
	if err != nil {
		return nil, err
	}
	switch x.op {
	case "!":
		return !truth(a), nil
	case "&&", "||":
		if truth(a) == (x.op == "||") {
			return truth(a), nil
		}
		b, err := e.expr(x.kids[1])
		return truth(b), err
	}
	b, err := e.expr(x.kids[1])
	if err != nil {
		return nil, err
	}
	return e.compare(x, a, b)
}

func (e *evaluator) compare(x *expr, a, b any) (any, error) {
	switch x.op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	}
	c, ok := order(a, b)
	if !ok {
		err := fault.New(fault.PlanReference, "%s compares %s with %s", x.op, describe(a), describe(b))
		err.Pos, err.Field = e.step.Pos, e.step.field()+".if"
		err.Hint = "only two numbers or two strings have an order"
		return nil, err
	}
	switch x.op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}
