package e2e_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wheel is one version of a Python package in an index.
type wheel struct {
	Version  string
	Files    map[string]string
	Requires []string
	File     string // its file name; "": a wheel's
	Link     string // where the index says that it is; "": here
	Hash     string // what the index says; "": its own, "-": none
}

// index is an index of Python packages on loopback.
type index struct{ shelf[wheel] }

func newIndex(t *testing.T) *index {
	x := &index{}
	x.open(t, x)
	return x
}

// name gives the name of the wheel's file.
func (w wheel) name(of string) string {
	if w.File != "" {
		return w.File
	}
	return fmt.Sprintf("%s-%s-py3-none-any.whl", of, w.Version)
}

// archive makes the wheel's file.
func (w wheel) archive(name string) []byte {
	info := fmt.Sprintf("%s-%s.dist-info/", name, w.Version)
	meta := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, w.Version)
	for _, r := range w.Requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	files := map[string]string{
		info + "METADATA": meta, info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	}
	maps.Copy(files, w.Files)
	if w.Files[name+".py"] != "" {
		files[info+"entry_points.txt"] = fmt.Sprintf("[console_scripts]\n%s = %s:main\n", name, name)
	}
	record := ""
	for _, f := range slices.Sorted(maps.Keys(files)) {
		record += f + ",,\n"
	}
	files[info+"RECORD"] = record + info + "RECORD,,\n"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range slices.Sorted(maps.Keys(files)) {
		one, _ := z.Create(f)
		_, _ = one.Write([]byte(files[f]))
	}
	_ = z.Close()
	return b.Bytes()
}

// ServeHTTP implements http.Handler: /NAME/ lists the files of a package, /NAME/FILE is one.
func (x *index) ServeHTTP(rw http.ResponseWriter, q *http.Request) {
	defer x.note(q)()
	name, file, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	list := x.packages[name]
	if len(list) == 0 {
		http.NotFound(rw, q)
		return
	}
	rw.Header().Set("Content-Type", "text/html")
	for _, w := range list {
		if file == w.name(name) {
			rw.Header().Set("Content-Type", "application/octet-stream")
			_, _ = rw.Write(w.archive(name))
			return
		}
		sum := sha256.Sum256(w.archive(name))
		hash := "#sha256=" + hex.EncodeToString(sum[:])
		if w.Hash == "-" {
			hash = ""
		} else if w.Hash != "" {
			hash = "#sha256=" + w.Hash
		}
		if file == "" {
			_, _ = fmt.Fprintf(rw, "<a href=\"%s%s\">%s</a>\n", w.Link+w.name(name), hash, w.name(name))
		}
	}
}

// tinyPython is an MCP server that has one tool, which reads a file.
const tinyPython = `import json, sys
def say(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def main():
    for line in sys.stdin:
        m = json.loads(line)
        if m["method"] == "initialize":
            say(m["id"], {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "tiny", "version": "1"}})
        elif m["method"] == "tools/list":
            say(m["id"], {"tools": [{"name": "peek", "description": "Reads a file", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}}]})
        elif m["method"] == "tools/call":
            try: text = open(m["params"]["arguments"]["path"]).read()
            except OSError as e: text = "error %s" % e
            say(m["id"], {"content": [{"type": "text", "text": text}]})
        elif "id" in m:
            say(m["id"], {})
`

// pypiWorld is a world whose person uses an index of the test's own.
func pypiWorld(t *testing.T) (*world, *index) {
	t.Helper()
	python := ""
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "python3")); err == nil && python == "" {
			python = filepath.Join(dir, "python3")
		}
	}
	if python == "" {
		missing(t, "python3 is not installed in a system folder")
	}
	if out, err := exec.CommandContext(t.Context(), python, "-I", "-m", "pip", "install", "--help").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--report")) {
		missing(t, "%s has no pip that reports what it would install: %v", python, err)
	}
	w := newWorld(t).durability("process")
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	x := newIndex(t)
	w.beside(".config/pip/pip.conf", "[global]\nindex-url = "+x.url+"/\n")
	return w, x
}

// A Python package is resolved, pinned, run and upgraded; what it runs is what was pinned.
func TestAPythonPackageIsPinnedAndUpgraded(t *testing.T) {
	w, x := pypiWorld(t)
	x.publish("dep", wheel{Version: "1.0.0"})
	x.publish("tiny", wheel{Version: "1.0.0", Files: map[string]string{"tiny.py": tinyPython}, Requires: []string{"dep>=1"}})
	w.write("pip.conf", "[global]\nindex-url = http://127.0.0.1:1/\n") // of the project: others can write it
	pinnedAndUpgraded(t, w, ecosystem{
		line: []string{"uvx"}, file: "site/tiny.py", text: tinyPython + "#",
		newer: func() { x.publish("tiny", wheel{Version: "2.0.0", Files: map[string]string{"tiny.py": tinyPython}}) },
	})
}

// What an index or its packages try is refused, before any of it runs.
func TestPythonPackagesThatLeadElsewhereAreRefused(t *testing.T) {
	w, x := pypiWorld(t)
	elsewhere := newIndex(t)
	code := map[string]string{}
	server := func(name string, more wheel) wheel {
		more.Version, more.Files = "1.0.0", map[string]string{name + ".py": tinyPython}
		maps.Copy(more.Files, code)
		return more
	}
	elsewhere.publish("far", server("far", wheel{}))
	x.publish("far", server("far", wheel{Link: elsewhere.url + "/far/"}))
	x.publish("direct", server("direct", wheel{Requires: []string{"far @ " + elsewhere.url + "/far/far-1.0.0-py3-none-any.whl"}}))
	x.publish("git", server("git", wheel{Requires: []string{"x @ git+http://127.0.0.1:1/x.git"}}))
	x.publish("wrong", server("wrong", wheel{Hash: strings.Repeat("0", 64)}))
	x.publish("source", server("source", wheel{File: "source-1.0.0.tar.gz"}))
	x.publish("noprogram", wheel{Version: "1.0.0", Files: map[string]string{"other.py": ""}})
	marker := w.beside("marker", "")
	x.publish("escape", wheel{Version: "1.0.0", Files: map[string]string{"escape.py": tinyPython, strings.Repeat("../", 12) + strings.TrimPrefix(marker, "/"): "written"}})
	for _, name := range []string{"far", "direct", "git", "wrong", "source", "noprogram", "absent", "escape"} {
		t.Run(name, func(t *testing.T) {
			res := w.remit("mcp", "add", name, "--", "uvx", name)
			if res.status == 0 || !strings.Contains(res.err, "error: E") || strings.ContainsRune(res.err, 0x1b) {
				t.Errorf("%+v", res)
			}
		})
	}
	if got, err := os.ReadFile(marker); err != nil || len(got) > 0 {
		t.Errorf("something was written outside: %q, %v", got, err)
	}
	if asked := elsewhere.asked(); len(asked) > 0 {
		t.Errorf("another host was asked: %v", asked)
	}
	// A file that starts code with Python itself does not: the interpreter reads none.
	code["evil.pth"] = "import os; os.environ['EVIL'] = '1'; print('evil')"
	x.publish("pth", server("pth", wheel{}))
	w.must(0, "mcp", "add", "pth", "--", "uvx", "pth")
	w.must(0, "verify")
}

// TestRealServersStartByTheirUvxLineAlone uses the newest packages of the index that this
// machine's pip is configured for. Others change them, so only make agents runs it.
func TestRealServersStartByTheirUvxLineAlone(t *testing.T) {
	if os.Getenv("REMIT_REGISTRY") == "" {
		t.Skip("make agents tries the newest packages of the index")
	}
	w, _ := pypiWorld(t)
	w.beside(".config/pip/pip.conf", "")
	if out, err := exec.CommandContext(t.Context(), "python3", "-m", "pip", "download", "--retries=0", "--no-deps", "--dest", t.TempDir(), "mcp-server-time").CombinedOutput(); err != nil {
		t.Skipf("the package index cannot be reached: %v\n%s", err, out)
	}
	for name, line := range map[string][]string{"time": {"uvx", "mcp-server-time", "--local-timezone=UTC"}, "sqlite": {"uvx", "mcp-server-sqlite"}} {
		var got struct {
			Tools []any
			Error any
		}
		res := w.remit(append([]string{"mcp", "add", name, "--json", "--"}, line...)...)
		if err := json.Unmarshal([]byte(res.out), &got); err != nil || res.status != 0 || got.Error != nil || len(got.Tools) == 0 {
			t.Errorf("%v: %v %+v", line, err, res)
		}
	}
	w.must(0, "verify")
}
