package glob

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTokens bounds a text pattern's characters after its braces are written out.
const maxTokens = 255

// Text is a compiled pattern for texts that are no paths. It is immutable. The
// zero Text matches nothing.
type Text struct {
	alts  []textAlternative
	added int
	bar   func(rune) bool
	fold  bool
}

type textAlternative struct {
	lit     string // the whole of it, if tokens is nil
	tokens  []token
	matches bool
	prefix  string // what the literal tokens at the start and the end say
	suffix  string
	middle  []token // the tokens between
	must    string  // a literal text that must occur between
}

// CompileText reads a pattern for an argument's text: as in paths, but * and ?
// stop at every character that could end one value and begin another: slash,
// backslash, @, comma, semicolon, <, >, the double quote, white space, control
// and invisible characters. So *@example.com matches one plain address of that
// domain and never "a@evil.test,b@example.com". ** matches anything at all, and
// [classes] what they list.
func CompileText(pattern string) (*Text, error) {
	return compileText(pattern, barred)
}

// Added is how many bytes the pattern's braces add when they are expanded.
func (t *Text) Added() int { return t.added }

// CompileName reads a pattern for a name of parts that sep separates, such as a
// tool's ID: * is the only wildcard. It does not cross sep, except as the last
// character, where it matches any rest. With wide set (for deny lists) every *
// crosses sep and ASCII case is ignored.
func CompileName(pattern string, sep byte, wide bool) (*Text, error) {
	if err := validPattern(pattern); err != nil {
		return nil, err
	}
	var toks []token
	for i, r := range pattern {
		switch {
		case r == '*' && (wide || i == len(pattern)-1 || len(toks) > 0 && toks[len(toks)-1].kind == tokAll):
			toks = append(toks, token{kind: tokAll})
		case r == '*':
			if strings.HasPrefix(pattern[i:], "**") {
				toks = append(toks, token{kind: tokAll})
			} else {
				toks = append(toks, token{kind: tokStar})
			}
		default:
			toks = append(toks, token{kind: tokLiteral, lit: string(r)})
		}
	}
	t := &Text{bar: func(r rune) bool { return r == rune(sep) }, fold: wide}
	return t, t.add(pattern, toks)
}

func compileText(pattern string, bar func(rune) bool) (*Text, error) {
	exps, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	t := &Text{bar: bar, added: added(pattern, exps)}
	for _, e := range exps {
		toks, err := tokenize(strings.ReplaceAll(e, "/", "\x00"))
		if err != nil {
			return nil, err
		}
		if err := t.add(e, split(toks)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// split makes one token of each literal character, and gives slashes back.
func split(toks []token) []token {
	var out []token
	for _, t := range toks {
		if t.kind != tokLiteral {
			out = append(out, t)
			continue
		}
		for _, r := range t.lit {
			if r == 0 {
				r = '/'
			}
			out = append(out, token{kind: tokLiteral, lit: string(r)})
		}
	}
	return out
}

func (t *Text) add(src string, toks []token) error {
	if len(toks) > maxTokens {
		return fmt.Errorf("pattern %q is too long: %d characters at most", src, maxTokens)
	}
	var lit strings.Builder
	for i, tok := range toks {
		if tok.kind != tokLiteral {
			if t.fold {
				foldTokens(toks)
			}
			t.alts = append(t.alts, withEnds(toks))
			return nil
		}
		if t.fold {
			toks[i].lit = lowerASCII(tok.lit)
		}
		lit.WriteString(toks[i].lit)
	}
	t.alts = append(t.alts, textAlternative{lit: lit.String(), matches: true})
	return nil
}

// withEnds finds the literal ends of a pattern that has a wildcard.
func withEnds(toks []token) textAlternative {
	i, k := 0, len(toks)
	var pre, suf string
	for ; toks[i].kind == tokLiteral; i++ {
		pre += toks[i].lit
	}
	for ; toks[k-1].kind == tokLiteral; k-- {
		suf = toks[k-1].lit + suf
	}
	return textAlternative{tokens: toks, prefix: pre, suffix: suf, middle: toks[i:k], must: longest(toks[i:k])}
}

// longest gives the longest literal text of a pattern.
func longest(toks []token) string {
	var best, now string
	for _, t := range toks {
		if t.kind != tokLiteral {
			now = ""
			continue
		}
		if now += t.lit; len(now) > len(best) {
			best = now
		}
	}
	return best
}

func barred(r rune) bool {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return false
	}
	return strings.ContainsRune("/\\@,;<>\"", r) || unicode.IsSpace(r) || unicode.IsControl(r) || invisible(r)
}

// Match reports whether the pattern matches all of s. Text that is not UTF-8
// is not matched.
func (t *Text) Match(s string) bool {
	for i := range t.alts {
		a := &t.alts[i]
		if a.matches && equal(s, a.lit, t.fold) || !a.matches && t.between(a, s) {
			return true
		}
	}
	return false
}

// between compares the literal ends of the text, which settles most cases, and
// matches the text between them.
func (t *Text) between(a *textAlternative, s string) bool {
	n, m := len(a.prefix), len(a.suffix)
	if len(s) < n+m || !equal(s[:n], a.prefix, t.fold) || !equal(s[len(s)-m:], a.suffix, t.fold) || !utf8.ValidString(s) {
		return false
	}
	s = s[n : len(s)-m]
	if len(a.middle) == 1 {
		switch a.middle[0].kind {
		case tokAll:
			return true
		case tokStar:
			for _, r := range s {
				if t.bar(r) {
					return false
				}
			}
			return true
		}
	}
	if !t.fold && !strings.Contains(s, a.must) {
		return false
	}
	return t.run(a.middle, s)
}

// states is a set of positions in a pattern.
type states [maxTokens/64 + 1]uint64

func (s *states) set(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *states) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// run moves a set of positions over the text, which is UTF-8, one character at
// a time.
func (t *Text) run(toks []token, s string) bool {
	var cur states
	cur.set(0)
	skipStars(toks, &cur)
	for i, r := range s {
		n := utf8.RuneLen(r)
		var next states
		for w := range cur {
			for b := cur[w]; b != 0; b &= b - 1 {
				k := w*64 + bits.TrailingZeros64(b)
				if k < len(toks) {
					t.step(toks, k, s[i:i+n], r, &next)
				}
			}
		}
		if next == (states{}) {
			return false
		}
		skipStars(toks, &next)
		cur = next
	}
	return cur.has(len(toks))
}

func (t *Text) step(toks []token, k int, s string, r rune, next *states) {
	switch tok := &toks[k]; tok.kind {
	case tokAll:
		next.set(k)
	case tokStar:
		if !t.bar(r) {
			next.set(k)
		}
	case tokAny:
		if !t.bar(r) {
			next.set(k + 1)
		}
	case tokLiteral:
		if equal(s, tok.lit, t.fold) {
			next.set(k + 1)
		}
	case tokClass:
		if tok.class.has(r, t.fold) {
			next.set(k + 1)
		}
	}
}

func skipStars(toks []token, s *states) {
	for i := range toks {
		if (toks[i].kind == tokAll || toks[i].kind == tokStar) && s.has(i) {
			s.set(i + 1)
		}
	}
}
