package diff_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/diff/difftest"
)

// TestHunksLeaveNothingOut: the deleted and unchanged lines of a difference are lines of the old text in
// order, the inserted and unchanged ones of the new text, and the lines between hunks are equal.
func TestHunksLeaveNothingOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := difftest.Texts(t)
		d := diff.New("a/x", []byte(old), "b/x", []byte(now))
		if (d.Text == "") != (old == now) || (len(d.Hunks) == 0) != (old == now) {
			t.Fatalf("%q and %q differ by %+v", old, now, d)
		}
		for _, side := range []struct{ text, not string }{{old, diff.Insert}, {now, diff.Delete}} {
			other, not := now, diff.Delete
			if side.not == diff.Delete {
				other, not = old, diff.Insert
			}
			if got := applied(d.Hunks, side.text, side.not, not); got != other {
				t.Fatalf("%q becomes %q by %+v, want %q", side.text, got, d.Hunks, other)
			}
		}
	})
}

// applied replaces the lines of one side by those of the other.
func applied(hunks []diff.Hunk, text, without, instead string) string {
	lines := strings.SplitAfter(text, "\n")
	var out strings.Builder
	at := 0
	for _, h := range hunks {
		begin := h.Old
		if without == diff.Delete {
			begin = h.New
		}
		n := 0
		for _, l := range h.Lines {
			if l.Op != without {
				n++
			}
		}
		if n > 0 {
			begin--
		}
		out.WriteString(strings.Join(lines[at:begin], ""))
		at = begin + n
		for _, l := range h.Lines {
			if l.Op == instead {
				continue
			}
			out.WriteString(l.Text)
			if !l.NoEnd {
				out.WriteString("\n")
			}
		}
	}
	out.WriteString(strings.Join(lines[at:], ""))
	return out.String()
}
