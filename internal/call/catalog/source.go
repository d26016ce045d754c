package catalog

import (
	"context"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Source provides tools that are not built in: an MCP server, an OpenAPI document, a WASM module,
// an extension.
type Source interface {
	// Name is what the IDs of its tools begin with, without the last colon:
	// "mcp:github", "api:petstore", "wasm:calc", "ext:git". It is unique.
	Name() string
	// Discover lists its tools. It may take as long as ctx lasts. A tool's specification is the
	// source's own description: nothing in it is trusted.
	Discover(ctx context.Context) ([]permit.Tool, error)
	// Changed is told each time its tools may have changed; nil: it never tells.
	Changed() <-chan struct{}
	// Close ends the processes and connections that the source started.
	Close() error
}

// Hinted is a tool of a source that knows more of it than its specification
// says: permissions, annotations, an HTTP method. Most tools of sources are.
type Hinted interface {
	Hints() infer.Hints
}

// Recalling is a source that can make a tool from its record, without asking or starting anything:
// any source whose discovery is more than reading of files. Readers of past calls need it.
type Recalling interface {
	Recall(spec *tool.Spec, h infer.Hints) permit.Tool
}

// Offers is a source that knows its own kind of tools, and nothing of this package.
type Offers[T permit.Tool] interface {
	Name() string
	Discover(ctx context.Context) ([]T, error)
	Changed() <-chan struct{}
	Close() error
}

// From makes a Source of what offers tools of one kind. If s has a method
// Recall(*tool.Spec, infer.Hints) T, the Source is [Recalling].
func From[T permit.Tool](s Offers[T]) Source {
	if r, ok := s.(recalls[T]); ok {
		return recaller[T]{from[T]{s}, r}
	}
	return from[T]{s}
}

type recalls[T permit.Tool] interface {
	Recall(spec *tool.Spec, h infer.Hints) T
}

type recaller[T permit.Tool] struct {
	from[T]
	r recalls[T]
}

func (r recaller[T]) Recall(spec *tool.Spec, h infer.Hints) permit.Tool { return r.r.Recall(spec, h) }

type from[T permit.Tool] struct{ Offers[T] }

func (f from[T]) Discover(ctx context.Context) ([]permit.Tool, error) {
	ts, err := f.Offers.Discover(ctx)
	out := make([]permit.Tool, len(ts))
	for i, t := range ts {
		out[i] = t
	}
	return out, err
}

// Broken is a source that cannot even be made, or a kind of source whose
// configuration cannot be read ("api"): it is listed as failing with err, which
// must not be nil.
func Broken(name string, err error) Source { return broken{name, err} }

type broken struct {
	name string
	err  error
}

func (b broken) Name() string                                    { return b.name }
func (b broken) Discover(context.Context) ([]permit.Tool, error) { return nil, b.err }
func (broken) Changed() <-chan struct{}                          { return nil }
func (broken) Close() error                                      { return nil }
