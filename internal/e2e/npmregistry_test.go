package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// published is one version of a package in a registry.
type published struct {
	Version      string
	Files        map[string]string // by their path in the archive
	Dependencies map[string]string
	Scripts      map[string]string
	Tarball      string // where the registry says that the archive is; "": here
	Integrity    string // "": the archive's own
}

// registry is a registry of npm packages on loopback.
type registry struct{ shelf[published] }

func newRegistry(t *testing.T) *registry {
	r := &registry{}
	r.open(t, r)
	return r
}

// archive makes the archive of a package.
func (p published) archive(name string) []byte {
	meta, _ := json.Marshal(map[string]any{"name": name, "version": p.Version, "bin": "index.js", "dependencies": p.Dependencies, "scripts": p.Scripts})
	files := map[string]string{"package/package.json": string(meta)}
	maps.Copy(files, p.Files)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(files[name]))
	}
	_, _ = w.Close(), z.Close()
	return b.Bytes()
}

// ServeHTTP implements http.Handler: /NAME describes a package, /-/NAME/VERSION.tgz is an
// archive.
func (r *registry) ServeHTTP(rw http.ResponseWriter, q *http.Request) {
	defer r.note(q)()
	if rest, ok := strings.CutPrefix(q.URL.Path, "/-/"); ok {
		i := strings.LastIndexByte(rest, '/')
		for _, p := range r.packages[rest[:max(i, 0)]] {
			if p.Version+".tgz" == rest[i+1:] {
				_, _ = rw.Write(p.archive(rest[:i]))
				return
			}
		}
		http.NotFound(rw, q)
		return
	}
	name := strings.TrimPrefix(q.URL.Path, "/")
	list := r.packages[name]
	if len(list) == 0 {
		http.NotFound(rw, q)
		return
	}
	versions := map[string]any{}
	for _, p := range list {
		sum := sha512.Sum512(p.archive(name))
		dist := map[string]any{"tarball": r.url + "/-/" + name + "/" + p.Version + ".tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		if p.Tarball != "" {
			dist["tarball"] = p.Tarball
		}
		if p.Integrity != "" {
			dist["integrity"] = p.Integrity
		}
		versions[p.Version] = map[string]any{"name": name, "version": p.Version, "bin": "index.js", "dependencies": p.Dependencies, "scripts": p.Scripts,
			"hasInstallScript": len(p.Scripts) > 0, "dist": dist}
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]any{"name": name, "versions": versions, "dist-tags": map[string]string{"latest": list[len(list)-1].Version}})
}

// tinyServer is an MCP server that has one tool, which reads a file.
const tinyServer = `const fs = require('fs'), rl = require('readline').createInterface({input: process.stdin});
const say = (id, result) => console.log(JSON.stringify({jsonrpc: '2.0', id, result}));
rl.on('line', line => {
  const m = JSON.parse(line);
  if (m.method === 'initialize') say(m.id, {protocolVersion: m.params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: 'tiny', version: '1'}});
  else if (m.method === 'tools/list') say(m.id, {tools: [{name: 'peek', description: 'Reads a file', inputSchema: {type: 'object', properties: {path: {type: 'string'}}}}]});
  else if (m.method === 'tools/call') {
    let text; try { text = fs.readFileSync(m.params.arguments.path, 'utf8'); } catch (e) { text = 'error ' + e.code; }
    say(m.id, {content: [{type: 'text', text}]});
  } else if (m.id !== undefined) say(m.id, {});
});
`

func tiny(version string, more published) published {
	more.Version = version
	if more.Files == nil {
		more.Files = map[string]string{}
	}
	if more.Files["package/index.js"] == "" {
		more.Files["package/index.js"] = tinyServer
	}
	return more
}

// npmWorld is a world whose person uses a registry of the test's own.
func npmWorld(t *testing.T) (*world, *registry) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		found := false
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
			_, err := os.Stat(filepath.Join(dir, program))
			found = found || err == nil
		}
		if !found {
			missing(t, "%s is not installed in a system folder", program)
		}
	}
	w := newWorld(t).durability("process")
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	r := newRegistry(t)
	w.beside(".npmrc", "registry="+r.url+"/\n")
	return w, r
}

// A package is resolved, pinned, run and upgraded; what it runs is what was pinned.
func TestAPackageIsPinnedAndUpgraded(t *testing.T) {
	w, r := npmWorld(t)
	evil := newRegistry(t)
	w.write(".npmrc", "registry="+evil.url+"/\n") // of the project: others can write it
	r.publish("dep", published{Version: "1.0.0"})
	r.publish("tiny", tiny("1.0.0", published{Dependencies: map[string]string{"dep": "^1.0.0"}}))
	pinnedAndUpgraded(t, w, ecosystem{
		line: []string{"npx", "-y"}, file: "node_modules/tiny/index.js", text: tinyServer + "//",
		newer: func() { r.publish("tiny", tiny("2.0.0", published{})) },
	})
	if len(evil.asked()) > 0 {
		t.Errorf("the project's configuration was followed: %v", evil.asked())
	}
}

// What a registry or its packages try is refused, before any of it runs.
func TestPackagesThatLeadElsewhereAreRefused(t *testing.T) {
	w, r := npmWorld(t)
	elsewhere := newRegistry(t)
	elsewhere.publish("far", published{Version: "1.0.0"})
	marker := w.beside("marker", "")
	escape := strings.Repeat("../", 12) + strings.TrimPrefix(marker, "/")
	r.publish("file", tiny("1.0.0", published{Dependencies: map[string]string{"x": "file:../../../etc"}}))
	r.publish("git", tiny("1.0.0", published{Dependencies: map[string]string{"x": "git+https://127.0.0.1:1/x.git"}}))
	r.publish("url", tiny("1.0.0", published{Dependencies: map[string]string{"x": elsewhere.url + "/-/far/1.0.0.tgz"}}))
	r.publish("tarball", tiny("1.0.0", published{Tarball: elsewhere.url + "/-/far/1.0.0.tgz"}))
	r.publish("wrong", tiny("1.0.0", published{Integrity: "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))}))
	r.publish("weak", tiny("1.0.0", published{Integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}))
	r.publish("noprogram", published{Version: "1.0.0"})
	r.publish("escape", tiny("1.0.0", published{Files: map[string]string{"package/" + escape: "written"}}))
	r.publish("scripted", tiny("1.0.0", published{Scripts: map[string]string{"postinstall": "echo written > " + marker}}))
	tests := map[string]string{
		"file": "", "git": "", "url": "", "tarball": "", "wrong": "", "weak": "", "noprogram": "", // each with a reason of its own
		"scripted": "install scripts (scripted@1.0.0)",
		"absent":   "could not be resolved",
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			res := w.remit("mcp", "add", name, "--", "npx", "-y", name)
			if res.status == 0 || !strings.Contains(res.err, want) || !strings.Contains(res.err, "error: E") || strings.ContainsRune(res.err, 0x1b) {
				t.Errorf("%+v", res)
			}
		})
	}
	w.remit("mcp", "add", "escape", "--", "npx", "-y", "escape") // npm drops such a name, or the whole package
	w.must(0, "mcp", "add", "scripted", "--yes", "--", "npx", "-y", "scripted")
	if out := w.must(0, "mcp", "show", "scripted"); !strings.Contains(out, "not run: scripted@1.0.0") {
		t.Error(out)
	}
	if got, err := os.ReadFile(marker); err != nil || len(got) > 0 {
		t.Errorf("something was written outside: %q, %v", got, err)
	}
	if asked := elsewhere.asked(); len(asked) > 0 {
		t.Errorf("another host was asked: %v", asked)
	}
}

// TestRealServersStartByTheirNpxLineAlone uses the newest packages of the registry that this
// machine's npm is configured for. Others change them, so only make agents runs it.
func TestRealServersStartByTheirNpxLineAlone(t *testing.T) {
	if os.Getenv("REMIT_REGISTRY") == "" {
		t.Skip("make agents tries the newest packages of the registry")
	}
	w, _ := npmWorld(t)
	var rc strings.Builder
	for _, key := range []string{"registry", "cafile"} {
		out, err := exec.CommandContext(t.Context(), "npm", "config", "get", key).Output()
		if err != nil {
			missing(t, "npm does not work: %v", err)
		}
		if v := strings.TrimSpace(string(out)); v != "" && v != "null" && v != "undefined" {
			rc.WriteString(key + "=" + v + "\n")
		}
	}
	if out, err := exec.CommandContext(t.Context(), "npm", "view", "@modelcontextprotocol/server-memory", "version").CombinedOutput(); err != nil {
		missing(t, "the package registry cannot be reached: %v\n%s", err, out)
	}
	w.beside(".npmrc", rc.String())
	folder := filepath.Dir(w.write("shown/open.txt", "open"))
	lines := map[string][]string{
		"files":      {"npx", "-y", "@modelcontextprotocol/server-filesystem", folder},
		"everything": {"npx", "-y", "@modelcontextprotocol/server-everything"},
		"memory":     {"npx", "-y", "@modelcontextprotocol/server-memory"},
		"thinking":   {"npx", "-y", "@modelcontextprotocol/server-sequential-thinking"},
		"browser":    {"npx", "-y", "@playwright/mcp@latest", "--headless"},
	}
	for name, line := range lines {
		res := w.remit(append([]string{"mcp", "add", name, "--json", "--"}, line...)...)
		var got struct {
			Tools []any
			Error any
		}
		if err := json.Unmarshal([]byte(res.out), &got); err != nil || res.status != 0 || got.Error != nil || len(got.Tools) == 0 {
			t.Errorf("%v: %v %+v", line, err, res)
		}
	}
	w.must(0, "verify")
}
