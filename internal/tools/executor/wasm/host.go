// Package wasm runs WebAssembly modules (WASI preview 1) under a permit. A module reaches only its
// imports: files through handles of the permit, variables that the policies pass, and a clock and
// random numbers if its manifest wants them. Start at [ParseManifest], [New] and [Tools].
//
// A module is compiled once in a process; each call has a new instance with its own memory.
// Compiled code is never written to the disk, because it could not be trusted when it is
// read back.
package wasm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Config has the settings of a host. The zero Config has no variables and no logs.
type Config struct {
	// Getenv looks a variable up; nil: there are none.
	Getenv func(name string) (string, bool)
	// Log is told what a call wrote to its standard error, of which cut says that it
	// was more; nil: nobody is told. The text is untrusted.
	Log func(id tool.ID, text []byte, cut bool)
}

// Host runs modules. Nothing is started before the first is called. It is safe for
// concurrent use, and must be closed.
type Host struct {
	conf Config

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // calls and compilations under way
	base    context.Context
	stop    context.CancelFunc
	runtime wazero.Runtime
	offers  map[string]api.FunctionDefinition // the functions that modules may import
	modules map[tool.Digest]*Module
}

// New makes a host.
func New(c Config) *Host {
	h := &Host{conf: c, modules: map[tool.Digest]*Module{}}
	h.base, h.stop = context.WithCancel(context.Background())
	return h
}

// Close stops running modules and frees compiled ones.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.calls.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runtime == nil {
		return nil
	}
	err := h.runtime.Close(context.Background())
	h.runtime = nil
	return err
}

// enter counts a call or compilation, so that Close waits for it.
func (h *Host) enter() (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fault.New(fault.ToolCancelled, "Remit is shutting down: modules cannot start")
	}
	h.calls.Add(1)
	return h.calls.Done, nil
}

// features are those of WebAssembly 2.0 without reference types: these would let a
// module grow tables, which are the host's memory, without any limit.
var features = api.CoreFeaturesV2.SetEnabled(api.CoreFeatureReferenceTypes, false)

// engine returns the engine that runs modules; it is made on first use.
func (h *Host) engine() (wazero.Runtime, map[string]api.FunctionDefinition, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runtime != nil {
		return h.runtime, h.offers, nil
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features).WithCloseOnContextDone(true).
		WithMemoryLimitPages(MaxMemory/wasmPage).WithDebugInfoEnabled(false))
	offers, err := offer(ctx, r)
	if err != nil {
		return nil, nil, errors.Join(fault.Wrap(fault.Internal, err, "modules cannot be run"), r.Close(ctx))
	}
	h.runtime, h.offers = r, offers
	return r, offers, nil
}

// Module is the code of a module.
type Module struct {
	host   *Host
	digest tool.Digest
	load   func() ([]byte, error)

	mu    sync.Mutex
	begun chan struct{} // closed when the work that began is over; nil: nothing began
	code  wazero.CompiledModule
	least uint64 // bytes of memory that it begins with
	err   error
}

// Module returns the module whose bytes have a digest. load gives the bytes when they
// are first needed; others than the digest's are refused.
func (h *Host) Module(digest tool.Digest, load func() ([]byte, error)) *Module {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.modules[digest]
	if m == nil {
		m = &Module{host: h, digest: digest, load: load}
		h.modules[digest] = m
	}
	return m
}

// Digest is the SHA-256 of the module's bytes.
func (m *Module) Digest() tool.Digest { return m.digest }

// Check compiles the module where it is not yet, and says what keeps it from being
// run.
func (m *Module) Check(ctx context.Context) error {
	leave, err := m.host.enter()
	if err != nil {
		return err
	}
	defer leave()
	return m.ready(ctx)
}

// compileTime bounds a compilation: a module can be made to take long.
const compileTime = 2 * time.Minute

// ready waits until the module is compiled. One that could not be loaded is tried
// again by the next call; an invalid one stays invalid.
func (m *Module) ready(ctx context.Context) error {
	m.mu.Lock()
	if m.begun == nil {
		leave, err := m.host.enter()
		if err != nil {
			m.mu.Unlock()
			return err
		}
		m.begun = make(chan struct{})
		go func(begun chan struct{}) {
			defer leave()
			defer close(begun)
			m.compile(begun)
		}(m.begun)
	}
	begun := m.begun
	m.mu.Unlock()
	select {
	case <-begun:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// compile loads and compiles for all who wait.
func (m *Module) compile(begun chan struct{}) {
	ctx, cancel := context.WithTimeout(m.host.base, compileTime)
	defer cancel()
	b, err := m.load()
	again := err != nil
	var code wazero.CompiledModule
	var s *shape
	if err == nil && sha256.Sum256(b) != m.digest {
		err = fault.New(fault.StoreCorrupt, "the module has changed since it was added").WithHint("add it again with --replace")
	}
	if err == nil {
		code, s, err = m.host.compile(ctx, b)
		again = ctx.Err() != nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.code, m.err = code, err
	if s != nil {
		m.least = s.pages * wasmPage
	}
	if again && m.begun == begun {
		m.begun = nil
	}
}

// compile makes code of a module's bytes.
func (h *Host) compile(ctx context.Context, b []byte) (code wazero.CompiledModule, s *shape, err error) {
	r, offers, err := h.engine()
	if err != nil {
		return nil, nil, err
	}
	if s, err = measure(b); err != nil {
		return nil, nil, fault.New(fault.Usage, "the module cannot be used: %v", err)
	}
	if err := s.check(func(name string) bool { return offers[name] != nil }); err != nil {
		return nil, nil, err
	}
	defer func() { // an engine that meets an unexpected state must not end Remit
		if p := recover(); p != nil {
			code, err = nil, fault.New(fault.Usage, "the module cannot be compiled: the engine failed: %.200v", p)
		}
	}()
	// By one worker, which is this goroutine: a panic of another could not be caught.
	code, err = r.CompileModule(experimental.WithCompilationWorkers(ctx, 1), b)
	if ctx.Err() != nil {
		if code != nil {
			_ = code.Close(context.Background()) // it was never used
		}
		if h.base.Err() != nil {
			return nil, nil, fault.New(fault.ToolCancelled, "Remit is shutting down")
		}
		return nil, nil, fault.New(fault.ToolTimeout, "compiling the module takes more than %s", compileTime)
	}
	if err != nil {
		return nil, nil, fault.New(fault.Usage, "the module cannot be compiled: %s", firstLine(err.Error()))
	}
	if err := fits(code, offers); err != nil {
		_ = code.Close(context.Background()) // it was never used
		return nil, nil, err
	}
	return code, s, nil
}

// fits checks that a module imports functions as they are, and is a command.
func fits(code wazero.CompiledModule, offers map[string]api.FunctionDefinition) error {
	for _, f := range code.ImportedFunctions() {
		_, name, _ := f.Import()
		has := offers[name]
		if has == nil || !slices.Equal(f.ParamTypes(), has.ParamTypes()) || !slices.Equal(f.ResultTypes(), has.ResultTypes()) {
			return fault.New(fault.Usage, "the module imports the function %.80q with a different signature", name)
		}
	}
	exports := code.ExportedFunctions()
	if start := exports[entry]; start != nil && len(start.ParamTypes()) == 0 && len(start.ResultTypes()) == 0 {
		return nil
	}
	if exports["_initialize"] != nil {
		return fault.New(fault.Usage, "the module is a library: it has no function %s", entry).
			WithHint("build it as a command; for Go without -buildmode=c-shared")
	}
	return fault.New(fault.Usage, "the module has no function %s, where a command begins", entry)
}

// entry is where a command begins (WASI preview 1).
const entry = "_start"

// firstLine is the beginning of a text that the engine wrote, with parts of the
// module's in it.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return quote(s, 300)
}

// quote shortens and quotes text that a module wrote.
func quote(s string, most int) string {
	return fmt.Sprintf("%+q", clip.Text(strings.ToValidUTF8(s, "?"), most))
}
