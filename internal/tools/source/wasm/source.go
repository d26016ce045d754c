// Package wasm is the catalog source for the functions of a WebAssembly module. Package
// executor/wasm runs them. Start at [New].
package wasm

import (
	"context"
	"sync"

	executor "github.com/remitrun/remit/internal/tools/executor/wasm"
)

// Config has the settings of a source.
type Config struct {
	Name     string                             // of the module; its tools are wasm:NAME:...
	Manifest func() (*executor.Manifest, error) // the module's manifest, when its tools are first needed
	Module   *executor.Module
}

// Source is the tools of one module. It is safe for concurrent use.
type Source struct {
	conf Config

	mu    sync.Mutex
	tools []*executor.Tool
}

// New makes a source. Nothing is read before Discover, and nothing compiled before
// a tool is called.
func New(c Config) *Source { return &Source{conf: c} }

// Name is the prefix of the IDs of the source's tools, without the last colon.
func (s *Source) Name() string { return "wasm:" + s.conf.Name }

// Discover returns the module's functions as tools.
func (s *Source) Discover(context.Context) ([]*executor.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools != nil {
		return s.tools, nil
	}
	m, err := s.conf.Manifest()
	if err != nil {
		return nil, err
	}
	s.tools = executor.Tools(s.Name(), "wasm", m, s.conf.Module)
	return s.tools, nil
}

// Changed returns nil: a module changes only when it is added anew.
func (s *Source) Changed() <-chan struct{} { return nil }

// Close does nothing: the host of the modules is not the source's own.
func (s *Source) Close() error { return nil }
