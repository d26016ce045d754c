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

// screenOf gives what appears on a terminal, and waits for it.
func screenOf(t *testing.T, mine *os.File) (await func(want string)) {
	t.Helper()
	seen := make(chan string)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := mine.Read(buf)
			if n > 0 {
				seen <- string(buf[:n])
			}
			if err != nil {
				close(seen)
				return
			}
		}
	}()
	var all string
	t.Cleanup(func() {
		_ = mine.Close() // what reads from the other end ends with it
		for range seen { // until it ends
		}
	})
	return func(want string) {
		t.Helper()
		end := time.After(time.Minute)
		for {
			if i := strings.Index(all, want); i >= 0 {
				all = all[i+len(want):]
				return
			}
			select {
			case more, ok := <-seen:
				if all += more; !ok {
					t.Fatalf("%q did not come before the end: %q", want, all)
				}
			case <-end:
				t.Fatalf("%q did not come: %q", want, all)
			}
		}
	}
}

// At a terminal a chat completes commands, asks in place, and keeps what was typed
// for the next time; Ctrl-C at the prompt ends a line and not the program.
func TestChatOnATerminal(t *testing.T) {
	r := newRemit(t)
	dir := filepath.Join(r.dir, "..")
	policy, script := filepath.Join(dir, "chat.yaml"), filepath.Join(dir, "answers.yaml")
	must(t, os.WriteFile(policy, []byte("version: 1\nfiles: {read: {allow: ["+strconv.Quote(script)+"], ask: ['*.txt']}}\nmodels: {allow: ['scripted:*']}\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(r.dir, "note.txt"), []byte("hello"), 0o600))
	must(t, os.WriteFile(script, []byte(`
- tool_calls: [{name: fs_read, args: {path: note.txt}}]
- text: "First \e[31mdone\e[0m."
- tool_calls: [{name: fs_read, args: {path: note.txt}}]
- text: "Second done."
`), 0o600))
	mine, theirs := openTerminal(t)
	must(t, sandbox.Resize(mine, 110, 40))
	await := screenOf(t, mine)
	done := make(chan int, 1)
	go func() {
		done <- r.main(cli.Streams{In: theirs, Out: theirs, Err: theirs}, "chat", "--model", "scripted:"+script, "-p", policy, "-w", r.dir)
		_ = theirs.Close()
	}()
	for _, step := range []struct{ keys, want string }{
		{"", "Ctrl-D leaves"},
		{"", "› "},
		{"/he\t", "/help "},
		{"\r", "Shows what there is to call"},
		{"", "› "},
		{"half a line\x03", "/exit leaves"},
		{"", "› "},
		{"read the note\r", "needs approval"},
		{"", "allow once"},
		{"n not now\r", "fs_read"},
		{"", "denied"},
		{"", `First \x1b[31mdone\x1b[0m.`},
		{"", "› "},
		{"again\r", "needs approval"},
		{"", "allow once"},
		{"y\r", "completed"},
		{"", "Second done."},
		{"", "› "},
		{"\x1b[A", "again"},
		{"\x15\x04", ""},
	} {
		_, err := mine.WriteString(step.keys)
		must(t, err)
		await(step.want)
	}
	select {
	case status := <-done:
		if status != 0 {
			t.Errorf("status %d", status)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	list, err := os.ReadFile(filepath.Join(r.home, "chat_history"))
	must(t, err)
	if want := "/help\nread the note\nagain\n"; string(list) != want {
		t.Errorf("the history is %q, want %q", list, want)
	}
}

// On a terminal with colours, an answer's Markdown is rendered; what looks like a link shows
// where it leads, and no escape sequence of the model's reaches the terminal.
func TestChatRendersMarkdown(t *testing.T) {
	r := newRemit(t)
	dir := filepath.Join(r.dir, "..")
	policy, script := filepath.Join(dir, "chat.yaml"), filepath.Join(dir, "answers.yaml")
	must(t, os.WriteFile(policy, []byte("version: 1\nfiles: {read: {allow: ["+strconv.Quote(script)+"]}}\nmodels: {allow: ['scripted:*']}\n"), 0o600))
	must(t, os.WriteFile(script, []byte("- text: \"# Head\\n\\nSome **bold** text, [safe](https://evil.test) \\e]8;;https://evil.test\\a.\\n\\n- one\\n- two\\n\\n```\\ncode\\n```\\n\"\n"), 0o600))
	mine, await, done := r.onTerminal("", []string{"NO_COLOR="}, "chat", "--model", "scripted:"+script, "-p", policy, "-w", r.dir)
	await("› ")
	type_(t, mine, "hello\r")
	for _, want := range []string{"\x1b[1mHead\x1b[0m\r\n", "Some \x1b[1mbold\x1b[0m text, safe", "(https://evil.test)", `\x1b]8;;https://evil.test\x07.`, "• \x1b[0mone\r\n", "• \x1b[0mtwo\r\n", "\x1b[36mcode\x1b[0m\r\n", "› "} {
		await(want)
	}
	type_(t, mine, "\x04")
	ends(t, done, 0)
}
