package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// treeWorld is a world whose workspace is a repository with a hook of Claude Code, a linked worktree tree and a folder beside.
type treeWorld struct {
	*world
	tree, beside string
	by           func(args ...string) *exec.Cmd // starts the hook
}

func newTreeWorld(t *testing.T) treeWorld {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	w := treeWorld{world: newWorld(t).durability("process")}
	base := filepath.Dir(w.workspace)
	w.tree, w.beside = filepath.Join(base, "tree"), filepath.Join(base, "beside")
	w.mkdir(w.beside)
	w.sh(w.workspace, "git config --global user.name a; git config --global user.email a@b.test; git init -q -b main . && echo x > f && git add f && git commit -q -m first && git worktree add -q -b feat ../tree")
	w.must(0, "init", "--yes")
	w.by = func(args ...string) *exec.Cmd { return w.command(append([]string{"hook"}, args...)...) }
	return w
}

// sh is the person's shell.
func (w treeWorld) sh(dir, script string) string {
	w.t.Helper()
	c := exec.Command("/bin/sh", "-c", script)
	c.Dir, c.Env = dir, w.environ()
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// decide has the hook of the workspace decide a call of an agent that works in a folder.
func (w treeWorld) decide(dir, tool string, input map[string]any) (decision, reason, command string) {
	w.t.Helper()
	event, err := json.Marshal(map[string]any{"session_id": "s", "cwd": dir, "hook_event_name": "PreToolUse", "permission_mode": "default", "tool_name": tool, "tool_input": input, "tool_use_id": "u"})
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.by("claude", "--confine", "-w", w.workspace)
	var errs bytes.Buffer
	c.Env, c.Stdin, c.Stderr = w.environ(), bytes.NewReader(event), &errs
	out, err := c.Output()
	var answer struct {
		HookSpecificOutput struct {
			PermissionDecision, PermissionDecisionReason string
			UpdatedInput                                 struct{ Command string }
		}
	}
	if err != nil || json.Unmarshal(out, &answer) != nil {
		w.t.Fatalf("the hook says %s%s: %v", out, errs.String(), err)
	}
	o := answer.HookSpecificOutput
	return o.PermissionDecision, o.PermissionDecisionReason, o.UpdatedInput.Command
}

// agent has an agent that works in a folder run a command, and returns what it sees.
func (w treeWorld) agent(dir, script string) string {
	w.t.Helper()
	decision, reason, command := w.decide(dir, "Bash", map[string]any{"command": script})
	if decision != "allow" {
		return decision + ": " + reason
	}
	c := exec.Command("/bin/sh", "-c", command)
	c.Dir, c.Env = dir, w.environ()
	out, _ := c.CombinedOutput() // a failure says so
	return string(out)
}

// An agent that is started in a linked worktree takes the hook of the main one. It works in its worktree.
func TestAHookFollowsTheAgentIntoALinkedWorktree(t *testing.T) {
	for name, hook := range map[string]func(w *treeWorld){
		"remit hook": func(*treeWorld) {},
		"the keeper": func(w *treeWorld) {
			w.keeper()
			w.by = func(args ...string) *exec.Cmd { return exec.Command(binary+"-hook", args...) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTreeWorld(t)
			hook(&w)
			for _, dir := range []string{w.tree, filepath.Join(w.tree, "sub")} {
				w.mkdir(dir)
				if out := w.agent(dir, "cat "+w.workspace+"/f"); !strings.Contains(out, "denied") {
					t.Errorf("in %s a command reads the main worktree: %s", dir, out)
				}
				if out := w.agent(dir, "pwd; git branch --show-current; git status --short; echo y > new; git add new; git commit -q --allow-empty -m 'in the worktree' && git log -1 --format=%s"); out != dir+"\nfeat\nin the worktree\n" {
					t.Errorf("in %s: %s", dir, out)
				}
			}
			for path, want := range map[string]string{
				w.tree + "/a.go": "allow", "a.go": "allow", w.tree + "/.git/hooks/pre-commit": "deny", w.tree + "/.env": "deny", w.workspace + "/a.go": "deny", w.beside + "/a.go": "deny",
				w.workspace + "/.git/config": "deny", w.workspace + "/.git/hooks/pre-commit": "deny",
			} {
				if got, why, _ := w.decide(w.tree, "Write", map[string]any{"file_path": path, "content": "x"}); got != want {
					t.Errorf("Write %s: %s, %s; want %s", path, got, why, want)
				}
			}
			if got := w.sh(w.workspace, "git log --format=%s; git status --porcelain; cat f"); got != "first\nx\n" {
				t.Errorf("the main worktree has %q", got)
			}
			if got := w.agent(w.workspace, "pwd; git branch --show-current"); got != w.workspace+"\nmain\n" {
				t.Errorf("in the main worktree: %s", got)
			}
		})
	}
}

// A command does not run in the workspace where the agent works in a folder outside of it.
func TestAHookRefusesAnAgentElsewhere(t *testing.T) {
	w := newTreeWorld(t)
	w.sh(w.beside, "git init -q other && git -C other commit -q --allow-empty -m 1 && git -C other worktree add -q ../others; cp -r ../tree copy; mkdir claim && echo \"gitdir: "+w.workspace+"/.git/worktrees/claim\" > claim/.git; ln -s ../work link; ln -s ../tree treelink")
	for _, dir := range []string{w.beside, "/tmp", "/", w.beside + "/other", w.beside + "/others", w.beside + "/copy", w.beside + "/claim", w.beside + "/gone"} {
		out := w.agent(dir, "touch ran")
		if want := "this hook holds for " + w.workspace + ", and the agent works in " + dir + ": run remit init there"; !strings.Contains(out, want) {
			t.Errorf("in %s: %s", dir, out)
		}
		if _, why, _ := w.decide(dir, "Write", map[string]any{"file_path": dir + "/a", "content": "x"}); !strings.Contains(why, "and the agent works in") {
			t.Errorf("Write in %s: %s", dir, why)
		}
	}
	if out := w.agent(w.beside+"/link", "git branch --show-current") + w.agent(w.beside+"/treelink", "git branch --show-current"); out != "main\nfeat\n" {
		t.Errorf("by links: %s", out)
	}
	if _, err := os.Stat(w.workspace + "/ran"); err == nil {
		t.Error("a command ran in the workspace")
	}
	if got, why, _ := w.decide("/tmp", "Read", map[string]any{"file_path": w.workspace + "/f"}); got != "allow" {
		t.Errorf("a file of the workspace: %s, %s", got, why)
	}
}

// In a linked worktree the policy of the main one holds, until the person trusts a file of the worktree's own.
func TestThePolicyInALinkedWorktree(t *testing.T) {
	w := newTreeWorld(t)
	sh := func(script string) string {
		r := w.remit("sh", "-w", w.tree, "-c", script)
		return r.out + r.err
	}
	if out := w.must(0, "init", "--yes", "-w", w.tree); !strings.Contains(out, w.workspace+"/remit.yaml (kept)") {
		t.Errorf("init: %s", out)
	}
	if out := sh("git commit -q --allow-empty -m x && git log -1 --format=%s"); out != "x\n" {
		t.Errorf("with the policy of the main worktree: %s", out)
	}
	for _, own := range []string{
		"version: 1\nname: wide\nfiles: {read: {allow: ['/**']}, write: {allow: ['/**']}}\ncommands: {allow: ['**']}\n", "version: 1\nname: narrow\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['echo **']}\n", "not a policy",
	} {
		w.write(filepath.Join(w.tree, "remit.yaml"), own)
		if out := sh("echo x > y; cat " + w.workspace + "/f; cat y"); !strings.Contains(out, "denied") {
			t.Errorf("a policy that nobody trusted gives %q", out)
		}
		if out := sh("echo x > y; cat y"); out != "x\n" {
			t.Errorf("a policy that nobody trusted gives %q", out)
		}
	}
	w.write(filepath.Join(w.tree, "remit.yaml"), "version: 1\nname: narrow\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['git **']}\n")
	w.must(0, "policy", "trust", "-w", w.tree)
	if out := sh("git status --short && git commit --allow-empty -m y"); !strings.Contains(out, "refused files.write") {
		t.Errorf("a policy that was trusted gives %q", out)
	}
	w.write("remit.yaml", "version: 1\nname: changed\n")
	w.sh(w.workspace, "git worktree remove --force ../tree && git worktree add -q ../tree feat")
	if out := sh("echo x"); !strings.Contains(out, "changed since it was trusted") {
		t.Errorf("the main policy changed, and a command gives %q", out)
	}
}

// Claude Code's own worktrees in the workspace can be made and filled, and its settings stay closed.
func TestWorktreesOfClaudeCode(t *testing.T) {
	w := newTreeWorld(t)
	w.sh(w.workspace, "mkdir -p .claude")
	at := filepath.Join(w.workspace, ".claude/worktrees/x")
	if out := w.agent(w.workspace, "git worktree add -q .claude/worktrees/x && cd .claude/worktrees/x && echo y > y && git add y && git commit -q -m y && git log -1 --format=%s"); out != "y\n" {
		t.Fatalf("%s", out)
	}
	if out := w.agent(at, "pwd; git branch --show-current"); out != at+"\nx\n" {
		t.Errorf("in it: %s", out)
	}
	for path, want := range map[string]string{
		at + "/a": "allow", at + "/.claude/settings.json": "deny", at + "/.git": "deny", at + "/.env": "deny", at + "/.mcp.json": "deny", at + "/remit.yaml": "deny", filepath.Dir(at) + "/.claude/x": "deny",
		w.workspace + "/.claude/settings.local.json": "deny", w.workspace + "/.claude/worktreesx": "deny", w.workspace + "/.Claude/worktrees/x/a": "deny", w.workspace + "/sub/.claude/worktrees/x/a": "deny",
	} {
		if got, why, _ := w.decide(at, "Write", map[string]any{"file_path": path, "content": "x"}); got != want {
			t.Errorf("Write %s: %s, %s; want %s", path, got, why, want)
		}
	}
	if out := w.agent(w.workspace, "git worktree remove --force .claude/worktrees/x && git worktree list | wc -l"); out != "2\n" {
		t.Errorf("removed: %s", out)
	}
}

// A worktree that cannot stay is told, with the way out.
func TestAWorktreeOutsideIsTold(t *testing.T) {
	w := newTreeWorld(t)
	for _, at := range []string{"../more", w.beside + "/more", "/tmp/remit-no-such/more"} {
		if out := w.agent(w.workspace, "git worktree add "+at); !strings.Contains(out, "remit: no worktree is left at ") || !strings.Contains(out, "or run git worktree add outside of the sandbox") {
			t.Errorf("%s: %s", at, out)
		}
	}
	if out := w.agent(w.workspace, "git worktree add -q in && ls in && git worktree remove in"); out != "f\n" {
		t.Errorf("in the workspace: %s", out)
	}
}
