package capability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Source is what the specifications of capabilities' own tools say they come
// from: they are compiled in.
const Source = "builtin"

// Object is the closed JSON Schema of an object: its properties as JSON without
// the braces around them, and which are required.
func Object(properties string, required ...string) json.RawMessage {
	need, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		need = []byte("[]")
	}
	var b bytes.Buffer
	text := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` + properties +
		`},"required":` + string(need) + `,"additionalProperties":false}`
	if json.Compact(&b, []byte(text)) != nil {
		return json.RawMessage(text) // a test sees that it is no JSON
	}
	return b.Bytes()
}

// New makes a tool whose arguments are read into an A. Its calls are refused when
// they are over, and need nothing from the world that a policy bounds, unless
// needs says what: it must be pure.
func New[A any](spec tool.Spec, run func(ctx context.Context, p permit.Permit, args A) (map[string]any, error),
	needs ...func(env tool.Env, args A) ([]tool.Action, error)) Tool {
	spec.Source = Source
	return &made[A]{spec: spec, run: run, needs: needs}
}

type made[A any] struct {
	spec  tool.Spec
	run   func(ctx context.Context, p permit.Permit, args A) (map[string]any, error)
	needs []func(env tool.Env, args A) ([]tool.Action, error)
}

// Spec describes the tool.
func (m *made[A]) Spec() *tool.Spec { return &m.spec }

// Actions lists what a call needs from the world.
func (m *made[A]) Actions(env tool.Env, args tool.Args) ([]tool.Action, error) {
	if len(m.needs) == 0 {
		return nil, nil
	}
	a, err := read[A](args)
	if err != nil {
		return nil, err
	}
	var out []tool.Action
	for _, f := range m.needs {
		more, err := f(env, a)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// Run runs a call.
func (m *made[A]) Run(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, Ended(ctx)
	}
	if !p.Live() {
		return tool.Result{}, fault.New(fault.HandleRefused, "%s: the call that this belongs to is over", m.spec.ID)
	}
	a, err := read[A](args)
	if err != nil {
		return tool.Result{}, err
	}
	out, err := m.run(ctx, p, a)
	return tool.Result{Output: out}, err
}

// Ended is the error of a call whose context ended.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.Wrap(fault.ToolTimeout, context.Cause(ctx), "the call's time is over")
	}
	return fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "the call was cancelled")
}

// read reads arguments, which the schema has admitted already, once more.
func read[A any](args tool.Args) (A, error) {
	var a A
	if args == nil {
		args = tool.Args{}
	}
	raw, err := canon.Marshal(map[string]any(args)) // 1.0 and 1e2 are whole numbers too
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(&a)
	}
	if err == nil {
		return a, nil
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return a, fault.New(fault.ArgsInvalid, "a %s does not fit here", wrong.Value).In(wrong.Field)
	}
	return a, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
}
