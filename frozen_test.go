package remit_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/home"
)

// A session under a frozen plan makes the plan's calls and no others, though it
// names no steps; each run once more.
func TestASessionKeepsToAFrozenPlan(t *testing.T) {
	cfg, err := home.FromEnv([]string{"HOME=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	p, err := a.Runs.ParsePlan("plan.yaml", []byte(`steps:
  - {id: look, tool: fs.stat, args: {path: "."}}
  - {tool: fs.write, args: {path: out/kind, content: "${{ steps.look.output.type }}"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Runs.Freeze(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.frozen.json")
	if err := os.WriteFile(file, f.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := runtime(t, remit.Options{PolicySource: []byte(policy), Frozen: file})
	for range 2 {
		s, err := rt.Begin(t.Context(), "bound")
		if err != nil {
			t.Fatal(err)
		}
		kind := ""
		for i, c := range []struct {
			tool string
			args map[string]any
			want error
		}{
			{"fs.write", map[string]any{"path": "out/kind", "content": "x"}, remit.NotInPlan},
			{"fs.list", map[string]any{"path": "."}, remit.NotInPlan},
			{"fs.stat", map[string]any{"path": "."}, nil},
			{"fs.stat", map[string]any{"path": "."}, remit.NotInPlan},
			{"fs.write", map[string]any{"path": "out/kind", "content": "x"}, remit.NotInPlan},
			{"fs.write", map[string]any{"path": "out/kind"}, nil},
		} {
			if c.want == nil && c.tool == "fs.write" {
				c.args["content"] = kind
			}
			r, err := s.Call(t.Context(), c.tool, c.args)
			if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("call %d: %v, want %v", i+1, err, c.want)
			}
			var out struct{ Type string }
			if r.Output != nil && json.Unmarshal(r.Output, &out) == nil && out.Type != "" {
				kind = out.Type
			}
		}
		run, err := s.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Replay(t.Context(), run.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestASessionThatPlansReadsOnly(t *testing.T) {
	rt := runtime(t, remit.Options{PolicySource: []byte(policy), Planning: true})
	s, err := rt.Begin(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "fs.stat", map[string]any{"path": "."}); err != nil {
		t.Error(err)
	}
	if _, err := s.Call(t.Context(), "fs.write", map[string]any{"path": "out/x", "content": "x"}); !errors.Is(err, remit.PlanOnly) {
		t.Errorf("writing: %v", err)
	}
	if _, err := s.End(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFrozenPlanThatCannotBeReadIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, file + "x"} {
		if _, err := remit.Open(t.Context(), remit.Options{Home: t.TempDir(), Workspace: t.TempDir(), Environ: []string{"HOME=/nowhere"}, Frozen: name}); !errors.Is(err, remit.PlanInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
