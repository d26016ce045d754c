package e2e_test

import (
	"strings"
	"testing"
)

// What the commands of a hooked agent changed is undone, one command after the other, and nothing that the person changed
// since.
func TestCommandsOfAnAgentAreUndone(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	w.write("a.txt", "first\n")
	w.write("d/b.txt", "b\n")
	for _, script := range []string{"echo second > a.txt", "sed -i s/second/third/ a.txt; mv d e; echo new > e/c.txt", "cat a.txt e/b.txt"} {
		if out := w.in("a", w.workspace, script); out != "" && !strings.HasPrefix(script, "cat") {
			t.Fatalf("%s prints %s", script, out)
		}
	}
	shows := func(want string) {
		t.Helper()
		if got := w.in("b", w.workspace, "cat a.txt; find d e -type f 2>/dev/null | sort"); got != want {
			t.Errorf("there is %q, want %q", got, want)
		}
	}
	shows("third\ne/b.txt\ne/c.txt\n")
	if out := w.must(0, "undo", "last"); !strings.Contains(out, "e/c.txt") {
		t.Errorf("it prints %s", out)
	}
	shows("second\nd/b.txt\n")
	w.write("a.txt", "of the person\n")
	if r := w.remit("undo", "last"); r.status != 1 || !strings.Contains(r.err, "a.txt") || !strings.Contains(r.err, "--force") {
		t.Errorf("%d: it prints %s", r.status, r.err)
	}
	shows("of the person\nd/b.txt\n")
	w.must(0, "undo", "last", "--force", "a.txt")
	shows("first\nd/b.txt\n")
	w.must(1, "undo", "last")
	w.must(0, "verify")
}
