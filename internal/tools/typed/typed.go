// Package typed makes tools whose arguments are a Go struct. The arguments of a call are
// decoded once, before the decision, and the decoded values are what runs. Start at
// [Func] for a tool that needs no actions, and at [New] for one that
// reads files, reaches the network or starts commands.
package typed

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/memo"
	"github.com/remitrun/remit/internal/base/tool"
)

// builtIn is the source of tools that are compiled in.
const builtIn = "builtin"

// New makes a tool from its description and the function that prepares its calls.
// Prepare must be pure: it returns the actions that the call needs, and a Run function
// that uses the same arguments. Run is not called when the call is already over.
func New[A any](spec tool.Spec, prepare func(env tool.Env, args A) (permit.Prepared, error)) permit.Tool {
	if spec.Source == "" {
		spec.Source = builtIn
	}
	return &typed[A]{spec, prepare}
}

// Func makes a tool that needs no actions: it only computes, or uses what its author
// gave it.
func Func[A any](spec tool.Spec, run func(ctx context.Context, p permit.Permit, args A) (map[string]any, error)) permit.Tool {
	return New(spec, func(_ tool.Env, args A) (permit.Prepared, error) {
		return permit.Prepared{Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			out, err := run(ctx, p, args)
			return tool.Result{Output: out}, err
		}}, nil
	})
}

type typed[A any] struct {
	spec    tool.Spec
	prepare func(env tool.Env, args A) (permit.Prepared, error)
}

// Spec describes the tool.
func (t *typed[A]) Spec() *tool.Spec { return &t.spec }

// Prepare implements permit.Tool.
func (t *typed[A]) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	var a A
	if err := decode(args, &a); err != nil {
		return permit.Prepared{}, err
	}
	ready, err := t.prepare(env, a)
	if run := ready.Run; run != nil {
		ready.Run = func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			if err := usable(ctx, p, t.spec.ID); err != nil {
				return tool.Result{}, err
			}
			return run(ctx, p)
		}
	}
	return ready, err
}

// usable returns an error if the call is over: its context has ended, or its permit.
func usable(ctx context.Context, p permit.Permit, id tool.ID) error {
	if ctx.Err() != nil {
		return permit.Ended(ctx)
	}
	if !p.Live() {
		return fault.New(fault.HandleRefused, "%s: the call that this belongs to is over", id)
	}
	return nil
}

// objects are the schemas that Object returned, by their text. A process that stays makes the tools
// of the program again and again.
var objects = memo.New[json.RawMessage](maxObjects)

// maxObjects bounds the memory for objects, in bytes.
const maxObjects = 4 << 20

// Object returns the closed JSON Schema of an object: its properties as JSON without the braces
// around them, and the names of the required ones.
func Object(properties string, required ...string) json.RawMessage {
	need, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		need = []byte("[]")
	}
	text := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` + properties +
		`},"required":` + string(need) + `,"additionalProperties":false}`
	if known, ok := objects.Get(text); ok {
		return known
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return json.RawMessage(text) // not JSON: the contract suite fails
	}
	objects.Put(text, b.Bytes(), b.Len())
	return b.Bytes()
}
