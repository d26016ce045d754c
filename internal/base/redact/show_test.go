package redact_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/redact"
)

// TestDisplaysAgreeOnEveryCharacter: each character is shown as a glyph, or as an escape of ASCII. What
// an inspection calls invisible, no display shows as it is.
func TestDisplaysAgreeOnEveryCharacter(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	ignorable := []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		line, text, quoted := redact.Show(s), redact.ShowLines(s), inspect.Visible(s)
		raw := line == s
		if !raw && (strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c > '~' }) || line == "") {
			t.Errorf("%U is shown as %q", r, line)
		}
		if raw && (inspect.Invisible(r) || unicode.In(r, ignorable...) || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) && r != ' ') {
			t.Errorf("%U is shown as it is", r)
		}
		if text != line && r != '\n' && r != '\t' {
			t.Errorf("%U is %q on a line, and %q in a text", r, line, text)
		}
		if (quoted == s) != !inspect.Invisible(r) || inspect.HasInvisible(s) != inspect.Invisible(r) {
			t.Errorf("%U: an inspection quotes %q, and calls it invisible: %v", r, quoted, inspect.Invisible(r))
		}
	}
}
