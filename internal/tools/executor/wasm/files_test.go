package wasm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// probeWants is the manifest of the probe, with what it wants.
func probeWants(wants string) string {
	return "version: 1\nmemory: 256MiB\ntimeout: 60s\ntools:\n- function: probe\n  description: Does what it is told.\n" +
		"  input: {type: object, properties: {steps: {type: array}, path: {}}}\n  wants: {" + wants + "}\n"
}

// steps are the probe's arguments: "do path text" or "do path to".
func steps(lines ...string) tool.Args {
	var list []any
	for _, l := range lines {
		s := strings.SplitN(l, " ", 3)
		m := map[string]any{"do": s[0]}
		if len(s) > 1 {
			m["path"] = s[1]
		}
		if len(s) > 2 {
			m["to"], m["text"] = s[2], s[2]
		}
		list = append(list, m)
	}
	return tool.Args{"steps": list}
}

func (w *world) probe(t *testing.T, wants, policy string, lines ...string) []string {
	t.Helper()
	out, p, err := w.call(t, w.tool(t, build(t, "testdata/probe"), probeWants(wants)), policy, steps(lines...))
	must(t, err)
	notes, _ := p.Happened()
	for _, n := range notes {
		if strings.HasPrefix(n.On, "/") || strings.HasPrefix(n.On, "..") {
			t.Errorf("%v happened", n)
		}
	}
	var results []string
	list, _ := out["results"].([]any)
	for _, r := range list {
		results = append(results, fmt.Sprint(r))
	}
	if len(results) != len(lines) {
		t.Fatalf("%d results of %d steps: %v", len(results), len(lines), out)
	}
	return results
}

// expect runs pairs of a step and its result.
func (w *world) expect(t *testing.T, wants, policy string, pairs ...string) {
	t.Helper()
	var lines []string
	for i := 0; i < len(pairs); i += 2 {
		lines = append(lines, pairs[i])
	}
	for i, got := range w.probe(t, wants, policy, lines...) {
		if want := pairs[2*i+1]; got != want {
			t.Errorf("%s: got %q, want %q", lines[i], got, want)
		}
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	w.put(t, "docs/a.md", "0123456789")
	w.put(t, "docs/sub/b.md", "b")
	w.put(t, "top", "top")
	w.expect(t, "files: {read: [docs], write: [out]}", open,
		"read docs/a.md", "0123456789",
		"read /docs/sub/b.md", "b",
		"read docs/sub/../a.md", "0123456789",
		"halves docs/a.md", "234 8 89",
		"list docs", "a.md sub/",
		"list .", "docs/ out/",
		"stat docs/a.md", "10 false",
		"stat out", "0 true",
		"read docs/none", "error: No such file or directory",
		"read top", "error: No such file or directory",
		"write top x", "error: No such file or directory",
		"write docs/a.md x", "error: Read-only file system",
		"mkdir docs/x", "error: Read-only file system",
		"remove docs/a.md", "error: Read-only file system",
		"write out/new.txt hello", "ok",
		"append out/new.txt  world", "ok",
		"append out/other x", "ok",
		"read out/new.txt", "error: Permission denied",
		"patch out/new.txt x", "error: Permission denied",
		"exclusive out/new.txt x", "error: File exists",
		"exclusive out/excl x", "ok",
		"mkdirall out/a/b", "ok",
		"write out/a/b/c deep", "ok",
		"write out/no/c deep", "error: No such file or directory",
		"mkdir out/a", "error: File exists",
		"remove out/a", "error: Directory not empty",
		"remove out", "error: Operation not permitted",
		"rename out/new.txt out/moved", "error: Permission denied",
		"remove out/other", "ok",
		"leave out/left open", "ok",
	)
	for name, want := range map[string]string{"out/new.txt": "hello world", "out/a/b/c": "deep", "out/excl": "x", "out/left": "open", "top": "top", "docs/a.md": "0123456789"} {
		if got := w.get(t, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(w.ws, "out/other")); err == nil {
		t.Error("out/other is still there")
	}
}

func TestFilesThatAreReadAndWritten(t *testing.T) {
	w := newWorld(t)
	w.put(t, "out/a", "0123456789")
	w.put(t, "out/b", "b")
	w.put(t, "out/d/x", "x")
	w.expect(t, "files: {read: [out], write: [out]}", open,
		"patch out/a abc", "ok",
		"read out/a", "abc3456789",
		"truncate out/a", "ok",
		"read out/a", "ab",
		"rename out/a out/b", "ok",
		"read out/b", "ab",
		"rename out/d out/e", "ok",
		"list out", "b e/",
		"removeall out/e", "ok",
		"stat out/e", "error: No such file or directory",
		"patch out/none x", "error: No such file or directory",
		"write out/b ", "ok",
		"stat out/b", "0 false",
		"large out/large", "error: I/O error",
	)
	if w.get(t, "out/b") != "" {
		t.Error("out/b was not emptied")
	}
}

// TestMountEscapes tries the ways out that mounts have had.
func TestMountEscapes(t *testing.T) {
	w := newWorld(t)
	w.put(t, "in/a", "inside")
	w.put(t, "other/f", canary)
	for name, to := range map[string]string{
		"in/rel": "../../out", "in/abs": w.out, "in/file": "../../out/secret", "in/near": "../other", "in/nearfile": "../other/f",
		"in/loop": "loop", "in/fine": "a", "in/proc": "/proc/self/root",
	} {
		must(t, os.Symlink(to, filepath.Join(w.ws, name)))
	}
	denied := "error: Permission denied"
	w.expect(t, "files: {read: [in], write: [in]}", open,
		"read in/fine", "inside",
		"read ../out/secret", "error: No such file or directory",
		"read ../../../../../../etc/passwd", "error: No such file or directory",
		"read /etc/passwd", "error: No such file or directory",
		"read "+w.out+"/secret", "error: No such file or directory",
		"read in/rel/secret", denied,
		"read in/abs/secret", denied,
		"read in/file", denied,
		"read in/near/f", denied,
		"read in/nearfile", denied,
		"read in/loop", "error: I/O error",
		"read in/proc/etc/passwd", denied,
		"list in/rel", denied,
		"stat in/rel", denied,
		"write in/rel/pwned x", denied,
		"write in/file x", denied,
		"write in/near/f x", denied,
		"append in/nearfile x", denied,
		"mkdir in/rel/d", denied,
		"remove in/rel/secret", denied,
		"rename in/rel/secret in/got", denied,
		"rename in/a in/rel/a", denied,
		"symlink ../../out in/mine", "error: Operation not permitted",
		"link in/rel/secret in/mine", "error: Operation not permitted",
		"link in/a in/b", "error: Operation not permitted",
		"rename in ../out/in", "error: Operation not permitted",
	)
	if b, err := os.ReadFile(filepath.Join(w.out, "secret")); err != nil || string(b) != canary {
		t.Errorf("the secret reads %q, %v", b, err)
	}
	if list, err := os.ReadDir(w.out); err != nil || len(list) != 1 || w.get(t, "other/f") != canary {
		t.Errorf("outside holds %v, %v", list, err)
	}
}

// TestPoliciesDecideFiles: a mount is never more than the rules allow.
func TestPoliciesDecideFiles(t *testing.T) {
	w := newWorld(t)
	w.put(t, "a.txt", "a")
	w.put(t, ".env", canary)
	w.put(t, "private/x", canary)
	w.put(t, "out/x.bak", "old")
	policy := "version: 1\nname: t\nfiles:\n  read: {allow: [\"**\"], deny: [\"private/**\"]}\n  write: {allow: [\"out/**\"], deny: [\"**/*.bak\"], max_bytes: 10B}\n"
	all := "files: {read: [.], write: [out]}"
	tl := w.tool(t, build(t, "testdata/probe"), probeWants(all))
	out, p, err := w.call(t, tl, policy, steps("read a.txt", "read .env", "read private/x", "list .", "list private", "write out/y ok", "write out/x.bak new",
		"remove out/x.bak", "write out/long 01234567890", "rename out/y out/y.bak"))
	must(t, err)
	want := "[a error: Permission denied error: Permission denied a.txt out/ error: Permission denied ok error: Permission denied error: Permission denied error: I/O error error: Permission denied]"
	if got := fmt.Sprint(out["results"]); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	refused, _ := p.Refused()
	var said []string
	for _, r := range refused {
		said = append(said, r.Action+" by "+r.Rule)
	}
	for _, part := range []string{`files.read ".env" by`, `files.read "private/x" by files.read.deny[0] "private/**"`, `files.write "out/x.bak" by files.write.deny[0] "**/*.bak"`} {
		if !strings.Contains(strings.Join(said, "\n"), part) {
			t.Errorf("%q is not among what was refused: %q", part, said)
		}
	}
	if w.get(t, "out/x.bak") != "old" {
		t.Error("out/x.bak was changed")
	}
	for _, narrow := range []string{
		"version: 1\nname: t\nfiles: {read: {allow: [docs/**]}, write: {allow: [out/**]}}\n", // the workspace itself is not allowed
		"version: 1\nname: t\nfiles: {read: {allow: [\"**\"]}}\n",
		"version: 1\nname: t\n",
	} {
		_, p, err := w.call(t, tl, narrow, steps("read a.txt"))
		wants(t, err, fault.HandleRefused, "")
		if notes, _ := p.Happened(); len(notes) > 0 {
			t.Errorf("%v happened", notes)
		}
	}
}

// TestWhatArgumentsName: a call mounts what it was asked to work on, and no more.
func TestWhatArgumentsName(t *testing.T) {
	w := newWorld(t)
	w.put(t, "a.txt", "a")
	w.put(t, "docs/b.txt", "b")
	w.put(t, "docs/c.txt", "c")
	tl := w.tool(t, build(t, "testdata/probe"), probeWants("files: {read: [{argument: path}]}"))
	policy := "version: 1\nname: t\nfiles: {read: {allow: [\"docs/**\"]}}\n"
	call := func(path any) (string, error) {
		args := steps("read docs/b.txt", "read docs/c.txt", "list .", "list docs")
		args["path"] = path
		out, _, err := w.call(t, tl, policy, args)
		return fmt.Sprint(out["results"]), err
	}
	none := "error: No such file or directory"
	for path, want := range map[string]string{
		"docs":        "[b c docs/ b.txt c.txt]",
		"docs/b.txt":  "[b " + none + " docs/ b.txt]",
		"./docs/none": "[" + none + " " + none + " docs/ ]",
	} {
		if got, err := call(path); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", path, got, err, want)
		}
	}
	if got, err := call([]any{"docs/b.txt", "docs/c.txt"}); err != nil || got != "[b c docs/ b.txt c.txt]" {
		t.Errorf("a list: %s, %v", got, err)
	}
	for _, path := range []any{"a.txt", ".", "../out/secret", "docs/../a.txt", filepath.Join(w.out, "secret"), "~/x", 7, "", []any{"docs", "a.txt"}, map[string]any{}} {
		if _, err := call(path); err == nil {
			t.Errorf("%v was allowed", path)
		}
	}
	if out, _, err := w.call(t, tl, policy, steps("list .", "read docs/b.txt")); err != nil || !strings.Contains(fmt.Sprint(out), "error") {
		t.Errorf("without the argument: %v, %v", out, err)
	}
}

func TestSurroundings(t *testing.T) {
	w := newWorld(t)
	plain := w.probe(t, "", open, "env", "time", "time", "random", "random", "sleep", "read /etc/passwd", "list .")
	if plain[0] != "" || !strings.HasPrefix(plain[1], "2000-01-01T00:00:00") || plain[1] != plain[2] || plain[3] == plain[4] || plain[5] != "1h0m0s" {
		t.Errorf("without anything: %q", plain)
	}
	if again := w.probe(t, "", open, "env", "time", "time", "random", "random", "sleep", "read /etc/passwd", "list ."); fmt.Sprint(again) != fmt.Sprint(plain) {
		t.Errorf("another call saw other things: %q, %q", plain, again)
	}
	if !strings.HasPrefix(plain[6], "error: ") || !strings.HasPrefix(plain[7], "error: ") {
		t.Errorf("a module without files saw some: %q", plain)
	}
	all := "env: [GREETING, HIDDEN, NONE], clock: true, random: true"
	begin := time.Now()
	first, second := w.probe(t, all, open, "env", "time", "random"), w.probe(t, all, open, "env", "time", "random")
	at, err := time.Parse(time.RFC3339Nano, first[1])
	if err != nil || at.Before(begin.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("the time is %s", first[1])
	}
	if first[0] != "GREETING=hello" || first[2] == second[2] || first[2] == plain[3] {
		t.Errorf("with everything: %q, %q", first, second)
	}
	if got := w.probe(t, all, "version: 1\nname: t\n", "env"); got[0] != "" {
		t.Errorf("a policy that passes nothing gave %q", got)
	}
}

// TestALongSleepEnds: nobody waits for a module that waits.
func TestALongSleepEnds(t *testing.T) {
	w := newWorld(t)
	m := strings.Replace(probeWants("clock: true"), "timeout: 60s", "timeout: 100ms", 1)
	_, _, err := w.call(t, w.tool(t, build(t, "testdata/probe"), m), open, steps("sleep"))
	wants(t, err, fault.ToolTimeout, "100ms")
}

// TestFailedCallsLeaveFilesAsTheyWere: what a module has open when it fails is not
// stored half.
func TestFailedCallsLeaveFilesAsTheyWere(t *testing.T) {
	w := newWorld(t)
	w.put(t, "out/a", "whole")
	tl := w.tool(t, build(t, "testdata/probe"), probeWants("files: {write: [out]}"))
	_, _, err := w.call(t, tl, open, steps("leave out/a half", "panic"))
	wants(t, err, fault.ToolFailed, "ended with status 2")
	_, _, err = w.call(t, tl, open, steps("leave out/a half", "exit"))
	wants(t, err, fault.ToolFailed, "ended with status 7")
	if got := w.get(t, "out/a"); got != "whole" {
		t.Errorf("out/a holds %q", got)
	}
	if got := w.noise(); !strings.Contains(got, "as told") {
		t.Errorf("the log has %q", got)
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.put(t, "docs/a", "a")
	if got := w.probe(t, "files: {read: [docs]}", open, "many docs/a"); len(got[0]) > 3 || got[0] == "0" {
		t.Errorf("%s files were open at once", got[0])
	}
}
