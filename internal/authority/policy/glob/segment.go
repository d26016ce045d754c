package glob

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type segmentKind uint8

const (
	segLiteral segmentKind = iota
	segDouble              // **
	segAffix               // prefix*suffix, both literal, either may be empty
	segWild                // anything else
)

// segment is what stands between two slashes of a pattern.
type segment struct {
	kind   segmentKind
	lit    string // segLiteral
	prefix string // the literal text that it begins with
	suffix string // the literal text that it ends with, where a * stands before
	tokens []token
}

type tokenKind uint8

const (
	tokLiteral tokenKind = iota
	tokAny               // ?
	tokStar              // *
	tokClass             // [...]
	tokAll               // **, in texts only
)

type token struct {
	kind  tokenKind
	lit   string
	class *class
}

type class struct {
	negated bool
	ranges  []runeRange
}

type runeRange struct{ lo, hi rune }

func (c *class) has(r rune, fold bool) bool {
	in := c.in(r)
	if fold && in == c.negated {
		// Either case will do: folding only ever matches more.
		in = c.in(unicode.ToUpper(r)) != c.negated || c.in(unicode.ToLower(r)) != c.negated
		return in
	}
	return in != c.negated
}

func (c *class) in(r rune) bool {
	for _, rr := range c.ranges {
		if r >= rr.lo && r <= rr.hi {
			return true
		}
	}
	return false
}

// compileSegment compiles what stands between two slashes.
func compileSegment(part string, fold bool) (segment, error) {
	if part == "**" {
		return segment{kind: segDouble}, nil
	}
	toks, err := tokenize(part)
	if err != nil {
		return segment{}, err
	}
	for _, t := range toks {
		if t.kind == tokAll {
			return segment{}, fmt.Errorf("pattern segment %q: ** must be a whole segment; write * here, or %q", part, "x/**")
		}
	}
	if fold {
		foldTokens(toks)
	}
	if len(toks) == 1 && toks[0].kind == tokLiteral {
		lit := toks[0].lit
		if fold {
			lit = trimName(lit)
		}
		return segment{kind: segLiteral, lit: lit}, nil
	}
	s := segment{kind: segWild, tokens: toks}
	if t := toks[0]; t.kind == tokLiteral {
		s.prefix = t.lit
	}
	if t := toks[len(toks)-1]; t.kind == tokLiteral {
		s.suffix = t.lit
	}
	stars := 0
	for _, t := range toks {
		switch t.kind {
		case tokStar:
			stars++
		case tokAny, tokClass:
			stars = 2
		}
	}
	if stars == 1 {
		s.kind = segAffix
	}
	return s, nil
}

func foldTokens(toks []token) {
	for i := range toks {
		if toks[i].kind == tokLiteral {
			toks[i].lit = lowerASCII(foldText(toks[i].lit))
		}
	}
}

// tokenize reads literals, wildcards and classes.
func tokenize(part string) ([]token, error) {
	var toks []token
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			toks = append(toks, token{kind: tokLiteral, lit: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '\\':
			i++
			if i == len(part) {
				return nil, fmt.Errorf("pattern %q ends with a lone backslash", part)
			}
			_, n := utf8.DecodeRuneInString(part[i:])
			if part[i] == '/' {
				return nil, fmt.Errorf("pattern %q escapes a slash", part)
			}
			lit.WriteString(part[i : i+n])
			i += n - 1
		case '?':
			flush()
			toks = append(toks, token{kind: tokAny})
		case '*':
			flush()
			n := 1
			for i+1 < len(part) && part[i+1] == '*' {
				i, n = i+1, n+1
			}
			kind := tokStar
			if n > 1 {
				kind = tokAll
			}
			toks = append(toks, token{kind: kind})
		case '[':
			flush()
			cl, end, err := parseClass(part, i)
			if err != nil {
				return nil, err
			}
			toks = append(toks, token{kind: tokClass, class: cl})
			i = end
		default:
			lit.WriteByte(c)
		}
	}
	flush()
	return toks, nil
}

// classEnd gives the index of the ] that closes the class which begins at i.
func classEnd(s string, i int) (int, error) {
	_, end, err := parseClass(s, i)
	return end, err
}

func parseClass(s string, i int) (*class, int, error) {
	bad := func(why string) (*class, int, error) {
		return nil, 0, fmt.Errorf("pattern %q: the class that begins at byte %d %s", s, i+1, why)
	}
	c := &class{}
	k := i + 1
	if k < len(s) && (s[k] == '^' || s[k] == '!') {
		c.negated = true
		k++
	}
	next := func() (rune, bool) {
		if k < len(s) && s[k] == '\\' {
			k++
		}
		if k >= len(s) {
			return 0, false
		}
		r, n := utf8.DecodeRuneInString(s[k:])
		k += n
		return r, true
	}
	for first := true; ; first = false {
		if k >= len(s) {
			return bad("is not closed")
		}
		if s[k] == ']' {
			if first {
				return bad("is empty (write \\] for the character)")
			}
			return c, k, nil
		}
		lo, ok := next()
		if !ok {
			return bad("is not closed")
		}
		hi := lo
		if k+1 < len(s) && s[k] == '-' && s[k+1] != ']' {
			k++
			if hi, ok = next(); !ok {
				return bad("is not closed")
			}
			if hi < lo {
				return bad("has a range that ends before it begins")
			}
		}
		if lo == '/' || hi == '/' {
			return bad("contains a slash")
		}
		c.ranges = append(c.ranges, runeRange{lo, hi})
	}
}

// spells reports whether the segment writes out as much as the need asks.
func (s *segment) spells(n Need) bool {
	if n == (Need{}) || s.kind == segLiteral {
		return true
	}
	return len(s.prefix) >= n.Prefix && len(s.suffix) >= n.Suffix
}

func (s *segment) match(name string, fold bool) bool {
	switch s.kind {
	case segLiteral:
		return equal(name, s.lit, fold)
	case segAffix:
		return len(name) >= len(s.prefix)+len(s.suffix) &&
			equal(name[:len(s.prefix)], s.prefix, fold) &&
			equal(name[len(name)-len(s.suffix):], s.suffix, fold)
	case segWild:
		return matchTokens(s.tokens, name, fold)
	}
	return false
}

// matchTokens matches one name, going back to the last star only: as a star
// stands for anything at all, an earlier one never has to take more.
func matchTokens(toks []token, name string, fold bool) bool {
	t, i := 0, 0
	backT, backI := -1, 0
	for i < len(name) || t < len(toks) {
		if t < len(toks) {
			if toks[t].kind == tokStar {
				backT, backI = t, i
				t++
				continue
			}
			if n := toks[t].take(name[i:], fold); n > 0 {
				i += n
				t++
				continue
			}
		}
		if backT < 0 || backI >= len(name) {
			return false
		}
		_, n := utf8.DecodeRuneInString(name[backI:])
		backI += n
		t, i = backT+1, backI
	}
	return true
}

// take gives how many bytes of s a token other than a star takes; 0: none.
func (t *token) take(s string, fold bool) int {
	if s == "" {
		return 0
	}
	if t.kind == tokLiteral {
		if len(s) >= len(t.lit) && equal(s[:len(t.lit)], t.lit, fold) {
			return len(t.lit)
		}
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	if t.kind == tokAny || t.kind == tokClass && t.class.has(r, fold) {
		return n
	}
	return 0
}
