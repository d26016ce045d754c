package redact

import (
	"strings"
	"unicode"
)

// pemHints begin a private key in PEM. The second one is for a colour of its title.
var pemHints = []string{"-----begin", "-----\x1b["}

// Limits of a private key in PEM.
const (
	maxPEM      = 64 << 10 // bytes of it, with the prefixes and suffixes of its lines
	maxPEMTitle = 200      // bytes of its first line
	maxPEMHead  = 16       // lines of text before its first one of Base64
	maxPEMGap   = 3        // lines of other text within it, one after the other
	minPEMWidth = 40       // characters of its first line of Base64
	minPEMLine  = 16       // characters of a line that is not its last
	minPEMShort = 48       // characters that a key has at least whose lines are all shorter than minPEMWidth
)

// The title and the end of a private key, which can have codes of colours.
var (
	pemColour   = `(?:\x1b|\\u001b|\\x1b|\\033|\\e)\[[0-9;]*[mK]`
	pemTitle    = lazy(`^-----(?:` + pemColour + `)*BEGIN (?:[A-Z0-9 ]|` + pemColour + `)*PRIVATE(?: |` + pemColour + `)*KEY(?:[A-Z ]|` + pemColour + `)*-----`)
	pemEnd      = lazy(`-----(?:` + pemColour + `)*END (?:[A-Z0-9 ]|` + pemColour + `){1,100}-----`)
	pemColoured = lazy(`-----(?:` + pemColour + `)+BEGIN`)
	pemBase64   = lazy(pemColour + `|[A-Za-z0-9+/=]{16,}`)
)

// pemScan is the state of a search for the end of a private key.
type pemScan struct {
	width int             // characters of the key's lines; 0: the first one was not found
	end   int             // of the key's lines
	gap   int             // lines of other text since the last one of Base64
	other bool            // a line of Base64 was shorter or longer: only the key's END line can follow
	short strings.Builder // the lines of Base64 that are too short to begin a key
}

// pemKey finds the private key in PEM at the beginning of a text. Tools write numbers, file names, comment signs and quotes before
// and behind its lines. end is where the key ends; 0: it is none. open reports that the key can go on behind
// the text. Without its END line, a key ends before the first line that is not as long as its others; the last one may be
// shorter.
func pemKey(s string) (end int, open bool) {
	title := pemTitle().FindStringIndex(s[:min(len(s), maxPEMTitle)])
	if title == nil {
		return 0, len(s) < maxPEMTitle && !strings.Contains(s, "\n") && strings.Count(s, "-----") < 2
	}
	var p pemScan
	limit := min(len(s), maxPEM)
	for at := title[1]; at < limit; {
		to, next := lineEnd(s[:limit], at)
		line := s[at:to]
		if m := pemEnd().FindStringIndex(line); m != nil {
			if p.line(line[:m[0]], at); p.width == 0 && !p.folded() {
				return 0, false
			}
			return at + m[1], false
		}
		if lastBegin(line) >= 0 || !p.line(line, at) {
			return p.end, to == len(s) && len(s) < maxPEM // the rest of the line can be the key's end
		}
		at = next
	}
	return p.end, len(s) < maxPEM
}

// lineEnd is where the line at a place of a text ends, and where the next one begins. An escape of a line's end counts.
func lineEnd(s string, at int) (end, next int) {
	for i := at; i < len(s); i++ {
		switch {
		case s[i] == '\n':
			return i, i + 1
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == 'n' || s[i+1] == 'r'):
			return i, i + 2
		}
	}
	return len(s), len(s)
}

// line takes in a line that begins at a place; false: it is not one of the key, and the key's end is not near.
func (p *pemScan) line(line string, at int) bool {
	if strings.Trim(line, " \t\r\"'+,.;()\\") == "" {
		return true
	}
	part := p.part(line)
	n, text, gap := part[1]-part[0], line[part[0]:part[1]], p.gap
	if p.gap++; n >= minPEMLine && p.width > 0 {
		p.gap = 0
	}
	switch {
	case p.width == 0:
		if n < minPEMWidth || gap > 0 && !looksRandom(text) { // behind a header or other text, it can be a path
			if short := shortLine(line); short != "" {
				p.short.WriteString(short)
				p.gap = gap
			}
			return p.gap <= maxPEMHead
		}
		p.width, p.end, p.gap = n, at+part[1], 0
	case n < minPEMLine || p.other:
	case n == p.width:
		p.end = at + part[1]
	default:
		if p.other = true; gap <= 1 && n < p.width && looksRandom(text) {
			p.end = at + part[1] // the last line
		}
	}
	return p.gap <= maxPEMGap
}

// folded reports whether the lines that are too short to begin a key are a key's all the same. Words have fewer digits.
func (p *pemScan) folded() bool {
	s := p.short.String()
	digits := len(s) - len(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, s))
	return len(s) >= minPEMShort && looksRandom(s) && digits > len(s)/32
}

// shortLine is the text in Base64 that a line consists of, but for numbers and signs around it; "": it has other text.
func shortLine(line string) string {
	found := pemBase64().FindAllStringIndex(line, 2)
	if len(found) != 1 || strings.ContainsFunc(line[:found[0][0]]+line[found[0][1]:], unicode.IsLetter) {
		return ""
	}
	return line[found[0][0]:found[0][1]]
}

// part is the part of a line that a key's line can be: a text in Base64 as long as the key's other lines, or else the last one if
// no word stands behind it, or else the first very long one that is not a path or in a header.
func (p *pemScan) part(line string) (part [2]int) {
	var long [2]int
	tail := 0 // where the text behind the part begins
	words := false
	for _, m := range pemBase64().FindAllStringIndex(line, -1) {
		switch c := line[m[0]]; {
		case c == '\\' || c == '\x1b':
			words = words || strings.ContainsFunc(line[tail:m[0]], isWordRune)
		case m[1]-m[0] == p.width:
			return [2]int{m[0], m[1]}
		default:
			if part, words = [2]int{m[0], m[1]}, false; long[1] == 0 && part[1]-part[0] >= minPEMWidth && !isPath(line[m[1]:]) {
				long = part
			}
		}
		tail = m[1]
	}
	if n := part[1] - part[0]; words || strings.ContainsFunc(line[tail:], isWordRune) || p.width == 0 && n < minPEMWidth {
		return long
	}
	return part
}

// isPath reports whether a text behind one in Base64 shows that it is of a path or a header.
func isPath(behind string) bool {
	return behind != "" && strings.IndexByte(":.-_", behind[0]) >= 0 || strings.Contains(behind, ": ")
}

func isWordRune(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// looksRandom reports whether a text in Base64 has letters of both cases and digits, which a word does not have.
func looksRandom(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ToUpper(s) != s && strings.ToLower(s) != s
}

// lastBegin is where the last title of a private key, or of anything else in PEM, begins; -1: there is none. Most text has none,
// which is found faster from the front.
func lastBegin(s string) int {
	at := -1
	if strings.Contains(s, "-----BEGIN") {
		at = strings.LastIndex(s, "-----BEGIN")
	}
	if strings.Contains(s, "-----\x1b[") {
		for _, m := range pemColoured().FindAllStringIndex(s, -1) {
			at = max(at, m[0])
		}
	}
	return at
}
