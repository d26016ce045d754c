// Package language answers questions about sets of texts: whether a text is in
// all of some sets and in none of others, and which is the shortest. A set is a
// regular language, built from texts and characters by choice, sequence,
// repetition, intersection and complement. The package is pure. Start at
// [NewBuilder] and [Builder.Shortest].
//
// Languages are regular expressions whose derivatives are taken (J. Brzozowski,
// Derivatives of Regular Expressions, 1964), with one character for each class of
// characters that the expression does not tell apart (S. Owens, J. Reppy and
// A. Turon, Regular-expression derivatives re-examined, 2009). So intersection and
// complement cost nothing to build, and only the states that a question reaches
// are ever made.
package language

import (
	"encoding/binary"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Language is a set of texts, of the builder that made it.
type Language int32

// The languages that every builder has.
const (
	None  Language = iota // no text
	Empty                 // the empty text alone
	All                   // every text
)

type operation uint8

const (
	opNone operation = iota
	opEmpty
	opNot    // of kids[0]
	opSet    // one character of set
	opThen   // kids[0], then kids[1]
	opRepeat // kids[0], any number of times
	opOr
	opAnd
)

// span is a range of characters, both ends included.
type span struct{ lo, hi rune }

type node struct {
	op       operation
	empty    bool // the empty text is in the language
	kids     []Language
	set      []span
	cuts     []rune // the characters at which the classes of the first character begin
	cutsDone bool
}

// Builder makes languages. It keeps each different expression once, so that equal
// languages of the same form are the same. It is not safe for concurrent use.
type Builder struct {
	nodes   []node
	known   map[string]Language
	derived map[step]Language
	once    map[any]Language
	key     []byte
}

type step struct {
	of Language
	by rune
}

// NewBuilder returns a builder that has only [None], [Empty] and [All].
func NewBuilder() *Builder {
	return &Builder{
		nodes:   []node{{op: opNone}, {op: opEmpty, empty: true}, {op: opNot, empty: true, kids: []Language{None}}},
		known:   map[string]Language{},
		derived: map[step]Language{},
		once:    map[any]Language{},
	}
}

// Once is the language that was made for a key before, or that build makes now.
func (b *Builder) Once(key any, build func() Language) Language {
	l, ok := b.once[key]
	if !ok {
		l = build()
		b.once[key] = l
	}
	return l
}

// intern gives the language of a node, the same one for equal nodes.
func (b *Builder) intern(n node) Language {
	key := append(b.key[:0], byte(n.op))
	for _, k := range n.kids {
		key = binary.AppendVarint(key, int64(k))
	}
	for _, s := range n.set {
		key = binary.AppendVarint(binary.AppendVarint(key, int64(s.lo)), int64(s.hi))
	}
	b.key = key
	if l, ok := b.known[string(key)]; ok {
		return l
	}
	l := Language(len(b.nodes))
	b.nodes = append(b.nodes, n)
	b.known[string(key)] = l
	return l
}

func (b *Builder) empty(l Language) bool { return b.nodes[l].empty }

// Text is the language of one text.
func (b *Builder) Text(s string) Language {
	return b.each(s, func(r rune) []span { return []span{{r, r}} })
}

// Fold is the language of one text in any ASCII case.
func (b *Builder) Fold(s string) Language {
	return b.each(s, func(r rune) []span {
		lower := r
		switch {
		case r >= 'A' && r <= 'Z':
			lower = r + 'a' - 'A'
		case r < 'a' || r > 'z':
			return []span{{r, r}}
		}
		upper := lower - 'a' + 'A'
		return []span{{upper, upper}, {lower, lower}}
	})
}

// Ending is a text in any ASCII case, and what follows it.
type Ending struct {
	Text string
	Then Language
}

// Endings is the texts of any of the endings. Of a long list it is much less work to
// take derivatives than of [Builder.Or].
func (b *Builder) Endings(list []Ending) Language {
	var out []Language
	byFirst := map[rune][]Ending{}
	for _, e := range list {
		if e.Text == "" {
			out = append(out, e.Then)
			continue
		}
		r, n := utf8.DecodeRuneInString(e.Text)
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		byFirst[r] = append(byFirst[r], Ending{e.Text[n:], e.Then})
	}
	for _, r := range slices.Sorted(maps.Keys(byFirst)) {
		out = append(out, b.Then(b.Fold(string(r)), b.Endings(byFirst[r])))
	}
	return b.Or(out...)
}

func (b *Builder) each(s string, set func(rune) []span) Language {
	out := Empty
	for len(s) > 0 {
		r, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
		out = b.Then(b.set(set(r)), out)
	}
	return out
}

// In is the language of the single characters in the pairs of first and last
// characters.
func (b *Builder) In(pairs ...rune) Language {
	var set []span
	for i := 0; i+1 < len(pairs); i += 2 {
		set = append(set, span{pairs[i], pairs[i+1]})
	}
	return b.set(normal(set))
}

// NotIn is the language of the single characters outside of the pairs.
func (b *Builder) NotIn(pairs ...rune) Language {
	return b.And(b.In(0, unicode.MaxRune), b.Not(b.In(pairs...)))
}

func (b *Builder) set(set []span) Language {
	if len(set) == 0 {
		return None
	}
	return b.intern(node{op: opSet, set: set})
}

// normal sorts spans and joins those that touch.
func normal(set []span) []span {
	slices.SortFunc(set, func(x, y span) int { return int(x.lo - y.lo) })
	var out []span
	for _, s := range set {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Then is the texts of one language, each followed by one of the next.
func (b *Builder) Then(parts ...Language) Language {
	out := Empty
	for _, p := range slices.Backward(parts) {
		out = b.pair(p, out)
	}
	return out
}

func (b *Builder) pair(x, y Language) Language {
	switch {
	case x == None || y == None:
		return None
	case x == Empty:
		return y
	case y == Empty:
		return x
	case x == All && y == All:
		return All
	}
	if n := &b.nodes[x]; n.op == opThen {
		first, rest := n.kids[0], n.kids[1]
		return b.pair(first, b.pair(rest, y))
	}
	return b.intern(node{op: opThen, kids: []Language{x, y}, empty: b.empty(x) && b.empty(y)})
}

// Repeat is the texts of a language any number of times, also none.
func (b *Builder) Repeat(l Language) Language {
	if l <= Empty {
		return Empty
	}
	if l == All || b.nodes[l].op == opRepeat {
		return l
	}
	return b.intern(node{op: opRepeat, kids: []Language{l}, empty: true})
}

// Not is all texts that are not in the language.
func (b *Builder) Not(l Language) Language {
	switch n := &b.nodes[l]; {
	case l == None:
		return All
	case n.op == opNot:
		return n.kids[0]
	}
	return b.intern(node{op: opNot, kids: []Language{l}, empty: !b.empty(l)})
}

// Or is the texts that are in any of the languages.
func (b *Builder) Or(list ...Language) Language { return b.combine(opOr, None, All, list) }

// And is the texts that are in all of the languages.
func (b *Builder) And(list ...Language) Language { return b.combine(opAnd, All, None, list) }

// combine joins languages; unit leaves the others as they are, and zero makes
// the result zero.
func (b *Builder) combine(op operation, unit, zero Language, list []Language) Language {
	var kids []Language
	var sets [][]span
	var add func(l Language) bool
	add = func(l Language) bool {
		switch n := &b.nodes[l]; {
		case l == zero:
			return false
		case l == unit:
		case n.op == op:
			for _, k := range n.kids {
				if !add(k) {
					return false
				}
			}
		case n.op == opSet:
			sets = append(sets, n.set)
		default:
			kids = append(kids, l)
		}
		return true
	}
	for _, l := range list {
		if !add(l) {
			return zero
		}
	}
	if len(sets) > 0 {
		l := b.set(merge(op, sets))
		if l == zero {
			return zero
		}
		if l != unit {
			kids = append(kids, l)
		}
	}
	slices.Sort(kids)
	kids = slices.Compact(kids)
	for _, k := range kids {
		if n := &b.nodes[k]; n.op == opNot && slices.Contains(kids, n.kids[0]) {
			return zero
		}
	}
	switch len(kids) {
	case 0:
		return unit
	case 1:
		return kids[0]
	}
	empty := op == opAnd
	for _, k := range kids {
		if b.empty(k) != empty {
			empty = !empty
			break
		}
	}
	return b.intern(node{op: op, kids: kids, empty: empty})
}

// merge joins or intersects sets of characters.
func merge(op operation, sets [][]span) []span {
	if op == opOr {
		return normal(slices.Concat(sets...))
	}
	out := sets[0]
	for _, s := range sets[1:] {
		var both []span
		for _, x := range out {
			for _, y := range s {
				if lo, hi := max(x.lo, y.lo), min(x.hi, y.hi); lo <= hi {
					both = append(both, span{lo, hi})
				}
			}
		}
		out = both
	}
	return out
}
