package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// hooked is an agent with a hook that asks its user, in one session.
type hooked struct {
	*world
	t               *testing.T
	policy, session string
	mode            string // its permission mode
}

// line gives the command line that the agent's shell gets for a script, and the question for the user; "": there is none.
func (a *hooked) line(script string) (line, question string) {
	a.t.Helper()
	b, err := json.Marshal(map[string]any{"session_id": a.session, "cwd": a.workspace, "hook_event_name": "PreToolUse", "permission_mode": a.mode,
		"tool_name": "Bash", "tool_input": map[string]any{"command": script}, "tool_use_id": "t"})
	if err != nil {
		a.t.Fatal(err)
	}
	c := a.command("claude", "--confine", "-w", a.workspace, "-p", a.policy)
	c.Path = binary + "-hook"
	r := ran(a.t, c, string(b))
	var answer struct {
		HookSpecificOutput struct {
			PermissionDecision, PermissionDecisionReason string
			UpdatedInput                                 struct{ Command string }
		}
	}
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil {
		a.t.Fatalf("%q is answered with %+v", script, r)
	}
	own := answer.HookSpecificOutput
	switch own.PermissionDecision {
	case "allow":
		return own.UpdatedInput.Command, ""
	case "ask":
		return own.UpdatedInput.Command, own.PermissionDecisionReason
	}
	a.t.Fatalf("%q is answered with %+v", script, r)
	return "", ""
}

// bash runs a command line as the agent's shell.
func (a *hooked) bash(line string) result {
	a.t.Helper()
	c := a.command()
	c.Path, c.Args, c.Dir = "/bin/bash", []string{"bash", "-c", line}, a.workspace
	return ran(a.t, c, "")
}

// do runs a script; the user says yes to all questions.
func (a *hooked) do(script string) (r result, question string) {
	a.t.Helper()
	line, question := a.line(script)
	return a.bash(line), question
}

// ends tells of the end of the session.
func (a *hooked) ends() {
	a.t.Helper()
	c := a.command("claude", "--confine", "-w", a.workspace, "-p", a.policy)
	c.Path = binary + "-hook"
	ran(a.t, c, fmt.Sprintf(`{"session_id":%q,"cwd":%q,"hook_event_name":"SessionEnd"}`, a.session, a.workspace))
}

func (w *world) waiting() (n int) {
	w.t.Helper()
	var list struct{ Items []any }
	decode(w.t, w.must(0, "approvals", "--json"), &list)
	return len(list.Items)
}

// What the policy asks about is asked by the agent before the command runs, and the answer holds for that command alone.
func TestTheAgentAsksAboutACommand(t *testing.T) {
	w, _ := shells(t)
	policy := w.beside("ask.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**'], ask: ['touch **'], deny: ['rm **']}\n")
	a := &hooked{w, t, policy, "s1", "default"}
	made := func() bool {
		_, err := os.Stat(filepath.Join(w.workspace, "made"))
		_ = os.Remove(filepath.Join(w.workspace, "made"))
		return err == nil
	}
	if r, question := a.do("echo hi"); r.status != 0 || r.out != "hi\n" || question != "" {
		t.Errorf("an allowed command: %+v, %q", r, question)
	}
	if r, question := a.do("touch made; rm made"); r.status != 3 || question != "" || made() {
		t.Errorf("a denied command: %+v, %q", r, question)
	}
	line, question := a.line("cd . && touch made")
	if !strings.Contains(question, "touch") || made() {
		t.Fatalf("the question is %q", question)
	}
	if again, _ := a.line("cd . && touch made"); again != line {
		t.Errorf("another question for the same command: %s\n%s", line, again)
	}
	id := regexp.MustCompile(`'--approved' '([0-9a-f-]+)'`).FindStringSubmatch(line)
	if id == nil {
		t.Fatalf("no question in %s", line)
	}
	for name, changed := range map[string]string{
		"another script":    strings.Replace(line, "touch made", "touch made ", 1),
		"another policy":    strings.Replace(line, policy, w.beside("p2.yaml", strings.Replace(policyText(t, policy), "ask: [", "ask: ['true', ", 1)), 1),
		"another question":  strings.Replace(line, id[1], strings.Repeat("0", 8)+id[1][8:], 1),
		"no question":       strings.Replace(line, id[0], "", 1),
		"another workspace": strings.Replace(line, w.workspace, w.mkdirIn("sub"), 1),
	} {
		if changed == line {
			t.Fatalf("%s: nothing was changed in %s", name, line)
		}
		if r := a.bash(changed); r.status == 0 || made() {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := a.bash(line); r.status != 0 || !made() {
		t.Errorf("after the yes: %+v", r)
	}
	if r := a.bash(line); r.status == 0 || made() {
		t.Errorf("the yes was used twice: %+v", r)
	}
	a.mode = "bypassPermissions"
	if r, question := a.do("touch made"); r.status != 3 || question != "" || made() || !strings.Contains(r.err, "remit approvals approve") {
		t.Errorf("an agent that does not ask: %+v, %q", r, question)
	}
	a.mode = "default"
	a.line("touch made more")
	before := w.waiting()
	if a.ends(); w.waiting() != before-1 { // others were not asked by the agent
		t.Errorf("%d questions wait after the end of the session, %d before", w.waiting(), before)
	}
	w.must(0, "verify")
}

func policyText(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// One yes lets the commands of a session read from a host, whatever page and program; and nothing else.
func TestTheAgentAsksAboutAHostOnce(t *testing.T) {
	w, _ := shells(t)
	var got []string
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		got = append(got, q.Method+" "+q.URL.Path)
		_, _ = rw.Write([]byte("page " + q.URL.Path + "\n"))
	}))
	t.Cleanup(host.Close)
	policy := w.beside("net.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**']}\nnetwork: {ask: ['"+host.URL+"']}\n")
	a := &hooked{w, t, policy, "s1", "default"}
	curl := func(path string) string { return "curl -sf " + host.URL + path }

	r, question := a.do(curl("/a"))
	if r.status == 0 || question != "" || !strings.Contains(r.err, "run exactly this command again") || len(got) > 0 {
		t.Fatalf("the first time: %+v, %q, %q", r, question, got)
	}
	if r, question := a.do("echo other"); r.out != "other\n" || question != "" {
		t.Errorf("another command: %+v, %q", r, question)
	}
	r, question = a.do(curl("/a"))
	if r.out != "page /a\n" || !strings.Contains(question, host.URL) {
		t.Fatalf("the second time: %+v, %q", r, question)
	}
	for _, path := range []string{"/a", "/b/c?d", "/%20"} {
		if r, question := a.do(curl(path) + "; echo"); r.status != 0 || !strings.HasPrefix(r.out, "page") || question != "" {
			t.Errorf("after the yes, %s: %+v, %q", path, r, question)
		}
	}
	n := len(got)
	for name, script := range map[string]string{"posts": "curl -sf -d x " + host.URL + "/a", "deletes": "curl -sf -X DELETE " + host.URL + "/a"} {
		if r, question := a.do(script); r.status == 0 || question != "" || len(got) != n {
			t.Errorf("%s: %+v, %q, %q", name, r, question, got[n:])
		}
	}
	other := &hooked{w, t, policy, "s2", "default"}
	if r, _ := other.do(curl("/a")); r.status == 0 || len(got) != n {
		t.Errorf("another session: %+v", r)
	}
	w.must(0, "verify")
}

// A file that the text of a script does not name is asked about when the script is made again.
func TestTheAgentAsksAboutAFile(t *testing.T) {
	w, _ := shells(t)
	policy := w.beside("file.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**'], ask: ['*.md']}}\ncommands: {allow: ['**'], untold: allow}\n")
	a := &hooked{w, t, policy, "s1", "default"}
	const script = `printf new | tee "$(echo notes).md" "$(echo more).md" free.txt`
	if r, question := a.do(script); r.status == 0 || question != "" || !strings.Contains(r.err, "run exactly this command again") {
		t.Fatalf("the first time: %+v, %q", r, question)
	}
	if r, question := a.do("printf other"); r.out != "other" || question != "" {
		t.Errorf("another command: %+v, %q", r, question)
	}
	line, question := a.line(script)
	if !strings.Contains(question, "notes.md") || !strings.Contains(question, "more.md") || strings.Contains(question, "free.txt") {
		t.Fatalf("the question is %q", question)
	}
	if r := a.bash(line); r.status != 0 || policyText(t, filepath.Join(w.workspace, "notes.md")) != "new" {
		t.Errorf("after the yes: %+v", r)
	}
	if r := a.bash(line); r.status == 0 {
		t.Errorf("the yes was used twice: %+v", r)
	}
}

// A package manager's registries are asked about before it runs, all in one question.
func TestTheAgentAsksAboutRegistriesFirst(t *testing.T) {
	w, r := npmWorld(t)
	w.keeper()
	r.publish("tiny", tiny("1.0.0", published{Scripts: map[string]string{}}))
	w.write("package.json", `{"name":"p","version":"1.0.0","dependencies":{"tiny":"^1.0.0"}}`)
	w.write(".npmrc", "registry="+r.url+"/\n")
	policy := w.beside("npm.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**', '.npmrc']}}\ncommands: {allow: ['**']}\nsystem: standard\nsandbox: {home: kept}\nnetwork: {ask: ['GET,HEAD "+r.url+"', {url: 'GET,HEAD https://other.test', inspect: true}]}\n")
	policy = w.beside("npm.yaml", strings.Replace(policyText(t, policy), "allow: ['**']}, write", "allow: ['**', '.npmrc']}, write", 1))
	a := &hooked{w, t, policy, "s1", "default"}
	if _, question := a.line("node --version"); question != "" {
		t.Errorf("node --version asks %q", question)
	}
	line, question := a.line("npm install --no-audit --no-fund")
	if !strings.Contains(question, r.url) || !strings.Contains(question, "other.test") || strings.Count(line, "--approved") != 2 {
		t.Fatalf("%q by %s", question, line)
	}
	if r := a.bash(line); r.status != 0 {
		t.Errorf("npm install: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(w.workspace, "node_modules/tiny/index.js")); err != nil {
		t.Error(err)
	}
	if r, question := a.do("rm -rf node_modules && npm ci --no-audit --no-fund"); r.status != 0 || question != "" {
		t.Errorf("npm ci: %+v, %q", r, question)
	}
}

// Commands share the sandbox of their session also where connections are inspected.
func TestInspectedCommandsShareASandbox(t *testing.T) {
	w, _ := shells(t)
	policy := w.beside("net.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**']}\nnetwork: {ask: [{url: 'GET,HEAD https://host.test', inspect: true}]}\n")
	a := &hooked{w, t, policy, "s1", "default"}
	first, _ := a.do("echo left >/tmp/x; md5sum $SSL_CERT_FILE")
	second, _ := a.do("md5sum $SSL_CERT_FILE; cat /tmp/x")
	if first.status != 0 || second.out != first.out+"left\n" {
		t.Errorf("%+v, then %+v", first, second)
	}
}
