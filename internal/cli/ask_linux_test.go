package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/cli"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// onTerminal runs a command line on a terminal. Before it begins, typed is typed there.
func (r *remit) onTerminal(typed string, environ []string, args ...string) (mine *os.File, await func(want string), done chan int) {
	r.t.Helper()
	mine, theirs := openTerminal(r.t)
	must(r.t, sandbox.Resize(mine, 110, 40))
	_, err := mine.WriteString(typed)
	must(r.t, err)
	await = screenOf(r.t, mine)
	done = make(chan int, 1)
	go func() {
		done <- r.mainWith(cli.Streams{In: theirs, Out: theirs, Err: theirs}, environ, args...)
		_ = theirs.Close()
	}()
	return mine, await, done
}

// asking writes a plan whose one call needs approval, and gives the command line for it.
func (r *remit) asking(content string) []string {
	dir := filepath.Join(r.dir, "..")
	must(r.t, os.WriteFile(filepath.Join(dir, "ask.yaml"), []byte("version: 1\nfiles: {write: {ask: ['**']}}\n"), 0o600))
	plan := "version: 1\nsteps:\n  - {tool: fs.write, args: {path: out/a.txt, content: \"" + content + "\"}}\n"
	must(r.t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o600))
	return []string{"run", filepath.Join(dir, "plan.yaml"), "-p", filepath.Join(dir, "ask.yaml"), "-w", r.dir}
}

func ends(t *testing.T, done chan int, want int) {
	t.Helper()
	select {
	case status := <-done:
		if status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

func type_(t *testing.T, mine *os.File, keys string) {
	t.Helper()
	_, err := mine.WriteString(keys)
	must(t, err)
}

// What was typed before a question could be read is no answer to it, whole lines and
// half ones; and only an answer that is listed is one.
func TestTypeAheadAnswersNoQuestion(t *testing.T) {
	r := newRemit(t)
	mine, await, done := r.onTerminal("y\ry\ry", nil, r.asking("x")...)
	await("needs approval")
	type_(t, mine, "y\r") // at once, before the question can be read
	await("help (?)? ")
	if _, err := os.Stat(filepath.Join(r.dir, "out", "a.txt")); err == nil {
		t.Error("what was typed ahead was taken as the answer")
	}
	for _, step := range [][2]string{
		{"\r", `"" is not an answer`}, {"sure\r", `"sure" is not an answer`}, {"y please\r", `"y please" is not an answer`},
		{"?\r", "allow exactly this call, once"}, {"v\r", "argument content | x"},
	} {
		type_(t, mine, step[0])
		await(step[1])
		await("help (?)? ")
	}
	if _, err := os.Stat(filepath.Join(r.dir, "out", "a.txt")); err == nil {
		t.Error("an answer that is not listed was taken as a yes")
	}
	type_(t, mine, "y\r")
	await("completed")
	ends(t, done, 0)
}

// A second question is not answered with what was typed for the first.
func TestAnAnswerIsForOneQuestion(t *testing.T) {
	r := newRemit(t)
	args := r.asking("x")
	plan := "version: 1\nsteps:\n  - {tool: fs.write, args: {path: out/a.txt, content: a}}\n  - {tool: fs.write, args: {path: out/b.txt, content: b}}\n"
	must(t, os.WriteFile(args[1], []byte(plan), 0o600))
	mine, await, done := r.onTerminal("", nil, args...)
	await("help (?)? ")
	type_(t, mine, "y\ry\ry\r")
	await("step 2, fs.write, needs approval")
	await("help (?)? ")
	type_(t, mine, "n not this one\r")
	await("not this one")
	await("denied")
	ends(t, done, 3)
	if _, err := os.Stat(filepath.Join(r.dir, "out", "b.txt")); err == nil {
		t.Error("it was written")
	}
}

// What a terminal cuts is given with its length and digest, and is shown whole on demand;
// no shape of a secret hides a part of it.
func TestATerminalShowsAllThatIsApproved(t *testing.T) {
	r := newRemit(t)
	content := "cookie=1; " + strings.Repeat("# password=hunter2hunter2 ", 100) + "the end of it"
	mine, await, done := r.onTerminal("", nil, r.asking(content)...)
	await("cookie=1; # password=hunter2hunter2")
	await("bytes, sha256 ")
	await("cut; answer v")
	await("help (?)? ")
	type_(t, mine, "v\r")
	await("argument content, ")
	await("the end of it")
	await("help (?)? ")
	type_(t, mine, "\x04") // the end of what is typed is a no
	await("denied")
	ends(t, done, 3)
}

// A process that acts under a grant drives its own terminal: it is not asked.
func TestADelegateIsNotAskedOnItsTerminal(t *testing.T) {
	r := newRemit(t)
	args := r.asking("x")
	policy := args[3]
	var token strings.Builder
	if status := r.main(cli.Streams{In: strings.NewReader(""), Out: &token, Err: os.Stderr}, "grant", "issue", "-p", policy, "-w", r.dir, "--holder", "agent:x"); status != 0 {
		t.Fatal(status)
	}
	grant := token.String()
	i := strings.Index(grant, "remit1_")
	if i < 0 {
		t.Fatalf("no token in %q", grant)
	}
	_, await, done := r.onTerminal("", []string{"REMIT_GRANT=" + strings.Fields(grant[i:])[0]}, "run", args[1], "-w", r.dir)
	await("E1002")
	ends(t, done, 3)
	if status := r.main(cli.Streams{In: strings.NewReader(""), Out: &token, Err: os.Stderr}, args...); status != 3 { // no terminal either: filed for others
		t.Errorf("status %d", status)
	}
}

// The same holds in a chat.
func TestTypeAheadAnswersNoQuestionOfAChat(t *testing.T) {
	r := newRemit(t)
	dir := filepath.Join(r.dir, "..")
	policy, script := filepath.Join(dir, "chat.yaml"), filepath.Join(dir, "answers.yaml")
	must(t, os.WriteFile(policy, []byte("version: 1\nfiles: {read: {allow: ["+strconv.Quote(script)+"], ask: ['*.txt']}}\nmodels: {allow: ['scripted:*']}\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(r.dir, "note.txt"), []byte("hello"), 0o600))
	must(t, os.WriteFile(script, []byte("- tool_calls: [{name: fs_read, args: {path: note.txt}}]\n- text: Done.\n"), 0o600))
	mine, await, done := r.onTerminal("", nil, "chat", "--model", "scripted:"+script, "-p", policy, "-w", r.dir)
	await("› ")
	type_(t, mine, "read it\ry\ry\r") // typed in one go: the question comes later
	await("needs approval")
	type_(t, mine, "y\r")
	await("help (?)? ")
	type_(t, mine, "what\r")
	await(`"what" is not an answer`)
	await("help (?)? ")
	type_(t, mine, "n no\r")
	await("denied")
	await("Done.")
	await("› ")
	type_(t, mine, "\x04")
	ends(t, done, 0)
}
