package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/servers"
)

const api = `{"openapi":"3.0.0","info":{"title":"T","version":"1"},"servers":[{"url":"https://api.example.com"}],"paths":{"/a":{"get":{"operationId":"getA","responses":{"200":{"description":"ok"}}}}}}`

// operated gives what the ledger tells of operators, oldest first, as "action target".
func operated(t *testing.T, a *app.App) []string {
	t.Helper()
	list, _, err := a.History.Audit(t.Context(), history.AuditQuery{Event: "operator_action", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range slices.Backward(list) {
		if e.By != home.Person() {
			t.Errorf("%+v is not by %s", e, home.Person())
		}
		text := e.Action + " " + filepath.Base(e.Target)
		if e.Code != "" {
			text += " " + e.Code
		}
		out = append(out, text)
	}
	return out
}

// Each change of what Remit trusts, keeps or offers leaves a record, and no record holds
// a secret's value.
func TestOperatorsLeaveARecord(t *testing.T) {
	homeDir, ws := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(ws, "remit.yaml"), "version: 1\nname: w\n")
	write(filepath.Join(ws, "api.json"), api)
	a := apptest.New(t, homeDir)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const value = "ghp_0123456789abcdefXYZ"
	_, err := a.Secrets.Set("github", value)
	must(err)
	must(a.Secrets.Remove("github"))
	_, _, err = a.Policies.Trust(ws, "")
	must(err)
	_, err = a.Policies.Distrust(ws)
	must(err)
	must(a.Servers.Add(servers.Server{Name: "far", URL: "http://127.0.0.1:1/mcp"}, false))
	must(a.Servers.Remove("far"))
	_, err = a.APIs.Add(t.Context(), apis.Addition{Name: "ex", From: filepath.Join(ws, "api.json")})
	must(err)
	must(a.APIs.Remove("ex"))
	_, err = a.Extensions.SwitchTool(t.Context(), "shell.run", false)
	must(err)
	_, err = a.Extensions.SwitchTool(t.Context(), "shell.run", true)
	must(err)
	want := []string{
		"secret.set github", "secret.remove github", "policy.trust remit.yaml", "policy.forget remit.yaml", "mcp.add far", "mcp.remove far",
		"api.add ex", "api.remove ex", "tools.disable shell.run", "tools.enable shell.run",
	}
	if got := operated(t, a); !slices.Equal(got, want) {
		t.Errorf("recorded:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{"remit.db", "remit.db-wal"} {
		if b, err := os.ReadFile(filepath.Join(homeDir, name)); err == nil && strings.Contains(string(b), value) {
			t.Errorf("%s has the secret's value", name)
		}
	}

	// What would change nothing is not recorded.
	for _, nothing := range []func() error{
		func() error { return a.Secrets.Remove("none") }, func() error { return a.Servers.Remove("none") }, func() error { return a.APIs.Remove("none") },
		func() error { _, err := a.Secrets.Set("github", "short"); return err },
	} {
		if nothing() == nil {
			t.Error("no error")
		}
	}
	if _, err := a.Policies.Distrust(ws); err != nil {
		t.Error(err)
	}
	if got := operated(t, a); len(got) != len(want) {
		t.Errorf("recorded besides: %v", got[len(want):])
	}

	// Files that people edit are recorded when the ledger is opened next.
	write(filepath.Join(homeDir, "config.yaml"), "logs: {level: DEBUG}\n")
	write(filepath.Join(homeDir, "policy.yaml"), "version: 1\n")
	write(filepath.Join(homeDir, "capabilities", "x.yaml"), "id: x\n")
	b := apptest.New(t, homeDir)
	got := operated(t, b)
	write(filepath.Join(homeDir, "config.yaml"), "logs: {level: INFO}\n")
	if err := os.Remove(filepath.Join(homeDir, "capabilities", "x.yaml")); err != nil {
		t.Fatal(err)
	}
	got = append(got, operated(t, apptest.New(t, homeDir))[len(got):]...)
	if again := operated(t, apptest.New(t, homeDir)); len(again) != len(got) {
		t.Errorf("recorded again: %v", again[len(got):])
	}
	changed := []string{"capability.add x.yaml", "config.add config.yaml", "config.add policy.yaml", "capability.remove x.yaml", "config.change config.yaml"}
	if got = got[len(want):]; !slices.Equal(got, changed) {
		t.Errorf("settings: %v, want %v", got, changed)
	}
}

// A change that cannot be recorded is not made.
func TestNoRecordNoChange(t *testing.T) {
	homeDir, ws := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(ws, "remit.yaml"), []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(homeDir, "remit.db"), []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	a := apptest.New(t, homeDir)
	for name, change := range map[string]func() error{
		"secret":  func() error { _, err := a.Secrets.Set("github", "ghp_0123456789abcdefXYZ"); return err },
		"trust":   func() error { _, _, err := a.Policies.Trust(ws, ""); return err },
		"mcp":     func() error { return a.Servers.Add(servers.Server{Name: "far", URL: "http://127.0.0.1:1/mcp"}, false) },
		"switch":  func() error { _, err := a.Extensions.SwitchTool(t.Context(), tool.ID("shell.run"), false); return err },
		"new key": func() error { _, err := a.Grants.RotateKey(time.Time{}); return err },
	} {
		if err := change(); err == nil {
			t.Errorf("%s: changed without a record", name)
		}
	}
	for _, name := range []string{"trusted.json", "mcp.json", "keys/grant.json"} {
		if _, err := os.Stat(filepath.Join(homeDir, name)); !os.IsNotExist(err) {
			t.Errorf("%s was written: %v", name, err)
		}
	}
	if list, err := a.Secrets.List("", ws); err != nil || len(list) != 0 {
		t.Errorf("secrets are kept: %v, %v", list, err)
	}
}

// A source that failed is asked again after any change of an operator: a login, a secret
// or a setting may be what it lacked.
func TestAChangeOfAnOperatorForgetsFailures(t *testing.T) {
	homeDir := t.TempDir()
	a := apptest.New(t, homeDir)
	if err := a.Servers.Add(servers.Server{Name: "far", URL: "http://127.0.0.1:1/mcp"}, false); err != nil {
		t.Fatal(err)
	}
	remembered := func() bool {
		b, err := os.ReadFile(filepath.Join(homeDir, "tools", ".failing.json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Contains(string(b), `"mcp:far"`)
	}
	for name, change := range map[string]func() error{
		"a secret": func() error { _, err := a.Secrets.Set("far", "ghp_0123456789abcdefXYZ"); return err },
		"a server": func() error { return a.Servers.Add(servers.Server{Name: "near", URL: "http://127.0.0.1:1/mcp"}, false) },
		"settings": func() error {
			if err := os.WriteFile(filepath.Join(homeDir, "config.yaml"), []byte("ledger: {durability: process}\n"), 0o600); err != nil {
				return err
			}
			_, err := apptest.New(t, homeDir).Store(t.Context())
			return err
		},
	} {
		if p, err := a.Servers.Test(t.Context(), "far"); err != nil || p.Err == nil || !remembered() {
			t.Fatalf("%s: the failure is not remembered: %v, %v", name, err, p.Err)
		}
		if err := change(); err != nil || remembered() {
			t.Errorf("%s: the failure is still remembered: %v", name, err)
		}
	}
}
