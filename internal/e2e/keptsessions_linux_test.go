package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const sessionPolicy = "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**'], deny: ['rm **']}\n"

// agentWorld is a world with a keeper, and a hook of Claude Code for a workspace whose policy is trusted.
type agentWorld struct {
	treeWorld
	temp string // where the agent keeps temporary files; "": its events do not say where it keeps its conversations
}

func newAgentWorld(t *testing.T, flags ...string) agentWorld {
	t.Helper()
	w := agentWorld{treeWorld: newTreeWorld(t)}
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	w.write("remit.yaml", sessionPolicy)
	w.must(0, "policy", "trust")
	w.keeper(flags...)
	return w
}

// policy changes the policy of the workspace, and trusts it.
func (w agentWorld) policy(text string) {
	w.t.Helper()
	w.write("remit.yaml", text)
	w.must(0, "policy", "trust")
}

// event passes an event of a session to the hook, and returns its answer.
func (w agentWorld) event(session, dir, name string, more map[string]any) []byte {
	w.t.Helper()
	fields := map[string]any{"session_id": session, "cwd": dir, "hook_event_name": name, "permission_mode": "default", "tool_use_id": "u"}
	if w.temp != "" {
		fields["transcript_path"] = w.conversations() + "/" + session + ".jsonl"
	}
	maps.Copy(fields, more)
	b, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	c := exec.Command(binary+"-hook", "claude", "--confine", "-w", w.workspace)
	c.Dir, c.Env, c.Stdin = w.workspace, append(w.environ(), "CLAUDE_CODE_TMPDIR="+w.temp), strings.NewReader(string(b))
	out, err := c.Output()
	if err != nil {
		w.t.Fatalf("the hook says %s, %v", out, err)
	}
	return out
}

// conversations is the folder in which the agent keeps the conversations of the project.
func (w agentWorld) conversations() string { return filepath.Dir(w.workspace) + "/.claude/projects/-w" }

// in has the agent of a session run a script in a folder, as its shell does, and returns what it sees.
func (w agentWorld) in(session, dir, script string) string {
	w.t.Helper()
	var answer struct {
		HookSpecificOutput struct {
			PermissionDecisionReason string
			UpdatedInput             struct{ Command string }
		}
	}
	decode(w.t, string(w.event(session, dir, "PreToolUse", map[string]any{"tool_name": "Bash", "tool_input": map[string]any{"command": script}})), &answer)
	line := answer.HookSpecificOutput.UpdatedInput.Command
	if !strings.Contains(line, "--session") {
		return answer.HookSpecificOutput.PermissionDecisionReason + line
	}
	c := exec.Command("/bin/bash", "-c", line)
	c.Dir, c.Env = dir, w.environ()
	out, _ := c.CombinedOutput() // a failure says so
	return string(out)
}

// leaves has a command of a session leave a process in a folder. alive counts it.
func (w agentWorld) leaves(session, dir string) (alive func() int) {
	w.t.Helper()
	nap := "600." + time.Now().Format("150405.000000000")[7:] + fmt.Sprint(napNumber(w.t))
	if out := w.in(session, dir, "setsid sleep "+nap+" >/dev/null 2>&1 & echo left >/tmp/left; echo begun"); out != "begun\n" {
		w.t.Fatalf("the command that leaves a process prints %s", out)
	}
	alive = func() int { return processes(w.t, nap) }
	eventually(w.t, "left behind", 20*time.Second, func() bool { return alive() == 1 })
	return alive
}

// napNumber tells the processes of tests apart.
func napNumber(t *testing.T) (n int) {
	for _, c := range t.Name() {
		n = (n*31 + int(c)) % 1_000_003
	}
	return n
}

// sandboxes is the number of sandboxes that the keeper has.
func (w agentWorld) sandboxes() int {
	w.t.Helper()
	var st struct{ Sandboxes int }
	decode(w.t, w.must(0, "keeper", "status", "--json"), &st)
	return st.Sandboxes
}

// Commands of one session find what earlier ones left, also in a folder below, and in no other session.
func TestASessionHasOneSandbox(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	sub := w.mkdirIn("sub")
	alive := w.leaves("a", w.workspace)
	for _, step := range []struct{ session, dir, script, want string }{
		{"a", w.workspace, "mkdir /tmp/www; echo served > /tmp/www/f; python3 -m http.server --directory /tmp/www --bind 127.0.0.1 8000 >/tmp/log 2>&1 & echo started", "started\n"},
		{"a", sub, "for i in $(seq 200); do curl -sf http://127.0.0.1:8000/f && break; sleep 0.05; done; cat /tmp/left", "served\nleft\n"},
		{"b", w.workspace, "ls /tmp/left 2>/dev/null; curl -s --max-time 2 http://127.0.0.1:8000/f; cat /proc/[0-9]*/comm | grep -c sleep; echo other > /tmp/other", "0\n"},
		{"a", w.workspace, "ls /tmp/other 2>/dev/null || echo none", "none\n"},
		{"b", w.workspace, "cat /tmp/other", "other\n"},
	} {
		if got := w.in(step.session, step.dir, step.script); got != step.want {
			t.Errorf("session %s: %s\nprints %q, want %q", step.session, step.script, got, step.want)
		}
	}
	if n := w.sandboxes(); n != 2 || alive() != 1 {
		t.Errorf("%d sandboxes, want 2; %d processes left", n, alive())
	}
	w.event("a", sub, "SessionEnd", nil)
	eventually(t, "ended with its session", 20*time.Second, func() bool { return alive() == 0 })
	if got := w.in("b", w.workspace, "cat /tmp/other"); got != "other\n" {
		t.Errorf("the other session has %q", got)
	}
	w.must(0, "verify")
}

// TestAServerOfASessionInTheBrowser: remit port lists the server of a session, shows it under its name alone, and says when it has ended.
func TestAServerOfASessionInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	if out := w.must(0, "port"); !strings.Contains(out, "no agent has a server running") {
		t.Errorf("before: %s", out)
	}
	w.in("abc", w.workspace, "mkdir /tmp/www; echo served > /tmp/www/f; python3 -m http.server --directory /tmp/www --bind 127.0.0.1 8000 >/tmp/log 2>&1 & for i in $(seq 200); do curl -sf http://127.0.0.1:8000/f && break; sleep 0.05; done")
	w.in("other", w.workspace, "true")
	var list struct {
		Items []struct {
			Session string
			Ports   []int
		}
	}
	decode(t, w.must(0, "port", "--json"), &list)
	if len(list.Items) != 2 || fmt.Sprint(list.Items) != "[{other []} {abc [8000]}]" {
		t.Errorf("the servers are %+v", list)
	}
	w.must(1, "port", "8001")
	w.must(1, "port", "8000", "--session", "x")
	c := w.command("port", "8000", "--session", "ab", "--json")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Wait() }()
	defer func() { _ = c.Process.Signal(os.Interrupt) }()
	var is struct{ URL, Session string }
	if err := json.NewDecoder(out).Decode(&is); err != nil || is.Session != "abc" {
		t.Fatalf("%+v, %v", is, err)
	}
	at, err := url.Parse(is.URL)
	if err != nil {
		t.Fatal(err)
	}
	get := func(host string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+at.Port()+"/f", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(b)
	}
	if status, body := get(at.Host); status != http.StatusOK || body != "served\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, body := get("localhost:" + at.Port()); status != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %d %q", status, body)
	}
	w.event("abc", w.workspace, "SessionEnd", nil)
	eventually(t, "ended with its session", 20*time.Second, func() bool { status, _ := get(at.Host); return status == http.StatusBadGateway })
	w.must(0, "verify")
}

// What commands left ends when the authority that they had is changed or taken away.
func TestWhatIsLeftEndsWithItsAuthority(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		change func(w agentWorld)
		stays  bool
	}{
		"nothing changed": {func(agentWorld) {}, true},
		"written again":   {func(w agentWorld) { w.write("remit.yaml", sessionPolicy) }, true},
		"another comment": {func(w agentWorld) { w.write("remit.yaml", sessionPolicy+"# x\n") }, false},
		"narrower and trusted": {func(w agentWorld) {
			w.write("remit.yaml", sessionPolicy+"limits: {calls: 50}\n")
			w.must(0, "policy", "trust")
		}, false},
		"not a policy":          {func(w agentWorld) { w.write("remit.yaml", "not a policy") }, false},
		"removed":               {func(w agentWorld) { _ = os.Remove(filepath.Join(w.workspace, "remit.yaml")) }, false},
		"a folder in its place": {func(w agentWorld) { _ = os.Remove(filepath.Join(w.workspace, "remit.yaml")); w.mkdirIn("remit.yaml") }, false},
		"trust forgotten":       {func(w agentWorld) { w.must(0, "policy", "trust", "--forget") }, false},
		"trust damaged":         {func(w agentWorld) { w.write(filepath.Join(w.home, "trusted.json"), "{") }, false},
		"an outer policy":       {func(w agentWorld) { w.write(filepath.Join(w.home, "policy.yaml"), sessionPolicy) }, false},
		"a broken outer policy": {func(w agentWorld) { w.write(filepath.Join(w.home, "policy.yaml"), "x: [") }, false},
		"fresh sandboxes, again": {func(w agentWorld) {
			w.write("remit.yaml", sessionPolicy+"sandbox: {tier: fresh}\n")
			w.must(0, "policy", "trust")
		}, false},
	}
	next := map[string]func(w agentWorld){
		"allowed":        func(w agentWorld) { w.in("s", w.workspace, "true") },
		"refused":        func(w agentWorld) { w.in("s", w.workspace, "rm f") },
		"elsewhere":      func(w agentWorld) { w.in("s", w.tree, "true") },
		"not a script":   func(w agentWorld) { w.in("s", w.workspace, "echo \"") },
		"without a next": func(agentWorld) {},
	}
	for i, name := range slices.Sorted(maps.Keys(changes)) {
		for j, kind := range slices.Sorted(maps.Keys(next)) {
			c, run := changes[name], next[kind]
			if !soak() && (i+j)%len(next) > 1 { // each change and each command are tried
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				w := newAgentWorld(t)
				alive := w.leaves("s", w.workspace)
				c.change(w)
				run(w)
				if !c.stays {
					eventually(t, "ended", 20*time.Second, func() bool { return alive() == 0 })
				} else if got := w.in("s", w.workspace, "cat /tmp/left"); got != "left\n" || alive() != 1 {
					t.Errorf("%q, %d processes left", got, alive())
				}
			})
		}
	}
}

// A command under sandbox: {tier: fresh} finds nothing, and leaves nothing.
func TestFreshSandboxesAreNotShared(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	for _, c := range []struct{ own, outer string }{
		{"sandbox: {tier: fresh}\n", ""}, {"", "sandbox: {tier: fresh}\n"}, {"sandbox: {tier: fresh}\n", "sandbox: {tier: session}\n"}, {"sandbox: {tier: session}\n", "sandbox: {tier: fresh}\n"},
	} {
		w.policy(sessionPolicy + c.own)
		w.write(filepath.Join(w.home, "policy.yaml"), sessionPolicy+c.outer)
		nap := fmt.Sprint("601.", napNumber(t))
		if got := w.in("s", w.workspace, "echo x >/tmp/x; setsid sleep "+nap+" >/dev/null 2>&1 & echo begun"); got != "begun\n" {
			t.Fatalf("%+v: %s", c, got)
		}
		if got := w.in("s", w.workspace, "ls /tmp/x 2>/dev/null || echo none"); got != "none\n" || processes(t, nap) != 0 || w.sandboxes() != 0 {
			t.Errorf("%+v: %q; %d processes left, %d sandboxes", c, got, processes(t, nap), w.sandboxes())
		}
	}
}

// A keeper that has the sandbox of a session is not idle. It is when the session ends.
func TestAKeeperWithASandboxStays(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t, "--idle", "3s")
	alive := w.leaves("s", w.workspace)
	time.Sleep(6 * time.Second) // the keeper would have ended
	if got := w.in("s", w.workspace, "cat /tmp/left"); got != "left\n" || alive() != 1 {
		t.Errorf("%q, %d processes left", got, alive())
	}
	w.event("s", w.workspace, "SessionEnd", nil)
	eventually(t, "ended", 20*time.Second, func() bool { return alive() == 0 && w.remit("keeper", "status").status != 0 })
}

// A session goes on in another sandbox where commands have filled its own.
func TestAFullSandboxIsReplaced(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]string{
		"the process table": "exec python3 -c 'import os,time\nfor i in range(1000):\n try:\n  if os.fork()==0: time.sleep(60); os._exit(0)\n except OSError: pass'",
		"nearly":            "exec python3 -c 'import os,time\nfor i in range(59):\n if os.fork()==0: time.sleep(60); os._exit(0)'",
		"/tmp":              "head -c 1G /dev/zero >/tmp/full",
		"files of /tmp":     "cd /tmp; i=0; while mkdir $i 2>/dev/null; do i=$((i+1)); test $i -lt 2000 || break; done",
		"descriptors":       "prlimit --pid 1 --nofile=3:3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWorld(t)
			w.policy(strings.Replace(sessionPolicy, "deny: ['rm **']", "processes: 64, memory: 256MiB", 1))
			if got := w.in("s", w.workspace, "echo begun"); got != "begun\n" {
				t.Fatal(got)
			}
			w.in("s", w.workspace, fill)
			const next = "exec sh -c 'ls / | head -1 >/dev/null && echo x >/tmp/next && echo next'"
			if got := w.in("s", w.workspace, next); got != "next\n" {
				if again := w.in("s", w.workspace, next); again != "next\n" { // the first one has told of the limit
					t.Errorf("%q, then %q", got, again)
				}
			}
			if got := w.in("s", w.workspace, "cat /tmp/next"); got != "x\n" {
				t.Errorf("it does not go on: %s", got)
			}
		})
	}
}

// An agent that goes from one worktree to another has a sandbox in each. Both end with the session, and with its policy.
func TestASessionInLinkedWorktrees(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w agentWorld){
		"the session ends in the main worktree":   func(w agentWorld) { w.event("s", w.workspace, "SessionEnd", nil) },
		"the session ends in the linked worktree": func(w agentWorld) { w.event("s", w.tree, "SessionEnd", nil) },
		"the session ends elsewhere":              func(w agentWorld) { w.event("s", "/tmp", "SessionEnd", nil) },
		"the policy of the main worktree changes": func(w agentWorld) { w.write("remit.yaml", sessionPolicy+"# x\n") },
		"the same, and a command":                 func(w agentWorld) { w.write("remit.yaml", sessionPolicy+"# x\n"); w.in("s", w.tree, "true") },
		"the linked worktree is not one any more": func(w agentWorld) { w.sh(w.workspace, "rm -r .git/worktrees"); w.write("remit.yaml", "") },
		"the linked worktree gets an own policy": func(w agentWorld) {
			w.write(w.tree+"/remit.yaml", sessionPolicy+"# y\n")
			w.must(0, "policy", "trust", "-w", w.tree)
			w.write("remit.yaml", "")
		},
		"the keeper stops":     func(w agentWorld) { w.must(0, "keeper", "stop") },
		"the keeper is killed": func(w agentWorld) { _ = syscall.Kill(w.keeperPID(), syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWorld(t)
			here, there := w.leaves("s", w.workspace), w.leaves("s", w.tree)
			if got := w.in("s", w.workspace, "echo main >/tmp/where; git branch --show-current") + w.in("s", w.tree, "cat /tmp/where 2>/dev/null; cat /tmp/left; git branch --show-current") + w.in("s", w.workspace, "cat /tmp/where"); got != "main\nleft\nfeat\nmain\n" {
				t.Errorf("%q", got)
			}
			if here() != 1 || there() != 1 || w.sandboxes() != 2 {
				t.Errorf("%d and %d processes left, %d sandboxes", here(), there(), w.sandboxes())
			}
			end(w)
			eventually(t, "ended", 20*time.Second, func() bool { return here() == 0 && there() == 0 })
		})
	}
}

// The session's folder for scratch files is the same for the agent's own tools and for its commands, and nothing beside it is.
func TestScratchFilesOfASession(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	w.temp = t.TempDir()
	own := filepath.Join(w.temp, fmt.Sprintf("claude-%d", os.Getuid()))
	of := func(session string) string { return filepath.Join(own, "-w", session, "scratchpad") }
	if err := os.MkdirAll(of("a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(of("a")+"/job.sh", []byte("echo from the agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	decides := func(session, tool, file string) string {
		return string(w.event(session, w.workspace, "PreToolUse", map[string]any{"tool_name": tool, "tool_input": map[string]any{"file_path": file, "content": "x"}}))
	}
	for _, step := range []struct{ session, script, want string }{
		{"a", "sh " + of("a") + "/job.sh; echo out > " + of("a") + "/out; ln -s /etc/passwd " + of("a") + "/link", "from the agent\n"},
		{"a", "touch " + own + "/-w/a/beside 2>/dev/null; ls " + own + "/-w/a " + own + "/-w", own + "/-w:\na\n\n" + own + "/-w/a:\nbeside\nscratchpad\n"},
		{"b", "cat " + of("a") + "/out 2>/dev/null; echo b > " + of("b") + "/b; ls " + own + "/-w", "b\n"},
		{"a", "cat " + of("a") + "/out; ls " + own + "/-w", "out\na\n"},
		{"a", "echo $HOME ${REMIT_WORK-none}", "/tmp/home none\n"},
	} {
		if got := w.in(step.session, w.workspace, step.script); got != step.want {
			t.Errorf("session %s: %s\nprints %q, want %q", step.session, step.script, got, step.want)
		}
	}
	if _, err := os.Stat(own + "/-w/a/beside"); err == nil {
		t.Error("a command has written beside the folder")
	}
	for _, c := range []struct {
		session, tool, file string
		allowed             bool
	}{
		{"a", "Read", of("a") + "/out", true}, {"a", "Write", of("a") + "/new", true}, {"b", "Read", of("b") + "/b", true},
		{"a", "Read", of("a") + "/link", false}, {"a", "Write", of("a") + "/link", false}, {"b", "Read", of("a") + "/out", false},
		{"a", "Read", w.conversations() + "/a/tool-results/x", true}, {"a", "Read", w.conversations() + "/b/tool-results/x", false},
	} {
		if got := decides(c.session, c.tool, c.file); strings.Contains(got, `"allow"`) != c.allowed {
			t.Errorf("session %s, %s of %s: %s", c.session, c.tool, c.file, got)
		}
	}
	// A folder that cannot be used stops no command.
	if err := os.Chmod(of("a"), 0o775); err != nil { //nolint:gosec // as an umask of 002 makes it
		t.Fatal(err)
	}
	if got := w.in("a", w.workspace, "cat "+of("a")+"/out"); got != "out\n" {
		t.Errorf("with a folder that the group can write to, it prints %q", got)
	}
	if err := errors.Join(os.RemoveAll(of("a")), os.Symlink(w.workspace, of("a"))); err != nil {
		t.Fatal(err)
	}
	if got := w.in("a", w.workspace, "ls "+own+"/-w/a 2>/dev/null; echo still"); got != "still\n" {
		t.Errorf("with a link for the folder, it prints %q", got)
	}
	for _, dir := range []string{w.workspace, own + "/-w/b/scratchpad", own + "/-w/a/../a/scratchpad", "/etc"} {
		r := w.remit("sh", "-w", w.workspace, "--session", "a", "--agent", "claude", "--scratch", dir, "-c", "true")
		if r.status == 0 || !strings.Contains(r.err, "is not a folder for scratch files") {
			t.Errorf("remit sh takes %s for scratch files: %d %s", dir, r.status, r.err)
		}
	}
	w.must(0, "verify")
}
