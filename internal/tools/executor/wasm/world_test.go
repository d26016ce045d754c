package wasm_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
)

// open allows a module all that it can want.
const open = "version: 1\nname: open\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"**\"]}\ncommands: {env: [GREETING]}\n"

// world is a workspace beside a folder with a secret, and a host.
type world struct {
	ws, out string
	host    *wasm.Host
	prefix  string // of its tools' IDs
}

const canary = "CANARY-51d0"

func newWorld(t testing.TB) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &world{ws: filepath.Join(base, "ws"), out: filepath.Join(base, "out")}
	must(t, os.MkdirAll(w.ws, 0o755), os.MkdirAll(w.out, 0o755), os.WriteFile(filepath.Join(w.out, "secret"), []byte(canary), 0o644))
	w.host, w.prefix = shared.host, "wasm:"+filepath.Base(filepath.Dir(base))
	return w
}

// own gives the world a host that no other has, for tests that close it or make it
// forget what was compiled.
func (w *world) own(t testing.TB) *world {
	w.host = newHost()
	t.Cleanup(func() { must(t, w.host.Close()) })
	return w
}

// shared is the host of most tests: what it compiled once is there for all.
var shared = struct {
	host  *wasm.Host
	mu    sync.Mutex
	noise map[string]string // of tools, by ID
}{noise: map[string]string{}}

func TestMain(m *testing.M) {
	shared.host = newHost()
	status := m.Run()
	if err := errors.Join(shared.host.Close(), goleak.Find()); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func newHost() *wasm.Host {
	env := map[string]string{"GREETING": "hello", "HIDDEN": canary}
	return wasm.New(wasm.Config{
		Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Log: func(id tool.ID, text []byte, _ bool) {
			shared.mu.Lock()
			defer shared.mu.Unlock()
			shared.noise[string(id)] += string(text)
		},
	})
}

// noise is what the world's tools wrote to their standard error.
func (w *world) noise() string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.noise[w.prefix+":probe"]
}

func (w *world) put(t testing.TB, name, content string) {
	t.Helper()
	p := filepath.Join(w.ws, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644))
}

func (w *world) get(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.ws, name))
	must(t, err)
	return string(b)
}

// tool makes the one tool of a module.
func (w *world) tool(t testing.TB, code []byte, manifest string) *wasm.Tool {
	t.Helper()
	m, err := wasm.ParseManifest("manifest.yaml", []byte(manifest))
	must(t, err)
	tools := wasm.Tools(w.prefix, "wasm", m, w.host.Module(sha256.Sum256(code), func() ([]byte, error) { return code, nil }))
	if len(tools) != 1 {
		t.Fatalf("%d tools", len(tools))
	}
	return tools[0]
}

// permit is one for a call of the world's tool.
func (w *world) permit(t testing.TB, policy string) permit.Permit {
	p := permittest.PermitFor(t, w.ws, policy)
	return permit.Mint(permit.Terms{Tool: tool.ID(w.prefix + ":probe"), Chain: p.Chain(), Env: p.Env(), Limits: p.Limits()})
}

// call runs a tool under a policy.
func (w *world) call(t testing.TB, tl *wasm.Tool, policy string, args tool.Args) (map[string]any, permit.Permit, error) {
	t.Helper()
	p := w.permit(t, policy)
	res, err := permittest.Run(t.Context(), tl, p, args)
	return res.Output, p, err
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wants(t testing.TB, err error, code fault.Code, part string) {
	t.Helper()
	if !errors.Is(err, code) || !strings.Contains(fault.Message(err), part) {
		t.Errorf("got %v, want %v with %q", err, code, part)
	}
	if err != nil && strings.Contains(err.Error(), canary) {
		t.Errorf("the secret is in %v", err)
	}
}

// manifest is one with one tool, probe, that takes any arguments.
func manifest(extra string) string {
	return "version: 1\ntools:\n- function: probe\n  description: What the tests need.\n  input: {type: object, properties: {path: {}}}\n" + extra
}

// built are the modules that tests build, once for all of them.
var built = struct {
	sync.Mutex
	code map[string][]byte
}{code: map[string][]byte{}}

// build compiles a Go program for WASI.
func build(t testing.TB, folder string) []byte {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if b := built.code[folder]; b != nil {
		return b
	}
	to := filepath.Join(t.TempDir(), "module.wasm")
	c := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, ".")
	c.Dir = folder
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", folder, err, out)
	}
	b, err := os.ReadFile(to)
	must(t, err)
	built.code[folder] = b
	return b
}

// asm writes modules as the binary format has them.
type asm struct {
	imports []string // functions of WASI with their type's number, "fd_write:1"
	foreign string   // an import of another module
	pages   int      // of memory; 0: one
	table   int      // entries
	data    string   // at address 64
	body    []byte   // of _start
	start   string   // its name; "": _start
	locals  int      // i32
	raw     []byte   // sections before the code
}

// Types of functions that modules here use.
var types = [][2]string{{"", ""}, {"\x7f\x7f\x7f\x7f", "\x7f"}, {"\x7f", ""}, {"\x7f\x7f", "\x7f"}}

func vec(list ...[]byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(list)))
	for _, b := range list {
		out = append(out, b...)
	}
	return out
}

func str(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }

func section(id byte, body []byte) []byte {
	return append(append([]byte{id}, binary.AppendUvarint(nil, uint64(len(body)))...), body...)
}

func (a asm) bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	var ts, imports [][]byte
	for _, ty := range types {
		ts = append(ts, append(append([]byte{0x60}, str(ty[0])...), str(ty[1])...))
	}
	out = append(out, section(1, vec(ts...))...)
	for _, f := range a.imports {
		name, kind, _ := strings.Cut(f, ":")
		imports = append(imports, append(append(str("wasi_snapshot_preview1"), str(name)...), 0, kind[0]-'0'))
	}
	if a.foreign != "" {
		imports = append(imports, append(append(str("env"), str(a.foreign)...), 0, 0))
	}
	out = append(out, section(2, vec(imports...))...)
	out = append(out, section(3, vec([]byte{0}))...)
	if a.table > 0 {
		out = append(out, section(4, vec(append([]byte{0x70, 0}, binary.AppendUvarint(nil, uint64(a.table))...)))...)
	}
	out = append(out, section(5, vec(append([]byte{0}, binary.AppendUvarint(nil, uint64(max(a.pages, 1)))...)))...)
	name := a.start
	if name == "" {
		name = "_start"
	}
	out = append(out, section(7, vec(append(str(name), 0, byte(len(imports))), append(str("memory"), 2, 0)))...)
	out = append(out, a.raw...)
	code := []byte{0}
	if a.locals > 0 {
		code = append([]byte{1}, append(binary.AppendUvarint(nil, uint64(a.locals)), 0x7f)...)
	}
	code = append(append(code, a.body...), 0x0b)
	out = append(out, section(10, vec(append(binary.AppendUvarint(nil, uint64(len(code))), code...)))...)
	if a.data != "" {
		out = append(out, section(11, vec(append([]byte{0, 0x41, 0xc0, 0, 0x0b}, str(a.data)...)))...)
	}
	return out
}

// sint is a constant of i32.
func sint(n int32) []byte {
	out := []byte{0x41}
	for {
		c := byte(n & 0x7f)
		if n >>= 7; n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(out, c)
		}
		out = append(out, c|0x80)
	}
}

// says is a module that writes a text to a descriptor and ends.
func says(fd int32, text string) asm {
	iov := append(binary.LittleEndian.AppendUint32(nil, 72), binary.LittleEndian.AppendUint32(nil, uint32(len(text)))...)
	var body []byte
	for _, n := range []int32{fd, 64, 1, 0} {
		body = append(body, sint(n)...)
	}
	return asm{imports: []string{"fd_write:1"}, data: string(iov) + text, body: append(body, 0x10, 0, 0x1a)}
}
