package redact

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/glyph"
)

// Show makes untrusted text safe to print on one line of a terminal: control
// characters (also C1), escape sequences, bidirectional and invisible
// characters and bytes that are not UTF-8 become visible, as \x1b or \u202e; a
// line's end becomes \n. Printable text and emoji ([glyph.Emoji]) stay as they are.
func Show(s string) string { return show(s, false) }

// ShowLines is Show for text of several lines: line ends and tabs stay.
func ShowLines(s string) string { return show(s, true) }

func show(s string, lines bool) string {
	if isPlainASCII(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		if n := glyph.Emoji(s[i:]); n > 0 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case lines && (c == '\n' || c == '\t'):
			b.WriteRune(c)
		case lines && c == '\r' && strings.HasPrefix(s[i+1:], "\n"):
			// a line's end of two characters is one line's end
		case glyph.Plain(c):
			b.WriteRune(c)
		default:
			b.WriteString(escape(c))
		}
		i += n
	}
	return b.String()
}

// isPlainASCII reports whether s is nothing but printable ASCII.
func isPlainASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func escape(c rune) string {
	switch {
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case c < 0x80:
		return fmt.Sprintf(`\x%02x`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\U%08x`, c)
}
