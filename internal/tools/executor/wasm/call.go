package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const (
	// maxResponse bounds what a module writes to its standard output where the
	// policies' commands.max_output does not, in bytes.
	maxResponse = 1 << 20
	// maxNoise is how much of its standard error is kept, in bytes.
	maxNoise = 64 << 10
)

// call is one run of a module.
type call struct {
	h      *Host
	m      *Module
	f      *Function
	p      permit.Permit
	files  *view // nil: it has none
	memory *memory
	out    *output
	noise  *output
	clock  *clock
}

// output keeps the output of a module, up to a bound.
type output struct {
	buf  bytes.Buffer
	most int
	over bool
	full func() // called when there is more; nil: the rest is dropped
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	room := o.most - o.buf.Len()
	if len(b) <= room {
		return o.buf.Write(b)
	}
	o.over = true
	o.buf.Write(b[:max(room, 0)])
	if o.full == nil {
		return len(b), nil
	}
	o.full()
	return 0, errors.New("too much output")
}

// errFlood ends a call whose module writes too much.
var errFlood = errors.New("too much output")

// run carries a call out and gives the module's result.
func (h *Host) run(ctx context.Context, p permit.Permit, m *Module, f *Function, places places, args tool.Args) (map[string]any, error) {
	if err := begun(ctx, p); err != nil {
		return nil, err
	}
	leave, err := h.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := m.ready(ctx); err != nil {
		if cerr := begun(ctx, p); cerr != nil {
			return nil, cerr
		}
		return nil, err
	}
	request, err := request(f.Name, args)
	if err != nil {
		return nil, err
	}
	ctx, flood := context.WithCancelCause(ctx)
	defer flood(nil)
	stopped := context.AfterFunc(h.base, func() { flood(fault.New(fault.ToolCancelled, "Remit is shutting down")) })
	defer stopped()
	most := timeout(p, f)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fault.New(fault.ToolTimeout, "the module did not end within %s", most))
	defer cancel()
	limits := p.Limits()
	c := &call{h: h, m: m, f: f, p: p, memory: &memory{most: uint64(f.Memory)}, noise: &output{most: maxNoise},
		out: &output{most: maxResponse, full: func() { flood(errFlood) }}, clock: &clock{ctx: ctx, real: f.Wants.Clock, from: time.Now()}}
	if n := limits.Memory; n > 0 && uint64(n) < c.memory.most {
		c.memory.most = uint64(n)
	}
	if n := limits.OutputBytes; n > 0 {
		c.out.most = int(min(n, MaxMemory))
	}
	c.files = newView(ctx, p, places, int64(c.memory.most))
	err = c.start(ctx, request)
	if h.conf.Log != nil && c.noise.buf.Len() > 0 {
		h.conf.Log(p.Tool(), c.noise.buf.Bytes(), c.noise.over)
	}
	return c.answer(ctx, err)
}

// begun says why a call cannot begin.
func begun(ctx context.Context, p permit.Permit) error {
	if !p.Live() {
		return fault.New(fault.HandleRefused, "the call is over, or was never allowed")
	}
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Wrap(fault.ToolTimeout, context.Cause(ctx), "the call's time ran out")
	}
	return fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "the call was cancelled")
}

// timeout is how long a call may take.
func timeout(p permit.Permit, f *Function) time.Duration {
	if most := p.Limits().CommandTimeout; most > 0 {
		return min(f.Timeout, most)
	}
	return f.Timeout
}

// request is the JSON that the module reads from its standard input.
func request(function string, args tool.Args) ([]byte, error) {
	if args == nil {
		args = tool.Args{}
	}
	b, err := canon.Marshal(map[string]any{"function": function, "args": map[string]any(args)})
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON")
	}
	return append(b, '\n'), nil
}

// errMemory: the memory that a module begins with is more than the call may have.
var errMemory = errors.New("not enough memory")

// start runs the module to its end.
func (c *call) start(ctx context.Context, request []byte) (err error) {
	if c.m.least > c.memory.most {
		return errMemory
	}
	r, _, err := c.h.engine()
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.ToolFailed, "the module failed, and the engine with it: %s", quote(fmt.Sprint(p), 200))
		}
		if err != nil && !ended(err, 0) {
			c.files.abandon()
		}
	}()
	ctx = context.WithValue(ctx, callKey{}, c)
	inst, err := r.InstantiateModule(experimental.WithMemoryAllocator(ctx, c.memory), c.m.code, c.config(request))
	if err != nil {
		return err
	}
	_, err = inst.ExportedFunction(entry).Call(ctx)
	if err != nil && !ended(err, 0) {
		c.files.abandon()
	}
	_ = inst.Close(context.WithoutCancel(ctx)) // it tells of files, which say so themselves
	return err
}

// ended reports whether an error says that a module ended by itself with a status.
func ended(err error, status uint32) bool {
	var e *sys.ExitError
	return errors.As(err, &e) && e.ExitCode() == status
}

// config is the configuration of the instance.
func (c *call) config(request []byte) wazero.ModuleConfig {
	conf := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdin(bytes.NewReader(request)).WithStdout(c.out).WithStderr(c.noise).
		WithWalltime(c.clock.wall, 1000).WithNanotime(c.clock.mono, 1).WithNanosleep(c.clock.sleep).
		WithRandSource(chance(c.f.Wants.Random))
	limits := c.p.Limits()
	for _, name := range c.f.Wants.Env {
		v, ok := limits.Values[name]
		if !ok && slices.Contains(limits.Env, name) && c.h.conf.Getenv != nil {
			v, ok = c.h.conf.Getenv(name)
		}
		if ok && !strings.ContainsRune(v, 0) {
			conf = conf.WithEnv(name, v)
		}
	}
	if c.files != nil {
		if mounts, ok := wazero.NewFSConfig().(sysfs.FSConfig); ok {
			conf = conf.WithFSConfig(mounts.WithSysFSMount(c.files, "/"))
		}
	}
	return conf
}

// answer returns the result of a call.
func (c *call) answer(ctx context.Context, err error) (map[string]any, error) {
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return nil, c.stopped(cause)
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		return nil, coded
	}
	var exited *sys.ExitError
	status := uint32(0)
	switch {
	case c.out.over:
		return nil, c.stopped(errFlood)
	case errors.As(err, &exited):
		status = exited.ExitCode()
	case errors.Is(err, errMemory):
		return nil, fault.New(fault.LimitReached, "the module begins with %s of memory, and the call may have %s", showSize(int64(c.m.least)), showSize(int64(c.memory.most)))
	case err != nil:
		return nil, c.failed("the module crashed: %s", strings.TrimPrefix(firstLine(err.Error()), "wasm error: "))
	}
	if err := c.files.lost(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, c.stopped(cause)
		}
		return nil, err
	}
	out, err := c.response(status)
	if err == nil && status != 0 {
		return nil, c.failed("the module ended with status %d", status)
	}
	return out, err
}

// stopped says why a call was ended from outside.
func (c *call) stopped(cause error) error {
	var coded *fault.Error
	switch {
	case errors.Is(cause, errFlood):
		return fault.New(fault.LimitReached, "the module wrote more than %d bytes to its standard output", c.out.most).
			WithHint("commands.max_output in the policy says how much it may write")
	case errors.As(cause, &coded):
		return coded
	case errors.Is(cause, context.DeadlineExceeded):
		return fault.Wrap(fault.ToolTimeout, cause, "the call's time ran out")
	}
	return fault.Wrap(fault.ToolCancelled, cause, "the call was cancelled")
}

// failed adds the known causes of a failure: that the memory was used up, the refusals, and the end
// of the module's standard error.
func (c *call) failed(format string, args ...any) *fault.Error {
	e := fault.New(fault.ToolFailed, format, args...)
	if c.memory.full {
		e.Msg += fmt.Sprintf("; it had used up its memory of %s", showSize(int64(c.memory.most)))
	}
	if list, more := c.p.Refused(); len(list) > 0 {
		e.Msg += fmt.Sprintf("; it was refused %s, because %s", list[0].Action, list[0].Reason)
		if more += len(list) - 1; more > 0 {
			e.Msg += fmt.Sprintf(" (and %d more)", more)
		}
	}
	if said := lastLine(c.noise.buf.Bytes()); said != "" {
		e.Msg += "; its standard error ends with " + quote(said, 300)
	}
	return e
}

// lastLine is the last line with anything in it.
func lastLine(b []byte) string {
	b = bytes.TrimRight(b, " \t\r\n")
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// response reads the module's standard output.
func (c *call) response(status uint32) (map[string]any, error) {
	text := bytes.TrimSpace(c.out.buf.Bytes())
	if len(text) == 0 {
		if status != 0 {
			return nil, nil //nolint:nilnil // the status says enough
		}
		return nil, c.failed("the module gave no answer").WithHint("%s", `a module writes {"result": {…}} or {"error": "…"} to its standard output`)
	}
	v, err := canon.Decode(text)
	var se *canon.SyntaxError
	if errors.As(err, &se) {
		if status != 0 {
			return nil, nil //nolint:nilnil // the status says enough
		}
		return nil, fault.New(fault.OutputInvalid, "the module's answer is not JSON: %s at byte %d", se.Msg, se.Offset+1)
	}
	object, _ := v.(map[string]any)
	result, isResult := object["result"]
	said, isError := object["error"]
	if len(object) != 1 || !isResult && !isError {
		return nil, fault.New(fault.OutputInvalid, "the module's answer must be an object with either result or error")
	}
	if isError {
		text, ok := said.(string)
		if !ok {
			return nil, fault.New(fault.OutputInvalid, "the module's error must be a string")
		}
		return nil, fault.New(fault.ToolFailed, "the module says: %s", quote(text, 1000))
	}
	out, ok := result.(map[string]any)
	if !ok {
		return nil, fault.New(fault.OutputInvalid, "the module's result must be an object")
	}
	return out, nil
}
