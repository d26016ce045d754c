package command

import (
	"slices"
	"strings"
)

// Includes reports whether p, of allow or ask, certainly matches every command
// that q does, with any facts. It compares the patterns and never samples: true
// is proof, and false may only mean that there is no proof.
func (p *Pattern) Includes(q *Pattern) bool {
	if p.String() == q.String() {
		return true
	}
	first := q.words[0]
	if !p.includesFlags(q) {
		return false
	}
	if first.many || len(first.lits) != 1 || (p.dir == nil) != (q.dir == nil) {
		return false
	}
	name := first.lits[0]
	if p.dir != nil {
		if p.words[0].many || len(p.words[0].lits) != 1 || p.words[0].lits[0] != name {
			return false
		}
		name = ""
	}
	words, open, ok := standIns(p, q)
	if !ok {
		return false
	}
	if !open {
		return p.run(name, words, false)
	}
	// Only a ** may stand for words that are known only at run time. A ** that
	// matches them after the other words also matches any words that follow.
	if !p.run(name, append(slices.Clone(words), NonLiteralMany), false) {
		return false
	}
	for range maxWords + 2 {
		if !p.run(name, words, false) {
			return false
		}
		words = append(words, rareFor(p, q))
	}
	return true
}

// standIns gives q's words after the first, with a text that p does not hold
// for each *: what matches that with a * matches any other there. open says
// that a ** follows.
func standIns(p, q *Pattern) (words []string, open, ok bool) {
	rare := rareFor(p, q)
	for i, w := range q.words[1:] {
		if w.many {
			return words, true, i == len(q.words)-2
		}
		words = append(words, strings.Join(w.lits, rare))
	}
	return words, false, true
}

// rareFor is a text that neither pattern holds.
func rareFor(p, q *Pattern) string {
	rare := "龘"
	for strings.Contains(p.String()+q.String(), rare) {
		rare += "龘"
	}
	return rare
}

// Apart reports whether no command can match both patterns, of allow or ask.
// False can also mean that Apart did not find a proof.
func (p *Pattern) Apart(q *Pattern) bool {
	if p.formed(q) {
		return false
	}
	if p.flat != nil || q.flat != nil {
		return p.headsApart(q)
	}
	if words, ok := p.literal(); ok {
		return p.literalApart(words, q)
	}
	if words, ok := q.literal(); ok {
		return q.literalApart(words, p)
	}
	if (p.dir == nil) != (q.dir == nil) {
		place, name := p.words[0], q.words[0]
		if p.dir == nil {
			place, name = name, place
		}
		// One pattern names a place, the other the program with the last name of
		// that place.
		return len(place.lits) == 1 && len(name.lits) == 1 && base(place.lits[0]) != name.lits[0]
	}
	if p.dir != nil && p.placesApart(q) {
		return true
	}
	for i := 0; i < len(p.words) && i < len(q.words); i++ {
		a, b := &p.words[i], &q.words[i]
		if a.many || b.many {
			return false
		}
		if i == 0 && p.dir != nil {
			continue
		}
		if len(a.lits) == 1 && len(b.lits) == 1 && a.lits[0] != b.lits[0] {
			return true
		}
	}
	open := func(p *Pattern) bool { return slices.ContainsFunc(p.words, func(w word) bool { return w.many }) }
	return !open(p) && !open(q) && len(p.words) != len(q.words)
}

// formed reports whether two patterns may match two forms of one command: of a program that has
// forms, unless both name a subcommand that has no other name.
func (p *Pattern) formed(q *Pattern) bool {
	name := func(p *Pattern) string {
		if first := p.words[0]; len(first.lits) == 1 {
			return base(first.lits[0])
		}
		return ""
	}
	h := heads()[name(p)]
	if h == nil || name(p) != name(q) {
		return false
	}
	h.ready()
	certain := func(p *Pattern) bool {
		return len(p.words) > 1 && !p.words[1].many && len(p.words[1].lits) == 1 && h.plain(p.words[1].lits) && !h.target(p.words[1].lits[0])
	}
	return !certain(p) || !certain(q)
}

// placesApart reports whether the first words of two patterns, both paths, cannot
// be the same. One in the workspace may be one that the other spells in full.
func (p *Pattern) placesApart(q *Pattern) bool {
	a, b := p.words[0].lits, q.words[0].lits
	if len(a) != 1 || len(b) != 1 {
		return false
	}
	if p.dir[0].lits[0] == q.dir[0].lits[0] {
		return a[0] != b[0]
	}
	return base(a[0]) != base(b[0])
}

// literal gives the words of a pattern that has no wildcard.
func (p *Pattern) literal() ([]string, bool) {
	out := make([]string, len(p.words))
	for i, w := range p.words {
		if w.many || len(w.lits) != 1 {
			return nil, false
		}
		out[i] = w.lits[0]
	}
	return out, true
}

// literalApart is Apart for one command line, by its name or by its place. A
// name may be asked for by the place where it is found.
func (p *Pattern) literalApart(words []string, q *Pattern) bool {
	switch {
	case q.dir == nil:
		return !q.run(base(words[0]), words[1:], false)
	case p.dir != nil && p.placesApart(q):
		return true
	case p.dir == nil && len(q.words[0].lits) == 1 && base(q.words[0].lits[0]) != words[0]:
		return true
	}
	return !q.run("", words[1:], false)
}
