// Package difftest draws texts whose lines look like the syntax of differences, for tests of
// displays.
package difftest

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/diff"
)

// lines look like syntax, are invisible, or are nearly equal.
var lines = []string{
	"", " ", "a", "b", "a ", "\ta", "+", "-", "=", "@", "\\", "++ x", "-- x", "+++ b/x", "--- a/x", "+++", "---", "++", "--", "@@ -1 +1 @@", "@@ -1,1 +1,1 @@", "@@",
	diff.NoEnd, " " + diff.NoEnd, "diff --git a/x b/x", "diff a/x b/x", "index 0000000..1111111 100644", "Binary files a/x and b/x differ", "a\r", "\r", "a\rb", "a\u2028b", "a\u0085b",
	"\u200b", "a\u200b", "a\ufe00", "\u202ea", "\x1b[2Ka", "<b>", "</span>", "&lt;", "{{.}}", "%s", "\"", "+ a", "- a", "  a", "\x00", "\xff",
}

// Texts draws an old and a new text.
func Texts(t *rapid.T) (old, now string) {
	one := rapid.OneOf(rapid.SampledFrom(lines), rapid.SampledFrom(lines), rapid.StringMatching(`[+@ \\=-]{0,4}[ab]?`))
	draw := func(name string) string {
		text := strings.Join(rapid.SliceOfN(one, 0, 12).Draw(t, name), "\n")
		if rapid.Bool().Draw(t, name+" ends") {
			text += "\n"
		}
		return text
	}
	old = draw("old")
	if rapid.Bool().Draw(t, "unrelated") {
		return old, draw("new")
	}
	kept := strings.SplitAfter(old, "\n")
	at := rapid.IntRange(0, len(kept)).Draw(t, "at")
	return old, strings.Join(slices.Insert(kept, at, draw("inserted")), "")
}

// Changed lists the changed lines of hunks, each after its sign, as a display must show them once.
func Changed(hunks []diff.Hunk, show func(string) string) []string {
	var out []string
	for _, h := range hunks {
		for _, l := range h.Lines {
			if l.Op != diff.Same {
				out = append(out, l.Op+show(l.Text))
			}
		}
	}
	return out
}
