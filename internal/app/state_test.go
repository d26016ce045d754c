package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/grants"
)

// Processes that make the first grant at once have one key between them: what one of
// them signs is accepted by all. And what each of them trusts stays trusted.
func TestManyBeginAtOnce(t *testing.T) {
	const many = 8
	home, dir := t.TempDir(), t.TempDir()
	pol := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(pol, []byte("version: 1\nname: p\ntools: {allow: [clock.now]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := make([]grants.Token, many)
	var all sync.WaitGroup
	for i := range many {
		ws := filepath.Join(dir, string(rune('a'+i)))
		if err := os.Mkdir(ws, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws, "remit.yaml"), []byte("version: 1\nname: w\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := apptest.New(t, home)
		all.Go(func() {
			var err error
			if tokens[i], err = a.Grants.Issue(t.Context(), grants.Terms{Policies: []string{pol}, Workspace: ws, Holder: "client:one"}); err != nil {
				t.Error(err)
			}
			if _, _, err := a.Policies.Trust(ws, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	a := apptest.New(t, home)
	for i, tok := range tokens {
		if got, err := a.Grants.Inspect(t.Context(), tok.Text); err != nil || got.Genuine != nil || got.Now != nil {
			t.Errorf("grant %d: %v, %v, %v", i, got.Genuine, got.Now, err)
		}
	}
	if keys, err := a.Grants.Keys(); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	b, err := os.ReadFile(filepath.Join(home, "trusted.json"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := map[string]string{}
	if err := json.Unmarshal(b, &trusted); err != nil || len(trusted) != many {
		t.Errorf("%d workspaces are trusted, %v", len(trusted), err)
	}
}

// A list that was damaged is neither read as an empty one nor written over.
func TestDamagedStateStays(t *testing.T) {
	home := t.TempDir()
	a := apptest.New(t, home)
	for file, does := range map[string]func() error{
		"apis.json":       func() error { return a.APIs.Remove("x") },
		"wasm.json":       func() error { return a.Modules.Remove("x") },
		"extensions.json": func() error { _, err := a.Extensions.Find("x"); return err },
		"mcp.json":        func() error { return a.Servers.Remove("x") },
		"trusted.json":    func() error { _, err := a.Policies.Distrust(home); return err },
		"keys/grant.json": func() error { _, err := a.Grants.Keys(); return err },
	} {
		for _, bad := range []string{"", "null", "{", `"text"`, "[1]"} {
			name := filepath.Join(home, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			err := does()
			if err == nil || fault.CodeOf(err) == fault.NotFound || !strings.Contains(err.Error(), "cannot be read") {
				t.Errorf("%s with %q: %v", file, bad, err)
			}
			if b, err := os.ReadFile(name); err != nil || string(b) != bad {
				t.Errorf("%s with %q is %q now, %v", file, bad, b, err)
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
