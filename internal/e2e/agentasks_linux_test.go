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
	"time"
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
	id := approved(t, line)
	for name, changed := range map[string]string{
		"another script":    strings.Replace(line, "touch made", "touch made ", 1),
		"another policy":    strings.Replace(line, policy, w.beside("p2.yaml", strings.Replace(policyText(t, policy), "ask: [", "ask: ['true', ", 1)), 1),
		"another question":  strings.Replace(line, id, strings.Repeat("0", 8)+id[8:], 1),
		"no question":       strings.Replace(line, "'--approved' '"+id+"'", "", 1),
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
	if a.ends(); w.waiting() != 2 { // of another policy and another workspace
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
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got = append(got, "other "+q.Method) }))
	t.Cleanup(other.Close)
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/away" {
			http.Redirect(rw, q, "http://"+other.Listener.Addr().String()+"/a", http.StatusFound)
			return
		}
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
	for name, script := range map[string]string{
		"posts": "curl -sf -d x " + host.URL + "/a", "deletes": "curl -sf -X DELETE " + host.URL + "/a", "another port": "curl -sf " + other.URL,
		"a redirect": "curl -sfL " + host.URL + "/away", "posts in a tunnel": "curl -sfp -d x " + host.URL + "/a", "another port in a tunnel": "curl -sfp " + other.URL,
	} {
		if r, question := a.do(script); r.status == 0 || question != "" || len(got) != n {
			t.Errorf("%s: %+v, %q, %q", name, r, question, got[n:])
		}
	}
	for name, then := range map[string]*hooked{
		"another session":        {w, t, policy, "s2", "default"},
		"another agent's policy": {w, t, w.beside("later.yaml", policyText(t, policy)+"approvals: {session: true}\n"), "s1", "default"},
		"a policy that denies":   {w, t, w.beside("deny.yaml", strings.Replace(policyText(t, policy), "network: {ask", "network: {deny", 1)), "s1", "default"},
	} {
		if r, question := then.do(curl("/a")); r.status == 0 || question != "" || len(got) != n {
			t.Errorf("%s: %+v, %q", name, r, question)
		}
	}
	a.ends()
	if r, question := a.do(curl("/a")); r.status == 0 || question != "" || len(got) != n {
		t.Errorf("after the end of the session: %+v, %q", r, question)
	}
	short := &hooked{w, t, w.beside("short.yaml", policyText(t, policy)+"approvals: {expires: 1ms}\n"), "s1", "default"}
	short.do(curl("/a"))
	if r, question := short.do(curl("/a")); r.status == 0 || question == "" || len(got) != n {
		t.Errorf("a yes whose time is over: %+v, %q", r, question)
	}
	w.must(0, "verify")
}

// A file that the text of a script does not name is asked about when the script is made again.
func TestTheAgentAsksAboutAFile(t *testing.T) {
	w, _ := shells(t)
	policy := w.beside("file.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**'], ask: ['*.md']}}\ncommands: {allow: ['**'], untold: allow}\n")
	a := &hooked{w, t, policy, "s1", "default"}
	const script = `printf new 2>&1 <a.txt | tee "$(echo notes).md" "$(echo more).md" free.txt` // with characters that JSON may escape
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

// A yes is of the session that asked, also where another session asks the same at the same moment, and for as many people as
// the policy wants.
func TestAYesIsOfTheSessionThatAsked(t *testing.T) {
	w, _ := shells(t)
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("page")) }))
	t.Cleanup(host.Close)
	text := "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**'], ask: ['*.md']}}\ncommands: {allow: ['**'], untold: allow, ask: ['seq **', 'expr **']}\nnetwork: {ask: ['" + host.URL + "']}\n"
	policy := w.beside("ask.yaml", text)
	const script = "seq 1"
	curl := "curl -sf " + host.URL
	one, two, deaf := &hooked{w, t, policy, "s1", "default"}, &hooked{w, t, policy, "s2", "default"}, &hooked{w, t, policy, "s3", "bypassPermissions"}

	for _, what := range []string{script, curl} {
		if what == curl { // asked about after the refusal
			one.do(what)
			two.do(what)
		}
		first, _ := one.line(what)
		second, question := two.line(what)
		if question == "" || approved(t, first) == approved(t, second) {
			t.Fatalf("%s is asked about by %s\nand %s", what, first, second)
		}
		forged := strings.Replace(second, approved(t, second), approved(t, first), 1)
		if r := two.bash(forged); r.status == 0 {
			t.Errorf("%s by the question of another session: %+v", what, r)
		}
		if r := two.bash(second); r.status != 0 {
			t.Errorf("%s after the yes: %+v", what, r)
		}
		if r := one.bash(strings.Replace(first, "'--approved' '"+approved(t, first)+"'", "", 1)); r.status == 0 {
			t.Errorf("%s by the yes of another session: %+v", what, r)
		}
		if r := one.bash(first); r.status != 0 {
			t.Errorf("%s after its own yes: %+v", what, r)
		}
	}

	line, _ := one.line("seq 2") // answered elsewhere
	w.must(0, "approvals", "approve", approved(t, line))
	if r, _ := deaf.do("seq 2"); r.status == 0 {
		t.Errorf("a yes that another session has not used yet: %+v", r)
	}
	if r, question := one.do("seq 2"); r.status != 0 || question != "" {
		t.Errorf("a yes given elsewhere: %+v, %q", r, question)
	}
	line, _ = one.line("seq 3")
	w.must(0, "approvals", "approve", "--session", approved(t, line))
	for range 2 {
		if r, question := one.do("seq 3"); r.status != 0 || question != "" {
			t.Errorf("a yes for the session: %+v, %q", r, question)
		}
	}

	if _, question := one.line("seq 1; echo \u202e; expr 1"); !strings.Contains(question, `seq **`) || !strings.Contains(question, `expr **`) || !strings.Contains(question, `echo \u202e; expr 1`) {
		t.Errorf("the question does not tell all: %q", question)
	}
	for more, want := range map[string]string{"approvers: 2": "2 people answer with: remit approvals approve", "roles: [boss]": "the role boss answers"} {
		a := &hooked{w, t, w.beside("more.yaml", text+"approvals: {"+more+"}\n"), "s1", "default"}
		for _, script := range []string{"seq 1", curl} {
			for range 2 {
				if r, question := a.do(script); r.status == 0 || question != "" || !strings.Contains(r.err, want) || strings.Contains(r.err, "your user is then asked") {
					t.Errorf("%s, %s: %+v, %q", more, script, r, question)
				}
			}
		}
	}
	a := &hooked{w, t, w.beside("once.yaml", text+"approvals: {session: false, timeout: 1ms}\n"), "s1", "default"}
	for _, script := range []string{curl, "echo 1 >$(echo a).md"} {
		for i := range 4 { // refused, asked about and run, and again
			if r, question := a.do(script); (question != "") != (i%2 == 1) || (r.status == 0) != (i%2 == 1) {
				t.Errorf("the run %d of %s: %+v, %q", i, script, r, question)
			}
		}
	}
	w.must(0, "verify")
}

// approved is the question in a command line.
func approved(t *testing.T, line string) string {
	t.Helper()
	id := regexp.MustCompile(`'--approved' '([0-9a-f-]+)'`).FindAllStringSubmatch(line, -1)
	if len(id) != 1 {
		t.Fatalf("%d questions in %s", len(id), line)
	}
	return id[0][1]
}

// Processes that are killed lose no yes before the script has begun, and use none twice after that.
func TestKilledWhileTheAgentAsks(t *testing.T) {
	w, _ := shells(t)
	policy := w.beside("ask.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**'], ask: ['tee **']}\n")
	a := &hooked{w, t, policy, "s1", "default"}
	const script = "echo begun | tee -a begun; sleep 60"
	keeper := func() *os.Process {
		p, err := os.FindProcess(w.keeperPID())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, victim := range map[string]func(shell *os.Process) *os.Process{
		"the keeper": func(*os.Process) *os.Process { return keeper() },
		"the shell":  func(shell *os.Process) *os.Process { return shell },
	} {
		begun := filepath.Join(w.workspace, "begun")
		_ = os.Remove(begun)
		line, _ := a.line(script)
		w.must(0, "approvals", "approve", approved(t, line))
		_ = keeper().Kill() // after the yes
		w.keeper()
		c := a.command()
		c.Path, c.Args, c.Dir = "/bin/bash", []string{"bash", "-c", "exec " + line}, a.workspace
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for b := []byte(nil); len(b) == 0; b, _ = os.ReadFile(begun) {
			time.Sleep(time.Millisecond)
		}
		_ = victim(c.Process).Kill() // after the script has begun
		_ = c.Wait()
		w.keeper()
		if r := a.bash(line); r.status == 0 || policyText(t, begun) != "begun\n" {
			t.Errorf("%s was killed, and the yes used again: %+v", name, r)
		}
	}
	a.ends()
	if n := w.waiting(); n != 0 {
		t.Errorf("%d questions wait", n)
	}
	w.must(0, "verify")
}
