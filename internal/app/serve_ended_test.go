package app_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/runs"
)

// handed is a grant of agent:b, which agent:a narrowed from the root of user:bob.
type handed struct {
	*service
	other           *app.App // another process of the ledger
	root, mid, leaf string   // IDs
	token           string
	test            *testing.T
}

const handedPolicy = `version: 1
name: handed
tools: {allow: ["time.now"]}
api: {allow: ["*"]}
models: {allow: ["*"]}
files: {read: {allow: [clock.yaml]}}
delegate: {actions: [api, files.read, models, tools], to: ["*"], depth: 8}
`

func newHanded(t *testing.T) *handed {
	t.Helper()
	s := newService(t)
	h := &handed{service: s, other: s.beside(), test: t}
	p, err := policy.Parse("handed.yaml", []byte(handedPolicy))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := h.other.Grants.Issue(t.Context(), grants.Terms{Workspace: s.dir, Holder: "user:bob", Expires: time.Hour, Parsed: []*policy.Policy{p}})
	h.root = id(tok)
	for _, holder := range []string{"agent:a", "agent:b"} {
		if err == nil {
			tok, err = h.other.Grants.Delegate(t.Context(), grants.Presented{Token: tok.Text}, grants.Terms{Holder: holder, Workspace: s.dir})
		}
		h.mid, h.leaf = h.leaf, id(tok)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.token = tok.Text
	return h
}

func id(tok grants.Token) string {
	if tok.Claims == nil {
		return ""
	}
	return tok.Claims.Leaf().String()
}

// door is a way to use a grant's authority. Use reports whether the grant was accepted, and allowed
// what it was used for.
type door struct {
	by  int
	use func() bool
}

// doors are the ways to use the grant.
func (h *handed) doors() map[string]door {
	return map[string]door{
		"a call over HTTP": {theService, func() bool {
			status, _ := h.ask("POST", "/v1/tools/time.now/invoke", h.token, "{}")
			return status == 200
		}},
		"a plan over HTTP": {theService, func() bool {
			status, m := h.ask("POST", "/v1/runs", h.token, planBody(h.test, "name: p\nsteps: [{tool: time.now}]\n", ""))
			run, _ := m["run_id"].(string)
			for status < 300 { // the operator's grant, which asks for the run, may end as well
				if status, m = h.ask("GET", "/v1/runs/"+run, h.service.token, ""); m["status"] != "running" {
					return m["status"] == "completed"
				}
				time.Sleep(time.Millisecond)
			}
			return false
		}},
		"a call over MCP": {theService, func() bool {
			accept := []string{"Accept", "application/json, text/event-stream"}
			status, header, _ := h.raw("POST", "/mcp", h.token, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, accept...)
			if status != 200 {
				return false
			}
			status, _, b := h.raw("POST", "/mcp", h.token, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"time_now","arguments":{}}}`,
				append([]string{"Mcp-Session-Id", header.Get("Mcp-Session-Id")}, accept...)...)
			return status == 200 && strings.Contains(string(b), "utc")
		}},
		"an explanation": {theService, func() bool {
			status, m := h.ask("POST", "/v1/policies/explain", h.token, `{"tool":"time.now","args":{}}`)
			return status == 200 && m["effect"] == "allow"
		}},
		"a run of another process": {theOther, func() bool {
			ctx := h.t.Context()
			run, err := h.other.Runs.Begin(ctx, runs.Request{Name: "t", Workspace: h.dir, Grant: grants.Presented{Token: h.token}})
			if err != nil {
				return false
			}
			o, err := run.Call(ctx, runner.Call{Tool: "time.now"})
			return errors.Join(err, o.Err, run.End(ctx)) == nil
		}},
		"an action of another process": {theOther, func() bool {
			return h.other.Grants.MayNow(h.t.Context(), grants.Presented{Token: h.token}, h.dir, "runs.read") == nil
		}},
	}
}

// change edits a grant's row in the ledger's file, past the store.
func (h *handed) change(statement, id string) {
	h.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(h.homeDir, sqlite.File)+"?_pragma=busy_timeout(60000)")
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(h.t.Context(), "DROP TRIGGER events_update"); err != nil { // it would refuse the change
		h.t.Fatal(err)
	}
	u := uuid.MustParse(id)
	res, err := db.ExecContext(h.t.Context(), statement, u[:])
	if err != nil {
		h.t.Fatal(err)
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		h.t.Fatalf("%q changed %d rows, %v", statement, n, err)
	}
}

func (h *handed) set(a *app.App, id string, to store.Standing) {
	h.t.Helper()
	if _, err := a.Grants.SetStanding(h.t.Context(), id, to, "test"); err != nil {
		h.t.Fatal(err)
	}
}

// write replaces a file of $REMIT_HOME.
func (h *handed) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.homeDir, name), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// keys changes a field of the keys that sign grants.
func (h *handed) keys(field string, value any) {
	h.t.Helper()
	var list struct {
		Keys []map[string]any `json:"keys"`
	}
	b, err := os.ReadFile(filepath.Join(h.homeDir, grants.PublicKeysFile))
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for _, k := range list.Keys {
		k[field] = value
	}
	if b, err = json.Marshal(list); err != nil {
		h.t.Fatal(err)
	}
	h.write(grants.PublicKeysFile, string(b))
}

// Who ends an authority, or uses it. Everybody else learns of a changed standing a moment later.
const (
	theService = iota
	theOther
	everybody
)

// everyEnd is everything that ends the authority of a grant, or narrows it to nothing.
var everyEnd = map[string]struct {
	by  int
	end func(h *handed)
}{
	"the grant is revoked":            {theOther, func(h *handed) { h.set(h.other, h.leaf, store.Revoked) }},
	"an ancestor is revoked":          {theOther, func(h *handed) { h.set(h.other, h.mid, store.Revoked) }},
	"the root is revoked over HTTP":   {theService, func(h *handed) { h.must(200, "POST", "/v1/grants/"+h.root+"/revoke", "{}") }},
	"the root is paused":              {theOther, func(h *handed) { h.set(h.other, h.root, store.Paused) }},
	"the ledger was restored":         {theOther, func(h *handed) { h.set(h.other, store.RestoreMark.String(), store.Paused) }},
	"the row of the root was changed": {everybody, func(h *handed) { h.change("UPDATE grants SET holder = 'user:eve' WHERE id = ?", h.root) }},
	"the row of the leaf was changed": {everybody, func(h *handed) { h.change("UPDATE grants SET holder = 'user:eve' WHERE id = ?", h.leaf) }},
	"the row of the root was removed": {everybody, func(h *handed) { h.change("DELETE FROM grants WHERE id = ?", h.root) }},
	"the root's event was changed": {everybody, func(h *handed) {
		h.change("UPDATE events SET tag = tag + 1 WHERE seq = (SELECT seq FROM grants WHERE id = ?)", h.root)
	}},
	"the operator's bound denies it":      {everybody, func(h *handed) { h.write("policy.yaml", nothing) }},
	"the operator's bound cannot be read": {everybody, func(h *handed) { h.write("policy.yaml", "version: 99\n") }},
	"the ledger has another key":          {everybody, func(h *handed) { h.keys("public", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=") }},
	"the key's time is over":              {everybody, func(h *handed) { h.keys("not_after", "2020-01-01T00:00:00Z") }},
	"the list of keys cannot be read":     {everybody, func(h *handed) { h.write(grants.PublicKeysFile, "{") }},
	"a key is missing from the list":      {everybody, func(h *handed) { h.keys("public", "") }},
}

const nothing = "version: 1\nname: nothing\ntools: {allow: []}\napi: {allow: []}\n"

// TestAnEndCountsForTheNextCall: however an authority ends, the next call by every door is refused,
// also after the door was used under it.
func TestAnEndCountsForTheNextCall(t *testing.T) {
	for name, e := range everyEnd {
		t.Run(name, func(t *testing.T) {
			h := newHanded(t)
			doors := h.doors()
			for range 2 { // the second time under what the first one left in memory
				for name, d := range doors {
					if !d.use() {
						t.Fatalf("%s is refused from the beginning", name)
					}
				}
			}
			e.end(h)
			for name, d := range doors {
				began := time.Now()
				for d.use() {
					if e.by == everybody || e.by == d.by || time.Since(began) > time.Minute {
						t.Errorf("%s is still allowed", name)
						break
					}
				}
			}
			if e.by == everybody { // a service under what was changed does not begin
				return
			}
			h.stop()
			h.start()
			for name, d := range h.doors() {
				if d.use() {
					t.Errorf("%s is allowed again after a restart", name)
				}
			}
		})
	}
}

// TestABoundThatChangesCountsForTheNextCall: the operator's own bound can deny, allow again, and be
// removed; its file may keep its size and time.
func TestABoundThatChangesCountsForTheNextCall(t *testing.T) {
	h := newHanded(t)
	file := filepath.Join(h.homeDir, "policy.yaml")
	for i, allows := range []bool{true, false, true, false, true} {
		text := strings.ReplaceAll(nothing, "[]", `["NONE"]`)
		if allows {
			text = strings.NewReplacer("tools: {allow: []", `tools: {allow: ["time*"]`, "api: {allow: []", `api: {allow: ["*" ]`).Replace(nothing)
		}
		h.write("policy.yaml", text)
		if err := os.Chtimes(file, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		for name, d := range h.doors() {
			if d.use() != allows {
				t.Errorf("step %d: %s is allowed: %v", i, name, !allows)
			}
		}
	}
}

// TestABudgetCountsEveryCall: the calls of all doors use one budget.
func TestABudgetCountsEveryCall(t *testing.T) {
	h := newHanded(t)
	h.token, _ = h.narrow("version: 1\nname: few\nrest: inherit\n", `,"calls":4`)
	doors := h.doors()
	for i, name := range []string{"a call over HTTP", "a run of another process", "a call over HTTP", "a plan over HTTP", "a call over HTTP", "a run of another process"} {
		if got := doors[name].use(); got != (i < 4) {
			t.Errorf("call %d, %s: allowed %v", i+1, name, got)
		}
	}
}

// TestNoCallBeginsAfterARevocation: while many callers call, no call that begins after the
// revocation was acknowledged is carried out.
func TestNoCallBeginsAfterARevocation(t *testing.T) {
	h := newHanded(t)
	call := h.doors()["a call over HTTP"].use
	var revoked atomic.Bool
	var done, late atomic.Int32
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for {
				after := revoked.Load()
				carried := call()
				switch {
				case carried && after:
					late.Add(1)
				case carried:
					done.Add(1)
				}
				if after {
					return
				}
			}
		})
	}
	for done.Load() < 32 {
		time.Sleep(time.Millisecond)
	}
	h.must(200, "POST", "/v1/grants/"+h.mid+"/revoke", "{}")
	revoked.Store(true)
	callers.Wait()
	if n := late.Load(); n > 0 {
		t.Errorf("%d calls were carried out that began after the revocation", n)
	}
}
