package glob

import (
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/language"
)

// Wild gives the names that a segment with a wildcard may stand for, by the literal
// text that the segment begins and ends with. ** begins and ends with nothing.
type Wild func(prefix, suffix string) language.Language

// Language is the set of paths that the pattern matches. For a folding pattern,
// it has only the paths that differ in the case of ASCII letters.
func (p *Pattern) Language(b *language.Builder, wild Wild) language.Language {
	var out []language.Language
	for i := range p.alts {
		a := &p.alts[i]
		parts := []language.Language{p.literal(b, strings.TrimSuffix(a.lead, "/"))}
		for k := range a.rest {
			s := &a.rest[k]
			switch s.kind {
			case segDouble:
				parts = append(parts, b.Repeat(b.Then(b.Text("/"), wild("", ""))))
			case segLiteral:
				parts = append(parts, p.literal(b, "/"+s.lit))
			default:
				parts = append(parts, b.Text("/"), b.And(p.tokens(b, s.tokens), wild(s.prefix, s.suffix)))
			}
		}
		if p.beneath {
			parts = append(parts, b.Repeat(b.Then(b.Text("/"), wild("", ""))))
		}
		out = append(out, b.Then(parts...))
	}
	return b.Or(out...)
}

func (p *Pattern) literal(b *language.Builder, s string) language.Language {
	if p.fold {
		return b.Fold(s)
	}
	return b.Text(s)
}

func (p *Pattern) tokens(b *language.Builder, toks []token) language.Language {
	var parts []language.Language
	for _, t := range toks {
		switch t.kind {
		case tokLiteral:
			parts = append(parts, p.literal(b, t.lit))
		case tokAny:
			parts = append(parts, b.NotIn())
		case tokStar:
			parts = append(parts, b.Repeat(b.NotIn()))
		case tokClass:
			parts = append(parts, t.class.language(b))
		}
	}
	return b.Then(parts...)
}

func (c *class) language(b *language.Builder) language.Language {
	var pairs []rune
	for _, r := range c.ranges {
		pairs = append(pairs, r.lo, r.hi)
	}
	if c.negated {
		return b.NotIn(pairs...)
	}
	return b.In(pairs...)
}

// Literals are the names that the pattern spells whole after its literal lead, of
// all its alternatives.
func (p *Pattern) Literals() []string {
	var out []string
	for i := range p.alts {
		for _, s := range p.alts[i].rest {
			if s.kind == segLiteral {
				out = append(out, s.lit)
			}
		}
	}
	return out
}

// Language is the set of names that the pattern matches. It is for patterns of
// [CompileName].
func (t *Text) Language(b *language.Builder, sep rune) language.Language {
	text := b.Text
	if t.fold {
		text = b.Fold
	}
	var out []language.Language
	for i := range t.alts {
		a := &t.alts[i]
		if a.matches {
			out = append(out, text(a.lit))
			continue
		}
		var parts []language.Language
		for _, tok := range a.tokens {
			switch tok.kind {
			case tokLiteral:
				parts = append(parts, text(tok.lit))
			case tokAll:
				parts = append(parts, language.All)
			default:
				parts = append(parts, b.Repeat(b.NotIn(sep, sep)))
			}
		}
		out = append(out, b.Then(parts...))
	}
	return b.Or(out...)
}
