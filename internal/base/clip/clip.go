// Package clip shortens text for messages and reports. Start at [Text].
package clip

import (
	"strings"
	"unicode/utf8"
)

// joiner joins the symbols of an emoji. At a cut it joins nothing and is invisible.
const joiner = "\u200d"

// Text shortens text to at most most bytes in whole characters, and marks the cut.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.TrimRight(strings.ToValidUTF8(Prefix(s, most), ""), joiner) + "…"
}

// Prefix is the beginning of text, of at most most bytes in whole characters.
func Prefix(s string, most int) string {
	if len(s) <= most {
		return s
	}
	most = max(most, 0)
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// Suffix is the end of text, of at most most bytes in whole characters.
func Suffix(s string, most int) string {
	if len(s) <= most {
		return s
	}
	at := len(s) - max(most, 0)
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}
