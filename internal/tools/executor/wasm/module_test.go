package wasm_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
)

func TestModulesThatAreRefused(t *testing.T) {
	fine := says(1, `{"result":{}}`)
	with := func(change func(a *asm)) []byte {
		a := fine
		change(&a)
		return a.bytes()
	}
	w := newWorld(t)
	for name, tc := range map[string]struct {
		code []byte
		want string
	}{
		"nothing":          {nil, "it is not WebAssembly"},
		"text":             {[]byte("#!/bin/sh\necho no\n"), "it is not WebAssembly"},
		"a component":      {[]byte("\x00asm\x0d\x00\x01\x00"), "it is a component"},
		"cut off":          {fine.bytes()[:60], "cut off"},
		"damaged code":     {with(func(a *asm) { a.body = []byte{0xff} }), "cannot be compiled"},
		"a wrong type":     {with(func(a *asm) { a.body = []byte{0x42, 0, 0x45} }), "cannot be compiled"},
		"a foreign import": {with(func(a *asm) { a.foreign = "open_socket" }), `imports the function "open_socket" of "env"`},
		"a function that WASI does not have": {with(func(a *asm) { a.imports = append(a.imports, "sock_open:1") }),
			`imports the function "sock_open" of "wasi_snapshot_preview1"`},
		"a function of WASI with other parameters": {with(func(a *asm) { a.imports = append(a.imports, "fd_close:1") }), `"fd_close" with a different signature`},
		"a library":           {with(func(a *asm) { a.start = "_initialize" }), "is a library"},
		"no entry":            {with(func(a *asm) { a.start = "main" }), "has no function _start"},
		"a huge table":        {with(func(a *asm) { a.table = 100_000_000 }), "tables of 100000000 entries"},
		"a huge memory":       {with(func(a *asm) { a.pages = 65536 }), "cannot be compiled"},
		"a table that grows":  {with(func(a *asm) { a.table, a.body = 1, []byte{0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a} }), "cannot be compiled"},
		"a shared memory":     {with(func(a *asm) { a.raw = section(5, vec([]byte{3, 1, 1})) }), "not supported"},
		"two memories":        {with(func(a *asm) { a.raw = section(5, vec([]byte{0, 1})) }), "has 2 memories"},
		"too many variables":  {with(func(a *asm) { a.locals = 50_001 }), "more than 50000 variables"},
		"more than any count": {with(func(a *asm) { a.locals = 1<<32 - 1 }), "more than 50000 variables"},
	} {
		t.Run(name, func(t *testing.T) {
			tl := w.tool(t, tc.code, manifest(""))
			_, _, err := w.call(t, tl, open, nil)
			wants(t, err, fault.Usage, tc.want)
			wants(t, w.host.Module(sha256.Sum256(tc.code), nil).Check(t.Context()), fault.Usage, tc.want)
		})
	}
}

func TestAModuleOfAnotherDigestIsRefused(t *testing.T) {
	w := newWorld(t)
	code := says(1, `{"result":{}}`).bytes()
	m := w.host.Module(sha256.Sum256([]byte("another")), func() ([]byte, error) { return code, nil })
	wants(t, m.Check(t.Context()), fault.StoreCorrupt, "has changed since it was added")
}

func TestAModuleThatCannotBeLoadedIsTriedAgain(t *testing.T) {
	w := newWorld(t).own(t)
	code := says(1, `{"result":{}}`).bytes()
	times := 0
	m := w.host.Module(sha256.Sum256(code), func() ([]byte, error) {
		if times++; times == 1 {
			return nil, fault.New(fault.StoreFailed, "the disk is away")
		}
		return code, nil
	})
	wants(t, m.Check(t.Context()), fault.StoreFailed, "away")
	must(t, m.Check(t.Context()), m.Check(t.Context()))
	if times != 2 {
		t.Errorf("loaded %d times", times)
	}
}

// TestAnswers has modules that write what they should not.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		code asm
		more string // of the manifest
		want string // of the error; "" for none
		kind fault.Code
	}{
		"a result":               {code: says(1, `{"result":{"n":1}}`)},
		"nothing":                {says(1, ""), "", "gave no answer", fault.ToolFailed},
		"no JSON":                {says(1, "hello"), "", "is not JSON", fault.OutputInvalid},
		"two answers":            {says(1, `{"result":{}}{"result":{}}`), "", "is not JSON", fault.OutputInvalid},
		"a key twice":            {says(1, `{"result":{"a":1,"a":2}}`), "", "is not JSON", fault.OutputInvalid},
		"nested without end":     {says(1, strings.Repeat("[", 50_000)), "", "is not JSON", fault.OutputInvalid},
		"neither nor":            {says(1, `{"output":{}}`), "", "either result or error", fault.OutputInvalid},
		"both":                   {says(1, `{"result":{},"error":"x"}`), "", "either result or error", fault.OutputInvalid},
		"a list":                 {says(1, `{"result":[1]}`), "", "must be an object", fault.OutputInvalid},
		"an error":               {says(1, "{\"error\":\"no \\u001b[31mluck\"}"), "", `the module says: "no \x1b[31mluck"`, fault.ToolFailed},
		"an error of a number":   {says(1, `{"error":7}`), "", "must be a string", fault.OutputInvalid},
		"only on standard error": {says(2, "first\nlast words"), "", `standard error ends with "last words"`, fault.ToolFailed},
		"another schema":         {says(1, `{"result":{"n":"one"}}`), "  output: {type: object, properties: {n: {type: integer}}}\n", "does not fit the schema", fault.OutputInvalid},
		"its schema":             {code: says(1, `{"result":{"n":12345678901234567890}}`), more: "  output: {type: object, properties: {n: {type: integer}}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := w.call(t, w.tool(t, tc.code.bytes(), manifest(tc.more)), open, nil)
			if tc.want != "" {
				wants(t, err, tc.kind, tc.want)
			} else if err != nil || len(out) != 1 {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
}

// TestModulesThatMisbehave ends them, and the host with other modules goes on.
func TestModulesThatMisbehave(t *testing.T) {
	w := newWorld(t)
	loop := []byte{0x03, 0x40, 0x0c, 0, 0x0b}
	flood := says(1, strings.Repeat("x", 4000))
	flood.body = append(append([]byte{0x03, 0x40}, flood.body...), 0x0c, 0, 0x0b)
	noisy := says(2, strings.Repeat("y", 4000))
	noisy.body = append(append([]byte{0x03, 0x40}, noisy.body...), 0x0c, 0, 0x0b)
	renumber := append(append(sint(0), sint(1<<31-1-1)...), 0x10, 0, 0x45, 0x04, 0x40, 0x00, 0x0b) // traps where it is taken
	for name, tc := range map[string]struct {
		code asm
		more string
		want string
		kind fault.Code
	}{
		"a loop":                {asm{body: loop}, "  timeout: 50ms\n", "did not end within 50ms", fault.ToolTimeout},
		"a trap":                {asm{body: []byte{0}}, "", `the module crashed: "`, fault.ToolFailed},
		"a division by zero":    {asm{body: []byte{0x41, 1, 0x41, 0, 0x6d, 0x1a}}, "", "integer divide by zero", fault.ToolFailed},
		"memory out of bounds":  {asm{body: []byte{0x41, 0x7f, 0x28, 2, 0, 0x1a}}, "", "out of bounds", fault.ToolFailed},
		"recursion without end": {asm{body: []byte{0x10, 0}}, "", "stack overflow", fault.ToolFailed},
		"a memory bomb": {asm{body: []byte{0x03, 0x40, 0x41, 16, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, 0}}, "  memory: 4MiB\n",
			"used up its memory of 4MiB", fault.ToolFailed},
		"a memory that is too large to begin with": {asm{pages: 100}, "  memory: 4MiB\n", "begins with 6400KiB of memory", fault.LimitReached},
		"output without end":                       {flood, "", "more than 1048576 bytes", fault.LimitReached},
		"noise without end":                        {noisy, "  timeout: 300ms\n", "did not end", fault.ToolTimeout},
		"a status":                                 {asm{imports: []string{"proc_exit:2"}, body: []byte{0x41, 3, 0x10, 0}}, "", "ended with status 3", fault.ToolFailed},
		"a descriptor of any number":               {asm{imports: []string{"fd_renumber:3"}, body: renumber}, "", "gave no answer", fault.ToolFailed},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, _, err := w.call(t, w.tool(t, tc.code.bytes(), manifest(tc.more)), open, nil)
			wants(t, err, tc.kind, tc.want)
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	if out, _, err := w.call(t, w.tool(t, says(1, `{"result":{}}`).bytes(), manifest("")), open, nil); err != nil || out == nil {
		t.Errorf("a call afterwards: %v, %v", out, err)
	}
	if n := len(w.noise()); n < 4000 || n > 64<<10 {
		t.Errorf("%d bytes of noise were logged", n)
	}
}

// TestPoliciesBoundModules: what they say of commands holds for modules, too.
func TestPoliciesBoundModules(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		code asm
		line string
		want string
		kind fault.Code
	}{
		"time":   {asm{body: []byte{0x03, 0x40, 0x0c, 0, 0x0b}}, "timeout: 1s", "did not end within 1s", fault.ToolTimeout},
		"memory": {asm{pages: 20}, "memory: 1MiB", "the call may have 1MiB", fault.LimitReached},
		"output": {says(1, `{"result":{"long":"`+strings.Repeat("x", 2000)+`"}}`), "max_output: 1KiB", "more than 1024 bytes", fault.LimitReached},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.call(t, w.tool(t, tc.code.bytes(), manifest("")), "version: 1\nname: t\ncommands: {"+tc.line+"}\n", nil)
			wants(t, err, tc.kind, tc.want)
		})
	}
}

func TestACallThatIsOver(t *testing.T) {
	w := newWorld(t).own(t)
	tl := w.tool(t, says(1, `{"result":{}}`).bytes(), manifest(""))
	p := w.permit(t, open)
	p.End()
	_, err := permittest.Run(t.Context(), tl, p, nil)
	wants(t, err, fault.HandleRefused, "over")
	must(t, w.host.Close())
	_, _, err = w.call(t, tl, open, nil)
	wants(t, err, fault.ToolCancelled, "shutting down")
}

// TestClosingEndsCalls: nobody waits for a module that would never end.
func TestClosingEndsCalls(t *testing.T) {
	w := newWorld(t).own(t)
	tl := w.tool(t, asm{body: []byte{0x03, 0x40, 0x0c, 0, 0x0b}}.bytes(), manifest("  timeout: 5m\n"))
	must(t, w.host.Module(tl.Digest(), nil).Check(t.Context()))
	done := make(chan error, 1)
	p := w.permit(t, open)
	go func() {
		_, err := permittest.Run(t.Context(), tl, p, tool.Args{})
		done <- err
	}()
	must(t, w.host.Close())
	wants(t, <-done, fault.ToolCancelled, "shutting down")
}

// FuzzModule: any bytes are refused with a reason, or run within their limits, and
// do no harm to the host.
func FuzzModule(f *testing.F) {
	f.Add(says(1, `{"result":{}}`).bytes())
	f.Add(small())
	f.Add(asm{body: []byte{0x10, 0}}.bytes())
	f.Add(asm{body: []byte{0x03, 0x40, 0x41, 16, 0x40, 0, 0x1a, 0x0c, 0, 0x0b}, table: 7}.bytes())
	host := newHost()
	f.Cleanup(func() { must(f, host.Close()) })
	man, err := wasm.ParseManifest("m", []byte(manifest("  memory: 1MiB\n  timeout: 30ms\n")))
	must(f, err)
	p := permittest.PermitFor(f, f.TempDir(), open)
	f.Fuzz(func(t *testing.T, code []byte) {
		m := host.Module(sha256.Sum256(code), func() ([]byte, error) { return code, nil })
		if err := m.Check(t.Context()); err != nil {
			if fault.CodeOf(err) != fault.Usage || fault.Message(err) == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		_, err := permittest.Run(t.Context(), wasm.Tools("wasm:m", "wasm", man, m)[0], p, nil)
		if code := fault.CodeOf(err); err != nil && code != fault.ToolFailed && code != fault.ToolTimeout && code != fault.OutputInvalid && code != fault.LimitReached {
			t.Fatalf("%v", err)
		}
	})
}
