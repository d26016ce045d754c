package glyph

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	textStyle  = 0xFE0E // presentation selectors
	emojiStyle = 0xFE0F
	joiner     = 0x200D
	keycap     = 0x20E3

	maxJoined = 8 // symbols of one emoji; Unicode's longest have four
)

// symbol reports whether a character can be a part of an emoji by itself: it has the category So,
// Symbol other, or is one of the emoji that Unicode files elsewhere.
func symbol(r rune) bool {
	switch r {
	case 0x203C, 0x2049, 0x2139, 0x2194, 0x25FB, 0x25FC, 0x25FD, 0x25FE, 0x2934, 0x2935, 0x3030:
		return true
	case utf8.RuneError:
		return false
	}
	return unicode.Is(unicode.So, r) && Visible(r)
}

// Emoji returns the length in bytes of the emoji of several characters at the start of s, or 0.
// An emoji is a visible symbol, optionally one presentation selector and one skin tone, and up to
// seven such symbols behind joiners; or a keycap. Its selectors and joiners are part of what a
// reader sees. Elsewhere they are invisible. A display copies an emoji, and looks at each other
// character with [Visible] or [Plain].
func Emoji(s string) int {
	n, _ := scan(s)
	if _, first := utf8.DecodeRuneInString(s); n == first {
		return 0
	}
	return n
}

// Settled returns the length of the part of s whose display does not depend on the text after s.
// A display of text that arrives in pieces keeps the remainder for the next piece. The remainder
// is less than 200 bytes long.
func Settled(s string) int {
	for i := 0; i < len(s); {
		n, open := scan(s[i:])
		if open {
			return i
		}
		if n == 0 {
			_, n = utf8.DecodeRuneInString(s[i:])
		}
		i += n
	}
	return len(s)
}

// scan returns the length of the symbol or emoji at the start of s, 0 for other text. It is open
// if the text after s could continue it.
func scan(s string) (n int, open bool) {
	if s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '#' || s[0] == '*') {
		return scanKeycap(s)
	}
	n, joins, open := scanSymbol(s)
	for count := 1; joins && count < maxJoined; count++ {
		rest, found := strings.CutPrefix(s[n:], string(rune(joiner)))
		if !found {
			return n, rest == ""
		}
		if rest == "" {
			return n, true
		}
		var more int
		if more, joins, open = scanSymbol(rest); more == 0 {
			return n, false
		}
		n = len(s) - len(rest) + more
	}
	return n, open
}

// scanKeycap scans a digit, # or * that can be the label of a key.
func scanKeycap(s string) (n int, open bool) {
	rest := s[1:]
	if r, size := utf8.DecodeRuneInString(rest); r == emojiStyle || r == textStyle {
		rest = rest[size:]
	}
	if rest == "" {
		return 0, true
	}
	if r, size := utf8.DecodeRuneInString(rest); r == keycap {
		return len(s) - len(rest) + size, false
	}
	return 0, false
}

// scanSymbol scans a symbol with its selector and skin tone. A symbol in text style joins no
// other.
func scanSymbol(s string) (n int, joins, open bool) {
	r, n := utf8.DecodeRuneInString(s)
	if !symbol(r) {
		return 0, false, false
	}
	next, size := utf8.DecodeRuneInString(s[n:])
	joins = next != textStyle
	if next == textStyle || next == emojiStyle {
		n += size
		next, size = utf8.DecodeRuneInString(s[n:])
	}
	if joins && next >= 0x1F3FB && next <= 0x1F3FF { // skin tones
		n += size
	}
	return n, joins, joins && n == len(s)
}
