// Package glob matches paths, argument texts and names against patterns. A
// pattern is compiled once; a match does no allocation and its work is bounded
// by the length of the pattern times the length of the text, whatever either
// holds. Start at [Compile] for paths and [CompileText] for everything else.
//
// In a path pattern, between slashes:
//
//	literal  itself; \ takes the next character literally
//	?        one character
//	*        any run of characters within one segment, dot files included
//	[a-z]    one character of a class; [^a-z] or [!a-z] one that is not in it
//	{a,b}    either (may nest and may hold slashes)
//	**       as a whole segment: any number of segments, also none
//
// Left out on purpose: ** as part of a segment (src** reads as if it crossed
// slashes and would not), empty segments, "." and ".." are errors, so that every
// pattern means what it seems to mean.
package glob

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// The bounds of one pattern.
const (
	MaxLength       = 1024     // bytes of a pattern
	MaxAlternatives = 256      // patterns that braces may expand to
	maxExpanded     = 16 << 10 // bytes of all of them
	segmentBytes    = 8        // that a segment with wildcards counts as
	maxSegments     = 62       // segments after the literal ones: states of one machine word
)

// Options say how a path pattern is anchored and compared.
type Options struct {
	// Base is the absolute, clean folder that the pattern is beneath. It is
	// taken literally. Empty: pattern and paths are both relative.
	Base string
	// Fold compares as file systems and readers that are kinder than ours
	// would: see [Fold], which the paths must have gone through.
	Fold bool
	// Beneath also matches all paths below a path that the pattern matches.
	Beneath bool
}

// Pattern is a compiled path pattern. It is immutable. The zero Pattern matches
// nothing.
type Pattern struct {
	src     string
	added   int
	fold    bool
	beneath bool
	alts    []alternative
}

// alternative is one way to expand a pattern's braces: a literal lead, then
// segments, beginning with the first that is not a literal.
type alternative struct {
	lead  string // literal, without a trailing slash; "" for a relative pattern without one
	depth int    // segments in lead
	rest  []segment
}

// Need is how much of a path's segment a pattern must spell out to match it:
// so many bytes at the start and the end of a segment, or all of it.
type Need struct {
	Prefix, Suffix int
}

// Literal is the need that only a literal segment meets.
var Literal = Need{Prefix: 1 << 30}

// Compile reads a path pattern.
func Compile(pattern string, o Options) (*Pattern, error) {
	exps, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	p := &Pattern{src: pattern, added: added(pattern, exps), fold: o.Fold, beneath: o.Beneath}
	for _, e := range exps {
		a, err := compileAlternative(e, o)
		if err != nil {
			return nil, err
		}
		p.alts = append(p.alts, a)
		p.added += segmentBytes * max(0, len(a.rest)-1)
	}
	return p, nil
}

func compileAlternative(e string, o Options) (alternative, error) {
	a := alternative{lead: o.Base}
	if o.Fold {
		a.lead = lowerASCII(Fold(a.lead))
	}
	if a.lead == "/" {
		a.lead = ""
	}
	a.depth = strings.Count(a.lead, "/")
	rooted := o.Base != ""
	parts, err := splitSegments(e)
	if err != nil {
		return a, err
	}
	for _, part := range parts {
		s, err := compileSegment(part, o.Fold)
		if err != nil {
			return a, err
		}
		if s.kind == segLiteral && len(a.rest) == 0 {
			if rooted || a.depth > 0 {
				a.lead += "/"
			}
			a.lead += s.lit
			a.depth++
			continue
		}
		if n := len(a.rest); n > 0 && s.kind == segDouble && a.rest[n-1].kind == segDouble {
			continue // **/** is **
		}
		a.rest = append(a.rest, s)
	}
	if len(a.rest) > maxSegments {
		return a, fmt.Errorf("pattern %q has more than %d segments", e, maxSegments)
	}
	if rooted && a.lead == "" {
		a.lead = "/"
	}
	return a, nil
}

// splitSegments cuts a pattern without braces at its slashes.
func splitSegments(e string) ([]string, error) {
	var parts []string
	start := 0
	for i := 0; i <= len(e); i++ {
		if i < len(e) && e[i] == '\\' {
			if i++; i == len(e) {
				return nil, fmt.Errorf("pattern %q ends with a lone backslash", e)
			}
			continue
		}
		if i < len(e) && e[i] == '[' {
			end, err := classEnd(e, i)
			if err != nil {
				return nil, err
			}
			i = end
			continue
		}
		if i < len(e) && e[i] != '/' {
			continue
		}
		switch part := e[start:min(i, len(e))]; part {
		case "":
			return nil, fmt.Errorf("pattern %q has an empty segment: leave out leading, trailing and double slashes", e)
		case ".", "..":
			return nil, fmt.Errorf("pattern %q has a segment %q: write the path without it", e, part)
		default:
			parts = append(parts, part)
		}
		start = i + 1
	}
	return parts, nil
}

// Added is how many bytes the pattern's braces and wildcards add to it in memory,
// roughly.
func (p *Pattern) Added() int { return p.added }

// String gives the pattern as written.
func (p *Pattern) String() string { return p.src }

// Match reports whether the pattern matches the path: absolute and clean for a
// pattern with a base, relative for one without. A folding pattern takes what
// [Fold] gave for the path.
func (p *Pattern) Match(path string) bool { return p.MatchSpelled(path, nil) }

// MatchSpelled is Match where the path's segments have needs: a segment is
// matched only by a segment of the pattern that spells as much of it. Segments
// beyond the slice have none.
func (p *Pattern) MatchSpelled(path string, needs []Need) bool {
	for i := range p.alts {
		if p.alts[i].match(path, needs, p.fold, p.beneath) {
			return true
		}
	}
	return false
}

func (a *alternative) match(path string, needs []Need, fold, beneath bool) bool {
	rel, ok := a.cut(path, fold)
	if !ok {
		return false
	}
	if len(a.rest) == 0 {
		return rel == "" || beneath
	}
	if a.depth < len(needs) {
		needs = needs[a.depth:]
	} else {
		needs = nil
	}
	if len(a.rest) == 1 && a.rest[0].kind == segDouble && len(needs) == 0 {
		return true
	}
	return matchSegments(a.rest, rel, needs, fold, beneath)
}

// cut takes the literal lead off the path.
func (a *alternative) cut(path string, fold bool) (string, bool) {
	if a.lead == "" {
		return path, true
	}
	if a.lead == "/" {
		if path == "" || path[0] != '/' {
			return "", false
		}
		return path[1:], true
	}
	n := len(a.lead)
	if len(path) < n || !equal(path[:n], a.lead, fold) {
		return "", false
	}
	if len(path) == n {
		return "", true
	}
	if path[n] != '/' {
		return "", false
	}
	return path[n+1:], true
}

// matchSegments runs the segments as a state machine over the path's segments:
// bit i of state is set when the first i segments of the pattern fit so far.
func matchSegments(rest []segment, rel string, needs []Need, fold, beneath bool) bool {
	state, all := skipDouble(rest, 1), uint64(1)<<len(rest)
	for i := 0; rel != "" && state != 0; i++ {
		if beneath && state&all != 0 {
			return true
		}
		var name string
		if k := strings.IndexByte(rel, '/'); k >= 0 {
			name, rel = rel[:k], rel[k+1:]
		} else {
			name, rel = rel, ""
		}
		var need Need
		if i < len(needs) {
			need = needs[i]
		}
		next := uint64(0)
		for s := state &^ all; s != 0; s &= s - 1 {
			k := bits.TrailingZeros64(s)
			switch seg := &rest[k]; {
			case seg.kind == segDouble:
				if need == (Need{}) {
					next |= 1 << k
				}
			case seg.spells(need) && seg.match(name, fold):
				next |= 1 << (k + 1)
			}
		}
		state = skipDouble(rest, next)
	}
	return state&all != 0
}

// skipDouble adds the states that are reached because ** may stand for nothing.
func skipDouble(rest []segment, state uint64) uint64 {
	for i := range rest {
		if rest[i].kind == segDouble && state&(1<<i) != 0 {
			state |= 1 << (i + 1)
		}
	}
	return state
}

// Base is one literal folder or file that a pattern's matches are at or
// beneath.
type Base struct {
	Path  string // literal: absolute if the pattern is anchored
	Exact bool   // the pattern is Path itself, or Path and everything beneath it
	Deep  bool   // the pattern goes on after Path; false: it is Path alone
}

// Bases gives, for each way to expand the pattern's braces, the literal part
// that it begins with.
func (p *Pattern) Bases() []Base {
	out := make([]Base, 0, len(p.alts))
	for i := range p.alts {
		a := &p.alts[i]
		all := len(a.rest) == 1 && a.rest[0].kind == segDouble
		out = append(out, Base{Path: a.lead, Exact: len(a.rest) == 0 || all, Deep: len(a.rest) > 0})
	}
	return out
}

func validPattern(pattern string) error {
	switch {
	case pattern == "":
		return fmt.Errorf("an empty pattern matches nothing")
	case len(pattern) > MaxLength:
		return fmt.Errorf("a pattern has at most %d bytes, this one %d", MaxLength, len(pattern))
	case !utf8.ValidString(pattern):
		return fmt.Errorf("pattern %q is not UTF-8", pattern)
	case strings.IndexByte(pattern, 0) >= 0:
		return fmt.Errorf("the pattern %q contains a NUL byte", pattern)
	}
	return nil
}

// Escape writes a literal text as a pattern that matches it alone.
func Escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`\*?[]{}`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
