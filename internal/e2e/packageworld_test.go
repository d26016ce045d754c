package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// shelf is what a registry of packages on loopback has, by name. T is one version.
type shelf[T any] struct {
	url string

	mu       sync.Mutex
	packages map[string][]T
	requests []string
}

// open serves a shelf's packages until the test ends.
func (s *shelf[T]) open(t *testing.T, h http.Handler) {
	t.Helper()
	s.packages = map[string][]T{}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s.url = srv.URL
}

func (s *shelf[T]) publish(name string, version T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packages[name] = append(s.packages[name], version)
}

func (s *shelf[T]) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.requests...)
}

// note locks the shelf for a request, until the result is called.
func (s *shelf[T]) note(q *http.Request) func() {
	s.mu.Lock()
	s.requests = append(s.requests, q.URL.Path)
	return s.mu.Unlock
}

// ecosystem is a package manager, in whose registry tiny 1.0.0 needs one other package.
type ecosystem struct {
	line       []string // that starts a package
	file, text string   // the program of tiny where it is installed, and another text of it
	newer      func()   // publishes tiny 2.0.0, which needs nothing
}

func lockOf(t *testing.T, w *world) string {
	t.Helper()
	var shown struct{ Package struct{ Lock string } }
	if err := json.Unmarshal([]byte(w.must(0, "mcp", "show", "tiny", "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	return shown.Package.Lock
}

// pinnedAndUpgraded resolves, pins, runs and upgrades a package; what it runs is what was pinned.
func pinnedAndUpgraded(t *testing.T, w *world, e ecosystem) {
	t.Helper()
	secret := w.beside("secret.txt", "the secret")
	open := w.write("shown/open.txt", "open")
	out := w.must(0, append(append([]string{"mcp", "add", "tiny", "--"}, e.line...), "tiny", "shown")...)
	for _, want := range []string{"tiny@1.0.0 pinned: 2 packages", "it may read and write " + filepath.Dir(open), "works: 1 tool"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:tiny:*']}\n")
	peek := func(path string) string {
		args, _ := json.Marshal(map[string]string{"path": path})
		plan := w.beside("plan.json", `{"version": 1, "name": "peek", "steps": [{"id": "a", "tool": "mcp:tiny:peek", "args": `+string(args)+`}]}`)
		res := w.remit("run", plan, "-p", policy, "--json")
		return res.out + res.err
	}
	if got := peek(open); !strings.Contains(got, `"open"`) {
		t.Errorf("the named folder is not read:\n%s", got)
	}
	if got := peek(secret); strings.Contains(got, "the secret") {
		t.Errorf("the server read %s", secret)
	}
	if out := w.must(0, "mcp", "show", "tiny", "--packages"); !strings.Contains(out, "dep@1.0.0  sha") || !strings.Contains(out, "tiny@1.0.0") {
		t.Error(out)
	}

	// A newer version is used only when it is asked for, and with a yes.
	e.newer()
	w.must(0, "mcp", "test", "tiny")
	if res := w.remit("mcp", "upgrade", "tiny"); res.status != 2 || !strings.Contains(res.out, "tiny 1.0.0 → 2.0.0") || !strings.Contains(res.out, "- dep 1.0.0") || !strings.Contains(res.err, "--yes") {
		t.Errorf("upgrade without a terminal: %+v", res)
	}
	if out := w.must(0, "mcp", "list"); !strings.Contains(out, "(1.0.0)") {
		t.Errorf("it was upgraded:\n%s", out)
	}
	died := w.write(filepath.Join(w.home+"-packages", ".new-1", "x"), "of a process that was killed")
	if out := w.must(0, "mcp", "upgrade", "tiny", "--yes"); !strings.Contains(out, "runs tiny@2.0.0") {
		t.Error(out)
	}
	if _, err := os.Stat(died); err == nil {
		t.Errorf("%s is left", died)
	}
	if got := peek(open); !strings.Contains(got, "changed") || strings.Contains(got, `"open"`) {
		t.Errorf("a tool of other files is still accepted:\n%s", got)
	}
	w.must(0, "tools", "accept", "--source", "mcp:tiny", "--diff")
	w.must(0, "tools", "accept", "--source", "mcp:tiny")
	if got := peek(open); !strings.Contains(got, `"open"`) {
		t.Errorf("accepted, and yet:\n%s", got)
	}

	// Files that changed since are not run.
	if err := os.WriteFile(filepath.Join(w.home+"-packages", lockOf(t, w), e.file), []byte(e.text), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := w.remit("mcp", "test", "tiny"); res.status == 0 || !strings.Contains(res.err, "were changed since they were pinned") {
		t.Errorf("changed files: %+v", res)
	}
	w.must(0, "mcp", "upgrade", "tiny", "--to", "2.0.0", "--yes")
	w.must(0, "mcp", "test", "tiny")
	w.must(0, "verify")
}
