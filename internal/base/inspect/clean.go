// Package inspect checks untrusted descriptions of tools. It removes invisible
// characters ([Clean]), finds names that look alike ([Keys]), and finds instructions
// to a model in a tool's description ([Text], [Schema]). It is pure and refuses
// nothing: the caller acts on the findings.
package inspect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Invisible reports whether a character shows nothing, or changes how others show:
// controls but the line's end and the tab, formats (zero width, joiners,
// bidirectional controls, the block of tags), variation selectors, fillers, private
// use, and code points that are not characters. A reader does not see them; a model
// does.
func Invisible(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7F
	case r >= 0xE0000 && r <= 0xE0FFF: // tags, selectors, and code points reserved for them
		return true
	}
	switch r {
	case 0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
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

// HasInvisible reports whether a text has invisible characters or is not UTF-8.
func HasInvisible(s string) bool {
	return !clean(s) && (!utf8.ValidString(s) || strings.ContainsFunc(s, Invisible))
}
