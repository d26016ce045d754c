package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// world is a home, a workspace and a server of a test's own.
type world struct {
	t         *testing.T
	home      string
	workspace string
	server    string // host:port
	requests  atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return worldIn(t, dir)
}

func worldIn(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, home: filepath.Join(dir, "home"), workspace: filepath.Join(dir, "work")}
	w.mkdir(w.home)
	w.mkdir(w.workspace)
	return w
}

// durability writes the setting; most tests need not wait for the disk.
func (w *world) durability(d string) *world {
	w.write(filepath.Join(w.home, "config.yaml"), "ledger: {durability: "+d+"}\n")
	return w
}

func (w *world) mkdir(dir string) {
	w.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// write makes a file, relative to the workspace unless absolute, with a time
// of its own that is always the same.
func (w *world) write(name, content string) string {
	w.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.workspace, name)
	}
	w.mkdir(filepath.Dir(name))
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	when := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(name, when, when); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// beside writes a file next to the workspace, not in it.
func (w *world) beside(name, content string) string {
	w.t.Helper()
	return w.write(filepath.Join(filepath.Dir(w.workspace), name), content)
}

// serve starts the world's HTTP server.
func (w *world) serve() *world {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok/", func(rw http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(rw, "%s %s\n", r.Method, r.URL.Path)
	})
	mux.HandleFunc("/count", func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(rw, "%d", w.requests.Load()) })
	mux.HandleFunc("/status/404", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Second):
		}
	})
	mux.HandleFunc("/large", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write(bytes.Repeat([]byte("0123456789abcdef"), 20_000))
	})
	mux.HandleFunc("/redirect/", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, map[string]string{
			"home": "/ok/from-redirect", "denied": "/denied", "metadata": "http://169.254.169.254/latest/", "file": "file:///etc/passwd",
		}[filepath.Base(r.URL.Path)], http.StatusFound)
	})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		rw.Header()["Date"] = nil
		mux.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(srv.Close)
	w.server = srv.Listener.Addr().String()
	return w
}

// environ is the environment that the world's commands get.
func (w *world) environ() []string {
	return []string{"HOME=" + filepath.Dir(w.workspace), "REMIT_HOME=" + w.home, "USER=ann", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C", "NO_COLOR=1"}
}

// result is what a command printed and how it ended.
type result struct {
	out, err string
	status   int
}

func (w *world) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), binary, args...)
	c.Dir, c.Env = w.workspace, w.environ()
	return c
}

// remit runs the command.
func (w *world) remit(args ...string) result {
	w.t.Helper()
	c := w.command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("remit %s: %v", strings.Join(args, " "), err)
	}
	return result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// must runs the command, which must end with status.
func (w *world) must(status int, args ...string) string {
	w.t.Helper()
	r := w.remit(args...)
	if r.status != status {
		w.t.Fatalf("remit %s: status %d, want %d\n%s%s", strings.Join(args, " "), r.status, status, r.out, r.err)
	}
	return r.out
}

// call is a call of a plan, or of a session.
type call struct {
	ID     string         `json:"id,omitempty"`
	Tool   string         `json:"tool"`
	Args   map[string]any `json:"args,omitempty"`
	Needs  []string       `json:"needs,omitempty"`
	If     string         `json:"if,omitempty"`
	OnErr  string         `json:"on_error,omitempty"`
	wanted string         // see differential
}

// plan writes a plan of calls, which go on whatever happens.
func (w *world) plan(name string, parallel int, calls ...call) string {
	w.t.Helper()
	steps := make([]call, len(calls))
	for i, c := range calls {
		if c.OnErr == "" {
			c.OnErr = "continue"
		}
		steps[i] = c
	}
	b, err := json.Marshal(map[string]any{"version": 1, "name": name, "max_parallel": max(parallel, 1), "steps": steps})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.beside(name+".json", string(b))
}

// run is what `remit run --json` prints.
type runJSON struct {
	RunID  string         `json:"run_id"`
	Status string         `json:"status"`
	Mode   string         `json:"mode"`
	Counts map[string]int `json:"counts"`
	Steps  []stepJSON     `json:"steps"`
}

type stepJSON struct {
	Index    int             `json:"index"`
	ID       string          `json:"id"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args"`
	Status   string          `json:"status"`
	Output   json.RawMessage `json:"output"`
	Error    *struct{ Code, Message string }
	Decision struct {
		Effect, Rule, Reason, Policy string
		Line                         int
		Refusals                     []struct{ Effect, Rule, Action, Reason, Policy string }
	}
}

func (w *world) parse(out string) runJSON {
	w.t.Helper()
	var r runJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.t.Fatalf("%v in:\n%s", err, out)
	}
	return r
}

// run carries a plan out and gives what was printed of it.
func (w *world) run(plan, policy string, more ...string) runJSON {
	w.t.Helper()
	r := w.remit(append([]string{"run", plan, "-p", policy, "-w", w.workspace, "--json"}, more...)...)
	if !strings.HasPrefix(r.out, "{") {
		w.t.Fatalf("remit run %s: status %d\n%s%s", plan, r.status, r.out, r.err)
	}
	return w.parse(r.out)
}

// tree is the workspace as a map of paths to contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[rel] = info.Mode().String()
		switch {
		case d.Type().IsRegular():
			b, err := os.ReadFile(name)
			out[rel] += " " + string(b)
			return err
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			out[rel] += " " + to
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// same checks that nothing changed in a folder.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("files changed:\n%s", diff)
	}
}

// hold starts a server that keeps each request to /hold until release is closed.
func (w *world) hold() (release, arrived chan struct{}) {
	release, arrived = make(chan struct{}), make(chan struct{}, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	w.t.Cleanup(srv.Close)
	w.server = srv.Listener.Addr().String()
	return release, arrived
}
