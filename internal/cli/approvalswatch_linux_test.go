package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

// readable waits until a question has been on the screen for more than half a second: its
// countdown has moved twice.
func readable(await func(string)) {
	for range 3 {
		await(" left")
	}
}

// A person at another terminal sees a waiting call in full, refuses it with a reason, and allows
// the next one; the caller learns both.
func TestWatchAnswersFromAnotherTerminal(t *testing.T) {
	r := newRemit(t)
	run := func(content string) chan string {
		args := append(r.asking(content), "--wait")
		done := make(chan string, 1)
		go func() {
			var out bytes.Buffer
			r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, args...)
			done <- out.String()
		}()
		return done
	}
	first := run("first text")
	mine, await, done := r.onTerminal("", []string{"NO_COLOR=1"}, "approvals", "watch")
	await("argument content | first text")
	await("rule | files.write.ask[0]")
	readable(await)
	type_(t, mine, "n")
	await("reason for the caller")
	type_(t, mine, "not today\r")
	await(": denied")
	if out := <-first; !strings.Contains(out, "not today") {
		t.Errorf("the caller was told %s", out)
	}
	second := run("second text")
	await("argument content | second text")
	readable(await)
	type_(t, mine, "y")
	await(": approved")
	if out := <-second; !strings.Contains(out, "completed") {
		t.Errorf("the caller was told %s", out)
	}
	type_(t, mine, "q")
	ends(t, done, 0)
	b, err := os.ReadFile(filepath.Join(r.dir, "out", "a.txt"))
	must(t, err)
	if string(b) != "second text" {
		t.Errorf("written: %q", b)
	}
}

func TestWatchNeedsATerminal(t *testing.T) {
	r := newRemit(t)
	for name, tt := range map[string]struct {
		environ []string
		args    []string
		status  int
		want    string
	}{
		"a pipe":          {nil, []string{"approvals", "watch"}, 2, "needs a terminal"},
		"under a grant":   {[]string{"REMIT_GRANT=remit1_x"}, []string{"approvals", "watch"}, 3, "cannot approve calls"},
		"approvals, JSON": {nil, []string{"approvals", "watch", "--json"}, 2, "needs a terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			status := r.mainWith(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, tt.environ, tt.args...)
			if status != tt.status || !strings.Contains(out.String(), tt.want) {
				t.Errorf("status %d: %s", status, out.String())
			}
		})
	}
}
