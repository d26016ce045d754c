package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// exampleServer answers as the examples' own servers do.
func exampleServer(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/releases/latest", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"version":"2.4.0"}`) })
	mux.HandleFunc("GET /v1/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("POST /hooks/build", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// example copies an example's files into a new world, with the server's address.
func example(t *testing.T, name, server string) *world {
	t.Helper()
	w := newWorld(t).durability("process")
	root := filepath.Join("..", "..", "examples", name)
	err := filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		to := w.write(strings.TrimPrefix(rel, "workspace/"), strings.ReplaceAll(string(b), "127.0.0.1:8080", server))
		return os.Chmod(to, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// stepsOf gives the statuses of a run's steps, each with its tool.
func stepsOf(t *testing.T, w *world, args ...string) []string {
	t.Helper()
	var r struct {
		Steps []struct {
			Tool   string
			Status string
		}
	}
	res := w.remit(append(args, "--json")...)
	if err := json.Unmarshal([]byte(res.out), &r); err != nil || len(r.Steps) == 0 {
		t.Fatalf("%v\n%s%s", err, res.out, res.err)
	}
	var out []string
	for _, s := range r.Steps {
		out = append(out, s.Tool+" "+s.Status)
	}
	return out
}

// What an example's recorded run teaches is a policy under which it goes as it
// went, and under which no call of an attack of the corpus is let through.
func TestWhatTheExamplesTeach(t *testing.T) {
	server := exampleServer(t)
	for name, with := range map[string][]string{
		"demo":         {"-p", "policy.yaml", "--input", "service=http://" + server},
		"coding-agent": {"-p", "remit.yaml"},
		"triage":       {"-p", "policy.yaml"},
		"webhook":      {"-p", "policy.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			w := example(t, name, server)
			went := stepsOf(t, w, append([]string{"run", "plan.yaml"}, with...)...)
			var list struct {
				Items []struct {
					RunID string `json:"run_id"`
				}
			}
			decode(t, w.must(0, "runs", "--limit", "1", "--json"), &list)
			src := w.must(0, "policy", "learn", list.Items[0].RunID)

			again := example(t, name, server)
			again.beside("least.yaml", src)
			with = append([]string{"run", "plan.yaml", "-p", "../least.yaml"}, with[2:]...)
			if diff := cmp.Diff(went, stepsOf(t, again, with...)); diff != "" {
				t.Errorf("under what it teaches the run goes otherwise (-was +is):\n%s\n%s", diff, src)
			}
			attack(t, src)
		})
	}
}

// attack decides every injected call of the corpus.
func attack(t *testing.T, src string) {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Log("REMIT_TESTDATA is not set: the corpus was not tried")
		return
	}
	p, err := policy.Parse("least.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/ws"})
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Suites map[string]struct {
			Injections []struct {
				Calls []struct {
					Tool string
					Args map[string]any
				} `json:"ground_truth_calls"`
			} `json:"injection_tasks"`
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "agents/agentdojo_dev_sample.json"))
	if err != nil {
		t.Fatal(err)
	}
	decode(t, string(b), &f)
	n := 0
	for _, s := range f.Suites {
		for _, in := range s.Injections {
			for _, c := range in.Calls {
				n++
				call := policy.Call{Tool: &tool.Spec{ID: tool.ID(c.Tool), Source: "mcp"}, Args: c.Args}
				if d := (policy.Chain{r}).Decide(call); d.Effect != policy.Deny {
					t.Errorf("%s %v is not denied: %v by %v", c.Tool, c.Args, d.Effect, d.Rule)
				}
			}
		}
	}
	if n == 0 {
		t.Error("the corpus holds no injected call: the test shows nothing")
	}
}
