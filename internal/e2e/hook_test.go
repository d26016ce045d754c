package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit"
)

// hookEvent is an event of a program that asks about a call of the catalog.
func hookEvent(session string, c call) []byte {
	m := map[string]any{"event": "before", "session": session, "tool": c.Tool}
	if c.Args != nil {
		m["args"] = c.Args
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // the calls of these tests are JSON
	}
	return b
}

// hook runs remit hook, and checks that its answer is one that blocks or one that is clear.
func (w *world) hook(event []byte, args ...string) (decision string, r result) {
	return w.hookBy(w.command(append([]string{"hook", "generic", "-w", w.workspace}, args...)...), event)
}

func (w *world) hookBy(c *exec.Cmd, event []byte) (decision string, r result) {
	c.Dir, c.Env, c.Stdin = w.workspace, w.environ(), bytes.NewReader(event)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.status = exit.ExitCode()
	} else if err != nil {
		return err.Error(), r
	}
	r.out, r.err = out.String(), errs.String()
	var answer struct{ Decision, Reason string }
	switch {
	case r.status == 2 && r.out == "" && r.err != "":
		return "blocked", r
	case r.status == 0 && json.Unmarshal(out.Bytes(), &answer) == nil && answer.Reason != "":
		return answer.Decision, r
	}
	return fmt.Sprintf("unclear: status %d, %q, %q", r.status, r.out, r.err), r
}

// refusedFirst reports whether a call was refused before it could run. The handles enforce
// other limits, such as the size of a file, while it runs; and what a request asks for is
// decided by the request itself, which a hook does not carry out.
func refusedFirst(v verdict) bool {
	return v.Tool != "authority.request" && (v.Code == remit.Denied.Error() || v.Code == remit.NeedsApproval.Error() || v.Code == remit.LimitReached.Error() && strings.HasPrefix(v.Message, "limits."))
}

// decided leaves of a verdict what does not depend on whether the call was carried out.
func decided(v verdict) verdict {
	v.Status, v.Output = "", ""
	if !refusedFirst(v) {
		v.Code, v.Message = "", ""
	}
	return v
}

func TestTheHookDoorGivesTheSameVerdict(t *testing.T) {
	for name, by := range map[string]func(w *world) func(event []byte, args ...string) (string, result){
		"remit hook": func(w *world) func([]byte, ...string) (string, result) { return w.hook },
		"the keeper": func(w *world) func([]byte, ...string) (string, result) { return w.keeper().kept },
	} {
		t.Run(name, func(t *testing.T) { sameVerdict(t, by) })
	}
}

func sameVerdict(t *testing.T, by func(w *world) func(event []byte, args ...string) (string, result)) {
	d := newDoors(t, differentialPolicy)
	ask := by(d.w)
	calls := sample(theCalls(d.w))
	want, _ := d.session(calls)
	d.w.fill()
	before := tree(t, d.w.workspace)
	var made []int
	for i, c := range calls {
		answer, r := ask(hookEvent("differential", c), "-p", d.policy)
		refused := want[i].Effect != "allow" || refusedFirst(want[i])
		switch {
		case answer == "blocked": // no call: only of one whose name or text no door takes
			if want[i].Status == "completed" {
				t.Errorf("call %d %s %q: blocked, session %s\n%s", i+1, c.Tool, fmt.Sprint(c.Args), want[i].Status, r.err)
			}
			continue
		case answer != "allow" && answer != "deny", answer == "allow" && refused:
			t.Errorf("call %d %s %q: the hook answers %s, session %s %s", i+1, c.Tool, fmt.Sprint(c.Args), answer, want[i].Status, want[i].Message)
		}
		made = append(made, i)
	}
	if diff := cmp.Diff(before, tree(t, d.w.workspace)); diff != "" {
		t.Errorf("the hook itself changed files:\n%s", diff)
	}
	n := 0
	for r, err := range d.rt.Calls(context.Background(), d.newestRun()) {
		if err != nil {
			t.Fatal(err)
		}
		i := made[n]
		if diff := cmp.Diff(decided(want[i]), decided(verdictOf(r))); diff != "" {
			t.Errorf("call %d %s %q: hook and session disagree (-session +hook):\n%s", i+1, calls[i].Tool, fmt.Sprint(calls[i].Args), diff)
		}
		n++
	}
	if n != len(made) {
		t.Errorf("%d answers, %d recorded calls", len(made), n)
	}
}

// Processes of one session at the same time count every call once, under one limit.
func TestHooksOfOneSessionShareItsLimits(t *testing.T) {
	w := newWorld(t).durability("process")
	w.fill()
	const limit, asked = 5, 12
	policy := w.beside("policy.yaml", fmt.Sprintf("version: 1\nname: few\nfiles: {read: {allow: ['**']}}\nlimits: {calls: %d}\n", limit))
	var wg sync.WaitGroup
	answers := make([]string, asked)
	for i := range answers {
		wg.Go(func() {
			answer, r := w.hook(hookEvent("s", call{Tool: "fs.read", Args: args("path", "notes.txt")}), "-p", policy)
			answers[i] = answer
			if answer == "deny" && !strings.Contains(r.out, "limits.calls") {
				t.Errorf("%s", r.out)
			}
		})
	}
	wg.Wait()
	got := map[string]int{}
	for _, a := range answers {
		got[a]++
	}
	if got["allow"] != limit || got["deny"] != asked-limit {
		t.Errorf("answers: %v", got)
	}
	if out := w.must(0, "verify"); !strings.Contains(out, "1 run checked") {
		t.Errorf("%s", out)
	}
}

func TestTheShellDoorGivesTheSameVerdict(t *testing.T) {
	d := newDoors(t, differentialPolicy)
	var calls []call
	for _, c := range theCalls(d.w) {
		if text, _ := c.Args["script"].(string); c.Tool == "shell.run" && text != "" && len(c.Args) == 1 {
			calls = append(calls, c)
		}
	}
	want, _ := d.session(calls)
	d.w.fill()
	for i, c := range calls {
		r := d.w.remit("sh", "-p", d.policy, "-w", d.w.workspace, "-c", c.Args["script"].(string))
		if (r.status == 0) != (want[i].Status == "completed") || want[i].Status == "denied" && r.status != 3 {
			t.Errorf("%q: exit status %d, session %s\n%s", c.Args["script"], r.status, want[i].Status, r.err)
		}
		for got, err := range d.rt.Calls(context.Background(), d.newestRun()) {
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[i], verdictOf(got)); diff != "" {
				t.Errorf("%q: sh and session disagree (-session +sh):\n%s", c.Args["script"], diff)
			}
		}
	}
}

// confinedLine gives the command line that a hook has the agent run in the place of a script.
func (w *world) confinedLine(t *testing.T, agent, event, script, policy string) string {
	t.Helper()
	m := map[string]any{"session_id": "s", "sessionId": "s", "cwd": w.workspace, "hook_event_name": event, "permission_mode": "default",
		"tool_name": "Bash", "tool_input": map[string]any{"command": script, "timeout": 7}, "tool_use_id": "t",
		"toolName": "bash", "toolArgs": map[string]any{"command": script}}
	if agent == "gemini" {
		m["tool_name"] = "run_shell_command"
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if agent == "copilot" {
		delete(m, "hook_event_name") // that is VS Code's form of it
		if b, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
	}
	c := w.command("hook", agent, "--confine", "-w", w.workspace, "-p", policy)
	c.Stdin = bytes.NewReader(b)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v, %s", agent, err, out)
	}
	type input struct{ Command string }
	var answer struct {
		HookSpecificOutput struct {
			UpdatedInput struct {
				Command string
				Timeout int
			}
			ToolInput input `json:"tool_input"`
		}
		ModifiedArgs input
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%s answers %s", agent, out)
	}
	own := answer.HookSpecificOutput
	if (agent == "claude" || agent == "codex") && own.UpdatedInput.Timeout != 7 {
		t.Errorf("%s: the other fields of the input are lost: %s", agent, out)
	}
	return own.UpdatedInput.Command + own.ToolInput.Command + answer.ModifiedArgs.Command
}

// failsSomehow stands for any exit status but 0.
const failsSomehow = -1

// With --confine the agent's own shell runs what remit sh decides and confines.
func TestAHookConfinesTheCommandsOfAgents(t *testing.T) {
	w := newWorld(t).durability("process")
	w.fill()
	w.keeper()
	policy := w.beside("policy.yaml", "version: 1\nname: confined\nfiles: {read: {allow: ['**'], deny: ['private/**']}}\ncommands: {allow: ['cat **', 'head **', 'printf **', 'sh **']}\n")
	run := func(line string) (string, int) {
		c := w.command()
		c.Path, c.Args = "/bin/bash", []string{"bash", "-c", line}
		c.Dir = w.workspace
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	for agent, event := range map[string]string{"claude": "PreToolUse", "codex": "PreToolUse", "copilot": "", "gemini": "BeforeTool"} {
		for _, c := range []struct {
			script, has string
			status      int
		}{
			{"printf '%s\\n' \"it's $((1+1)) $HOME\"\nprintf b", "it's 2 ", 0},
			{"cat .en*; head -c 100 priv*/key.txt; cat ../outsid*; printf end", "end", 0},
			{"sh -c 'cat .e*' ; exec 3< .env", "may hold secrets", 3},
			{"touch made", "no entry of commands.allow matches touch made", 3},
			{"'; touch made; '", "", failsSomehow}, // some agents ask their user
			{"$(touch made)", "", 3},
			{"remit sh -c 'touch made'", "no entry of commands.allow matches remit sh", 3},
			{"remit-hook sh -c 'touch made'", "no entry of commands.allow matches remit-hook sh", 3},
			{binary + "-hook sh -c 'touch made'", "no entry of commands.allow matches", 3},
		} {
			before := w.answered()
			out, status := run(w.confinedLine(t, agent, event, c.script, policy))
			if n := w.answered(); n != before+1 {
				t.Errorf("%s: the keeper ran %d scripts", agent, n-before)
			}
			if status != c.status && (c.status != failsSomehow || status == 0) || !strings.Contains(out, c.has) || strings.Contains(out, "TOKEN=x") || strings.Contains(strings.ReplaceAll(out, "may hold secrets", ""), "secret") {
				t.Errorf("%s: %q ends with %d: %s", agent, c.script, status, out)
			}
		}
	}
	for _, agent := range []string{"generic", "cursor"} {
		c := w.command("hook", agent, "--confine", "-w", w.workspace, "-p", policy)
		c.Stdin = strings.NewReader(`{"event":"before","session":"s","tool":"shell.run","args":{"script":"cat notes.txt"},` +
			`"conversation_id":"s","hook_event_name":"beforeShellExecution","workspace_roots":["` + w.workspace + `"],"command":"cat notes.txt"}`)
		if out, err := c.CombinedOutput(); err == nil || c.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "cannot be told to run a command in the sandbox") {
			t.Errorf("%s: %v, %s", agent, err, out)
		}
	}
	if _, status := run("test -e made"); status == 0 {
		t.Error("a command that was not allowed ran")
	}
	w.must(0, "verify")
}
