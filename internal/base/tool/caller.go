package tool

import (
	"context"
	"encoding/json"
)

// Caller lets a tool send messages and requests to its caller while the call runs, in
// the terms of MCP. The zero Caller refuses all requests.
type Caller struct {
	// Can are the client's capabilities: an object with "elicitation", "sampling"
	// and "roots", each there if it can be asked for that.
	Can json.RawMessage
	// Ask puts questions, by names of the tool's choice, and gives the answers by
	// the same names. Nil: nothing can be asked.
	Ask func(ctx context.Context, questions map[string]Question) (map[string]json.RawMessage, error)
	// Level is from which level on log messages are wanted; "": none are.
	Level string
	// Log receives the tool's log messages, which are untrusted. Nil: they are
	// dropped.
	Log func(level, logger string, data json.RawMessage)
}

// Question is one thing that a tool wants of its caller.
type Question struct {
	Method string          // "elicitation/create", "sampling/createMessage" or "roots/list"
	Params json.RawMessage // an object
}

type callerKey struct{}

// WithCaller returns a context by which a tool can reach its caller. No decision
// depends on it, and the caller's answers are input of the tool alone.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is the caller of the call that runs; the zero Caller if it cannot be
// reached.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
