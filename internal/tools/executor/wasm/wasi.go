package wasm

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/remitrun/remit/internal/base/pause"
)

// notSupported is WASI's errno of that name.
const notSupported = 58

// offer makes the functions that modules may import: those of WASI preview 1, but
// that sockets and descriptors of any number are not supported. The engine would
// make room for every descriptor up to the highest that a module names.
func offer(ctx context.Context, r wazero.Runtime) (map[string]api.FunctionDefinition, error) {
	b := r.NewHostModuleBuilder(wasip1)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	for name, params := range map[string]int{"fd_renumber": 2, "sock_accept": 3, "sock_recv": 6, "sock_send": 5, "sock_shutdown": 2} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(refuse), ints(params), ints(1)).Export(name)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(exit), ints(1), nil).Export("proc_exit")
	code, err := b.Compile(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.InstantiateModule(ctx, code, wazero.NewModuleConfig().WithName(wasip1)); err != nil {
		return nil, err
	}
	return code.ExportedFunctions(), nil
}

func ints(n int) []api.ValueType {
	out := make([]api.ValueType, n)
	for i := range out {
		out[i] = api.ValueTypeI32
	}
	return out
}

func refuse(_ context.Context, _ api.Module, stack []uint64) { stack[0] = notSupported }

type callKey struct{}

// exit ends the module. Files that it left open are kept only if it ends without an error.
func exit(ctx context.Context, m api.Module, stack []uint64) {
	status := uint32(stack[0])
	if c, ok := ctx.Value(callKey{}).(*call); ok && status != 0 {
		c.files.abandon()
	}
	_ = m.CloseWithExitCode(ctx, status) // it tells of files, which say so themselves
	panic(sys.NewExitError(status))
}

// clock is a module's idea of time.
type clock struct {
	ctx  context.Context //nolint:containedctx // the engine's callbacks have none
	real bool
	from time.Time // of the real one, when the call began

	looks, slept int64 // of the other one; nanoseconds
}

// epoch is when every call begins whose module has no clock: 2000-01-01 UTC.
const epoch = 946684800

func (c *clock) wall() (sec int64, nsec int32) {
	if c.real {
		now := time.Now()
		return now.Unix(), int32(now.Nanosecond())
	}
	return epoch + c.slept/1e9, int32(c.slept % 1e9)
}

// mono never stands still, since programs divide by what passed.
func (c *clock) mono() int64 {
	if c.real {
		return int64(time.Since(c.from)) + 1 // some runtimes do not accept zero
	}
	c.looks++
	return c.slept + c.looks
}

// sleep waits, or lets the module's own time pass.
func (c *clock) sleep(ns int64) {
	if !c.real {
		const most = int64(100 * 365 * 24 * time.Hour)
		if ns > 0 && c.slept < most {
			c.slept += min(ns, most)
		}
		return
	}
	_ = pause.For(c.ctx, time.Duration(ns)) // a call that ended learns it at its next step
}

// chance returns the random numbers of a module.
func chance(real bool) io.Reader {
	if real {
		return rand.Reader
	}
	return &sequence{}
}

// sequence is the same in every call (SplitMix64).
type sequence struct{ state uint64 }

func (s *sequence) Read(b []byte) (int, error) {
	for i := 0; i < len(b); i += 8 {
		s.state += 0x9e3779b97f4a7c15
		z := s.state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		for j := i; j < min(i+8, len(b)); j++ {
			b[j] = byte(z)
			z >>= 8
		}
	}
	return len(b), nil
}
