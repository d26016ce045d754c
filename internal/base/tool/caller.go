package tool

import (
	"context"
	"encoding/json"
)

// Caller is whoever waits for a call, as far as it can be asked and told something
// while the call runs. All of it is said in the words of the protocol MCP, as that
// is where tools ask. The zero Caller can be asked nothing.
type Caller struct {
	// Can are the client's capabilities: an object with "elicitation", "sampling"
	// and "roots", each there if it can be asked for that.
	Can json.RawMessage
	// Ask puts questions, by names of the tool's choice, and gives the answers by
	// the same names. Nil: nothing can be asked.
	Ask func(ctx context.Context, questions map[string]Question) (map[string]json.RawMessage, error)
	// Level is from which level on log messages are wanted; "": none are.
	Level string
	// Log is told what the tool logs. What it says comes from the tool and is
	// untrusted. Nil: nobody is told.
	Log func(level, logger string, data json.RawMessage)
}

// Question is one thing that a tool wants of its caller.
type Question struct {
	Method string          // "elicitation/create", "sampling/createMessage" or "roots/list"
	Params json.RawMessage // an object
}

type callerKey struct{}

// WithCaller gives a context by which a tool can reach its caller. Nothing is
// decided by it, and what the caller answers is input of the tool alone.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is the caller of the call that runs; the zero Caller if it cannot be
// reached.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
