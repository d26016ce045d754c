package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// malformation is a call that nobody can make.
type malformation struct{ tool, args string }

func malformations() map[string]malformation {
	large := strings.Repeat("x", 1<<20)
	out := map[string]malformation{
		"a tool that does not exist": {"no_such_tool", `{}`},
		"no name of a tool":          {"fs/read\u00e9 !", `{"path":"notes.txt"}`},
		"an empty name":              {"", `{}`},
		"an unknown argument":        {"fs_read", `{"pth":"notes.txt"}`},
	}
	for name, args := range map[string]string{
		"no argument":        `{}`,
		"no object":          `[1]`,
		"null":               `null`,
		"a text":             `"x"`,
		"no JSON":            `{"path": }`,
		"cut off":            `{"path":`,
		"two texts":          `{"path":"a"}{"path":"b"}`,
		"a key twice":        `{"path":"notes.txt","path":"private/key"}`,
		"half a character":   `{"path":"\ud800"}`,
		"no UTF-8":           "{\"path\":\"\xff\"}",
		"a number too large": `{"path":"notes.txt","limit":1e999}`,
		"of another kind":    `{"path":7}`,
		"a secret":           `{"path":"` + malformedSecret + `"}`,
		"too large":          `{"path":"` + large + `"}`,
		"too deep":           `{"path":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
	} {
		out[name] = malformation{"fs_read", args}
	}
	return out
}

const malformedPolicy = `version: 1
name: malformed
api: {allow: ["*"]}
tools: {allow: ["fs.read", "model.chat"]}
files: {read: {allow: ["**"]}}
models: {allow: ["scripted:**"], tokens: 5000000}
`

// malformedSecret is the value of a stored secret, which no call may hold.
const malformedSecret = "the-value-of-a-secret-0123456789"

// A door makes all the calls, and says how many of them must be recorded.
var malformedDoors = map[string]func(w *world, policy string, all []malformation) int{
	"an agent": func(w *world, policy string, all []malformation) int {
		type toolCall struct {
			Name string `json:"name"`
			Args string `json:"args"`
		}
		var script []any
		n := 0
		for _, m := range all {
			if m.tool == "" || strings.Contains(m.args, "\xff") || strings.HasSuffix(m.args, ":") {
				continue // no script can say so, or the whole answer counts as cut off
			}
			script = append(script, map[string]any{"tool_calls": []toolCall{{m.tool, m.args}}})
			n++
		}
		script = append(script, map[string]any{"tool_calls": []toolCall{{"fs_read", `{"path":"notes.txt"}`}}}, map[string]any{"text": "Done."})
		b, err := json.Marshal(script)
		if err != nil {
			w.t.Fatal(err)
		}
		s := w.serveAgents(policy)
		session := s.session(s.agent("Model", string(b), "workspace"))
		s.say(session, "Go on.")
		s.end()
		if out := w.must(0, "replay", session); !strings.Contains(out, "all messages are identical") {
			w.t.Errorf("replay of the session: %s", out)
		}
		return n
	},
	"MCP": func(w *world, policy string, all []malformation) int {
		cmd := exec.Command(binary, "mcp", "serve", "-w", w.workspace, "-p", policy)
		cmd.Env = w.environ()
		in, err := cmd.StdinPipe()
		must(w.t, err)
		out, err := cmd.StdoutPipe()
		must(w.t, err)
		must(w.t, cmd.Start())
		lines := bufio.NewReader(out)
		say := func(line string) {
			_, err := io.WriteString(in, line+"\n")
			must(w.t, err)
		}
		hear := func() string {
			line, err := lines.ReadString('\n')
			must(w.t, err)
			return line
		}
		say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
		hear()
		say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		n := 0
		for i, m := range all {
			if !json.Valid([]byte(m.args)) || m.tool == "" {
				continue // then the message is none
			}
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, i+1, m.tool, m.args))
			if got := hear(); strings.Contains(got, "-32601") {
				w.t.Errorf("%+v: %.300s", m, got)
			}
			n++
		}
		must(w.t, in.Close())
		must(w.t, cmd.Wait())
		return n
	},
	"HTTP": func(w *world, policy string, all []malformation) int {
		s := w.serveAgents(policy)
		for _, m := range all {
			status, b, err := s.raw("POST", "/v1/tools/"+strings.ReplaceAll(m.tool, "fs_read", "fs.read")+"/invoke", []byte(`{"args":`+m.args+`}`))
			if err == nil && status >= 500 {
				w.t.Errorf("%.100s: status %d %s", m.args, status, b)
			}
		}
		s.end()
		return 1
	},
	"a hook": func(w *world, policy string, all []malformation) int {
		for _, m := range all {
			event := fmt.Appendf(nil, `{"event":"before","session":"one","tool":%q,"args":%s}`, strings.ReplaceAll(m.tool, "fs_read", "fs.read"), m.args)
			decision, r := w.hook(event, "-p", policy)
			if decision == "allow" {
				w.t.Errorf("%.100s is allowed: %s", m.args, r.out)
			}
		}
		w.hook([]byte(`{"event":"end","session":"one"}`), "-p", policy)
		return 1
	},
	"a plan": func(w *world, policy string, all []malformation) int {
		var steps []call
		for i, m := range all {
			var args map[string]any
			if json.Unmarshal([]byte(m.args), &args) != nil || args == nil || len(m.args) > 1<<19 || strings.Contains(m.args, "[[") {
				continue // no plan can say so
			}
			steps = append(steps, call{ID: fmt.Sprint("s", i), Tool: strings.ReplaceAll(m.tool, "fs_read", "fs.read"), Args: args})
		}
		for _, s := range steps { // a step that cannot be is refused before the plan begins
			w.remit("run", w.plan("one", 1, s), "-p", policy, "-w", w.workspace, "--json")
		}
		late := []call{
			{ID: "list", Tool: "fs.read", Args: args("path", "notes.txt")},
			{ID: "other", Tool: "fs.read", Args: args("path", "${steps.list.output.size}")},
			{ID: "none", Tool: "fs.read", Args: args("path", "${steps.list.output.no_such_field}")},
		}
		r := w.run(w.plan("late", 1, late...), policy)
		return len(r.Steps)
	},
	"a slash command": func(w *world, policy string, all []malformation) int {
		for _, m := range all {
			if len(m.args) > 1<<15 || m.tool == "" {
				continue // longer than one argument of a command may be
			}
			w.remit("slash", "/call "+quoted(strings.ReplaceAll(m.tool, "fs_read", "fs.read"))+" "+quoted(m.args), "-p", policy, "-w", w.workspace, "--json")
		}
		return 1
	},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever a call lacks, its run is recorded, and replays equal to itself.
func TestRunsWithMalformedCallsReplay(t *testing.T) {
	all := malformations()
	var list []malformation
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	for door, do := range malformedDoors {
		t.Run(door, func(t *testing.T) {
			w := newWorld(t).durability("process")
			w.write("notes.txt", "one\n")
			policy := w.beside("malformed.yaml", malformedPolicy)
			set := w.command("secret", "set", "kept")
			set.Stdin = strings.NewReader(malformedSecret)
			must(t, set.Run())
			want := do(w, policy, list)
			w.allReplay(want)
		})
	}
}

// allReplay checks that the ledger is in order, and that each of its runs replays.
func (w *world) allReplay(calls int) {
	w.t.Helper()
	var list struct {
		Runs []struct {
			ID string `json:"run_id"`
		} `json:"items"`
	}
	decode(w.t, w.must(0, "runs", "--all", "--json", "--limit", "1000"), &list)
	w.must(0, "verify")
	rt := w.runtime()
	n := 0
	for _, run := range list.Runs {
		for c, err := range rt.Calls(w.t.Context(), run.ID) {
			must(w.t, err)
			if c.Err == nil && c.Status != "completed" {
				w.t.Errorf("run %s: call %d has no reason", run.ID, c.Index)
			}
			n++
		}
		if _, err := rt.Replay(w.t.Context(), run.ID); err != nil {
			w.t.Errorf("replay of %s: %v\n%s", run.ID, err, clipped(w.must(0, "show", run.ID)))
		}
	}
	if n < calls {
		w.t.Errorf("%d calls are recorded, want %d", n, calls)
	}
}

func clipped(s string) string {
	var out bytes.Buffer
	for line := range strings.Lines(s) {
		out.WriteString(line[:min(len(line), 200)])
	}
	return out.String()
}
