package learn

import (
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/base/regex"
)

// looks finds texts that must not be written down or that will not recur. All
// others may stay unchanged.
type looks struct {
	secret func(string) bool
}

// once are parts of names that are made up anew each time: UUIDs, hexadecimal
// and other random runs, timestamps, and what mktemp and its like make.
var once = regex.Lazy(
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}` +
		`|\d{4}-?\d{2}-?\d{2}[T_ -]?\d{2}[:.-]?\d{2}[:.-]?\d{2}(?:[.,]\d+)?Z?` +
		`|\d{9,}` +
		`|\btmp[._-]?[A-Za-z0-9_]{6,}` +
		`|[0-9a-fA-F]{8,}` +
		`|[A-Za-z0-9]{16,}`)

// volatile returns the byte range of the first part of a name that is not to be
// written down. ok is false if there is none.
func (l looks) volatile(name string) (from, to int, ok bool) {
	if l.isSecret(name) {
		return 0, len(name), true
	}
	for _, at := range once.FindAllStringIndex(name, -1) {
		if madeUp(name[at[0]:at[1]]) {
			return at[0], at[1], true
		}
	}
	return 0, 0, false
}

func (l looks) isSecret(s string) bool { return l.secret != nil && l.secret(s) }

// madeUp tells the random runs that the expression finds from words: a word
// does not mix letters and digits throughout, and mixed case comes in humps.
func madeUp(s string) bool {
	if strings.HasPrefix(s, "tmp") {
		return true
	}
	letters, digits, switches, last := 0, 0, 0, 0
	for _, r := range s {
		kind := 0
		switch {
		case unicode.IsDigit(r):
			digits++
			kind = 1
		case unicode.IsLetter(r):
			letters++
			kind = 2
			if unicode.IsUpper(r) {
				kind = 3
			}
		}
		if kind != 0 && last != 0 && kind != last {
			switches++
		}
		if kind != 0 {
			last = kind
		}
	}
	switch {
	case letters == 0:
		return digits >= 8
	case digits == 0:
		return switches*2 >= letters && letters >= 16
	}
	return digits >= 2 && switches >= 3 || digits >= 6 && switches >= 2
}

// mask writes … for each part of a text that is not to be written down.
func (l looks) mask(s string) string {
	if l.isSecret(s) {
		return "…"
	}
	var b strings.Builder
	for s != "" {
		from, to, ok := l.volatile(s)
		if !ok {
			break
		}
		b.WriteString(s[:from] + "…")
		s = s[to:]
	}
	b.WriteString(s)
	out := b.String()
	const most = 160
	if len(out) > most {
		out = strings.ToValidUTF8(out[:most], "") + "…"
	}
	return out
}

// identifier reports whether a segment of a URL is one of many of its kind.
func (l looks) identifier(seg string) bool {
	if _, _, ok := l.volatile(seg); ok {
		return true
	}
	return seg != "" && strings.Trim(seg, "0123456789") == ""
}
