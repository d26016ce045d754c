package language

import (
	"errors"
	"slices"
	"unicode"
)

// cuts gives the characters at which the classes of a text's first character
// begin: the language tells no two characters of one class apart.
func (b *Builder) cuts(l Language) []rune {
	n := &b.nodes[l]
	if n.cutsDone {
		return n.cuts
	}
	var out []rune
	switch n.op {
	case opSet:
		for _, s := range n.set {
			out = append(out, s.lo, s.hi+1)
		}
	case opThen:
		out = append(out, b.cuts(n.kids[0])...)
		if b.empty(n.kids[0]) {
			out = append(out, b.cuts(n.kids[1])...)
		}
	default:
		for _, k := range n.kids {
			out = append(out, b.cuts(k)...)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	n = &b.nodes[l]
	n.cuts, n.cutsDone = out, true
	return out
}

// derive gives the rests of the texts that begin with a character.
func (b *Builder) derive(l Language, r rune) Language {
	n := b.nodes[l] // a copy: the slice grows
	switch n.op {
	case opNone, opEmpty:
		return None
	case opSet:
		for _, s := range n.set {
			if r >= s.lo && r <= s.hi {
				return Empty
			}
		}
		return None
	}
	at := step{l, r}
	if d, ok := b.derived[at]; ok {
		return d
	}
	var d Language
	switch n.op {
	case opNot:
		d = b.Not(b.derive(n.kids[0], r))
	case opThen:
		d = b.pair(b.derive(n.kids[0], r), n.kids[1])
		if b.empty(n.kids[0]) {
			d = b.Or(d, b.derive(n.kids[1], r))
		}
	case opRepeat:
		d = b.pair(b.derive(n.kids[0], r), l)
	default:
		list := make([]Language, len(n.kids))
		for i, k := range n.kids {
			list[i] = b.derive(k, r)
		}
		if n.op == opOr {
			d = b.Or(list...)
		} else {
			d = b.And(list...)
		}
	}
	b.derived[at] = d
	return d
}

// Has reports whether a text is in the language.
func (b *Builder) Has(l Language, s string) bool {
	for _, r := range s {
		// The class's own character keeps the table of derivatives small.
		if l = b.derive(l, b.member(l, r)); l == None || l == All {
			break
		}
	}
	return b.empty(l)
}

// member is the character that stands for another one's class.
func (b *Builder) member(l Language, r rune) rune {
	cuts := b.cuts(l)
	i, found := slices.BinarySearch(cuts, r)
	if found {
		i++
	}
	return classOf(cuts, i)
}

// ErrTooLarge says that a question needs more states than are made.
var ErrTooLarge = errors.New("the question is too large to be answered")

// MaxStates bounds the states that one question reaches.
const MaxStates = 100_000

// Shortest returns a shortest text of the language; ok is false if it is proved
// that there is none. The error is [ErrTooLarge].
func (b *Builder) Shortest(l Language) (text string, ok bool, err error) {
	type state struct {
		at   Language
		from int
		by   rune
	}
	states := []state{{at: l, from: -1}}
	seen := map[Language]bool{l: true, None: true}
	if l == None {
		return "", false, nil
	}
	for i := 0; i < len(states); i++ {
		at := states[i].at
		if b.empty(at) {
			var out []rune
			for k := i; states[k].from >= 0; k = states[k].from {
				out = append(out, states[k].by)
			}
			slices.Reverse(out)
			return string(out), true, nil
		}
		if len(states) > MaxStates {
			return "", false, ErrTooLarge
		}
		for _, r := range b.classes(at) {
			if next := b.derive(at, r); !seen[next] {
				seen[next] = true
				states = append(states, state{next, i, r})
			}
		}
	}
	return "", false, nil
}

// classes gives a character of each class, those that read best first.
func (b *Builder) classes(l Language) []rune {
	cuts := b.cuts(l)
	out := make([]rune, 0, len(cuts)+1)
	for i := range len(cuts) + 1 {
		if r := classOf(cuts, i); r >= 0 {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y rune) int { return rank(x) - rank(y) })
	return out
}

// rank orders characters by how well they read in an example.
func rank(r rune) int {
	switch {
	case r >= 'a' && r <= 'z':
		return 0
	case r >= '0' && r <= '9' || r >= 'A' && r <= 'Z':
		return 1
	case r > ' ' && r < 0x7f:
		return 2
	case unicode.IsPrint(r):
		return 3
	}
	return 4
}

// classOf chooses a character of the class before the cut with this index; -1: the
// class has no character that a text can hold.
func classOf(cuts []rune, i int) rune {
	lo, hi := rune(0), rune(unicode.MaxRune)
	if i > 0 {
		lo = cuts[i-1]
	}
	if i < len(cuts) {
		hi = cuts[i] - 1
	}
	for _, want := range []span{{'x', 'z'}, {'a', 'w'}, {'0', '9'}, {'A', 'Z'}, {'!', '~'}, {0xa1, 0x2fff}} {
		if c := max(lo, want.lo); c <= min(hi, want.hi) {
			return c
		}
	}
	if lo > hi || lo > unicode.MaxRune {
		return -1
	}
	if lo >= 0xd800 && lo <= 0xdfff { // surrogates are no characters
		if lo = 0xe000; lo > hi {
			return -1
		}
	}
	return lo
}
