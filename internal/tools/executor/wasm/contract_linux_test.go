package wasm_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
	"github.com/remitrun/remit/internal/tools/infer"
)

// TestContract: modules pass the contract of tools that are built in, called so.
func TestContract(t *testing.T) {
	w := newWorld(t)
	code := build(t, "testdata/probe")
	man, err := wasm.ParseManifest("m.yaml", []byte(`version: 1
tools:
- function: probe
  description: Does what it is told to, step by step.
  input:
    $schema: https://json-schema.org/draft/2020-12/schema
    type: object
    additionalProperties: false
    properties:
      steps: {type: array, description: The steps, items: {type: object}}
      path: {type: string, description: What is read}
  output:
    $schema: https://json-schema.org/draft/2020-12/schema
    type: object
    additionalProperties: false
    properties: {results: {type: array, items: {type: string}}}
  wants: {files: {read: [docs, {argument: path}], write: [out]}}
`))
	must(t, err)
	tl := wasm.Tools("wasm:text", "builtin", man, w.host.Module(sha256.Sum256(code), func() ([]byte, error) { return code, nil }))[0]
	args := steps("read docs/a", "write out/b x", "list .")
	withPath := steps("read src/c")
	withPath["path"] = "src/c"
	permittest.Tool(t, tl, permittest.World{Policy: open, Files: map[string]string{"docs/a": "a", "src/c": "c"}}, args, withPath)
}

func TestHints(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		wants string
		risk  tool.Risk
		has   tool.Effects
	}{
		"nothing":  {"", tool.Low, 0},
		"clock":    {"clock: true, random: true", tool.Low, 0},
		"reading":  {"files: {read: [docs]}", tool.Low, tool.EffectSet(tool.FSRead)},
		"writing":  {"files: {write: [out]}", tool.Medium, tool.EffectSet(tool.FSWrite, tool.FSDelete)},
		"variable": {"env: [LANG]", tool.Low, tool.EffectSet(tool.SystemEnv)},
	} {
		tl := w.tool(t, says(1, "").bytes(), probeWants(tc.wants))
		v := infer.Infer(tl.Spec(), tl.Hints())
		if v.Risk < tc.risk || v.Effects&^tool.EffectSet(tool.FSWrite) != tc.has&^tool.EffectSet(tool.FSWrite) || tc.has.Has(tool.FSWrite) != v.Effects.Has(tool.FSWrite) {
			t.Errorf("%s: %v %v", name, v.Risk, v.Effects)
		}
		if tc.risk == tool.Low && v.Risk != tool.Low {
			t.Errorf("%s: risk %v: %s", name, v.Risk, v)
		}
	}
}

// TestAnyPathStaysInside: whatever a module asks for, with links about, nothing
// outside of its mounts is read or changed.
func TestAnyPathStaysInside(t *testing.T) {
	w := newWorld(t)
	w.put(t, "in/a", "inside")
	w.put(t, "in/d/b", "inside")
	w.put(t, "other/f", canary)
	for name, to := range map[string]string{"in/l": "../..", "in/d/l": "../../other", "in/abs": w.out, "in/up": "..", "in/self": "."} {
		must(t, os.Symlink(to, filepath.Join(w.ws, name)))
	}
	tl := w.tool(t, build(t, "testdata/probe"), probeWants("files: {read: [in], write: [in]}"))
	names := []string{"in", "d", "l", "up", "abs", "self", "a", "b", "other", "f", "out", "ws", "secret", "..", ".", "", "etc", "passwd", w.out}
	verbs := []string{"read", "write", "append", "patch", "list", "stat", "readlink", "mkdir", "mkdirall", "remove", "rename", "truncate", "leave", "exclusive"}
	rapid.Check(t, func(rt *rapid.T) {
		path := rapid.SliceOfN(rapid.SampledFrom(names), 1, 6)
		var lines []string
		for range 25 {
			do, p := rapid.SampledFrom(verbs).Draw(rt, "do"), strings.Join(path.Draw(rt, "path"), "/")
			if p = strings.ReplaceAll(p, " ", ""); p == "" {
				p = "/"
			}
			text := "pwned"
			if do == "rename" {
				text = strings.Join(path.Draw(rt, "to"), "/") + "x"
			}
			lines = append(lines, do+" "+p+" "+text)
		}
		p := w.permit(t, open)
		res, err := permittest.Run(t.Context(), tl, p, steps(lines...))
		if err != nil && !isCoded(err, fault.HandleRefused, fault.ToolFailed, fault.Conflict, fault.NotFound) {
			rt.Fatalf("%v\n%s", err, strings.Join(lines, "\n"))
		}
		if strings.Contains(fmt.Sprint(res.Output), canary) {
			rt.Fatalf("the secret was read: %v\n%s", res.Output, strings.Join(lines, "\n"))
		}
		notes, _ := p.Happened()
		for _, n := range notes {
			if n.On != "in" && !strings.HasPrefix(n.On, "in/") {
				rt.Fatalf("%v happened\n%s", n, strings.Join(lines, "\n"))
			}
		}
		secret, err := os.ReadFile(filepath.Join(w.out, "secret"))
		beside, lerr := os.ReadDir(w.out)
		top, terr := os.ReadDir(w.ws)
		if err != nil || lerr != nil || terr != nil || string(secret) != canary || len(beside) != 1 || len(top) != 2 || w.get(t, "other/f") != canary {
			rt.Fatalf("outside was changed: %q %v %v\n%s", secret, beside, top, strings.Join(lines, "\n"))
		}
	})
}

func isCoded(err error, codes ...fault.Code) bool {
	for _, c := range codes {
		if fault.CodeOf(err) == c {
			return true
		}
	}
	return false
}

// TestSwappedMounts has folders of a mount exchanged with links to elsewhere while a
// module works in them.
func TestSwappedMounts(t *testing.T) {
	w := newWorld(t)
	w.put(t, "in/d/f", "inside")
	w.put(t, "other/f", canary)
	must(t, os.Symlink("../other", filepath.Join(w.ws, "in/link")))
	tl := w.tool(t, build(t, "testdata/probe"), probeWants("files: {read: [in], write: [in]}"))
	stop, done := make(chan struct{}), make(chan error, 1)
	d, link := filepath.Join(w.ws, "in/d"), filepath.Join(w.ws, "in/link")
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(30 * time.Microsecond): // so that some of what the module does falls between
			}
			if err := unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
				done <- err
				return
			}
		}
	}()
	reads, writes := []string{}, []string{}
	for i := range 600 {
		reads = append(reads, []string{"read in/d/f", "stat in/d/f", "list in/d"}[i%3])
		writes = append(writes, []string{"write in/d/f inside", "append in/d/f x", "rename in/d/f in/g", "rename in/g in/d/f", "mkdir in/d/new", "remove in/d/new"}[i%6])
	}
	seen := map[string]int{}
	for i := range 10 {
		lines := [][]string{reads, writes}[i%2]
		out, _, err := w.call(t, tl, open, steps(lines...)) // a write that came too late fails the call
		if err != nil && !isCoded(err, fault.HandleRefused, fault.NotFound, fault.Conflict, fault.ToolFailed) {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(out), canary) {
			t.Fatal("the secret was read")
		}
		results, _ := out["results"].([]any)
		for _, r := range results {
			seen[fmt.Sprint(r)]++
		}
	}
	close(stop)
	must(t, <-done)
	if got := w.get(t, "other/f"); got != canary {
		t.Errorf("other/f holds %q", got)
	}
	if list, err := os.ReadDir(filepath.Join(w.ws, "other")); err != nil || len(list) != 1 {
		t.Errorf("other holds %v, %v", list, err)
	}
	if seen["error: Permission denied"] == 0 || len(seen) < 2 {
		t.Logf("little was tried: %v", seen)
	}
}
