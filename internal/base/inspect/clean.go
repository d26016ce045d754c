// Package inspect checks untrusted descriptions of tools. It removes invisible
// characters ([Clean]), finds names that look alike ([Keys]), and finds instructions
// to a model in a tool's description ([Text], [Schema]). It is pure and refuses
// nothing: the caller acts on the findings.
package inspect

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/glyph"
)

// Invisible reports whether a reader does not see a character ([glyph.Visible]); a model does.
// The line's end and the tab are not invisible.
func Invisible(r rune) bool {
	return r != '\n' && r != '\t' && !glyph.Visible(r)
}

// Clean returns a text as a model may read it: without invisible characters, with
// line ends as "\n", spaces as " ", and invalid UTF-8 as U+FFFD. A clean text stays
// as it is.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r' && !strings.HasPrefix(s[i+n:], "\n"), r == 0x85, r == 0x2028, r == 0x2029:
			b.WriteByte('\n')
		case Invisible(r):
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r) // U+FFFD for an invalid byte
		}
		i += n
	}
	return b.String()
}

func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

// HasInvisible reports whether a name or a cleaned text has invisible characters or is not UTF-8.
// The selectors and joiners of emoji count, as [Clean] removes them.
func HasInvisible(s string) bool {
	return !clean(s) && (!utf8.ValidString(s) || strings.ContainsFunc(s, Invisible))
}
