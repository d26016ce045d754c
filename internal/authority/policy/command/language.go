package command

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/language"
)

// Separator stands between the words of a command in the texts of [Pattern.Language].
const Separator = '\x01'

// Language is a set of commands, their words with [Separator] between. Of a pattern
// with a flag, which matches in other spellings and orders too, over says which error is
// made: with it, the language has every command that the pattern may match; without it,
// only commands that it does match. trusted is the trusted PATH.
func (p *Pattern) Language(b *language.Builder, trusted []string, over bool) language.Language {
	if len(p.before) > 0 && !over {
		return language.None // a pipeline's last command is matched only beside the others
	}
	word := b.Repeat(b.NotIn(0, Separator))
	more := b.Repeat(b.Then(b.In(Separator, Separator), word))
	first := b.Then(b.NotIn(0, Separator), word)
	if w := p.words[0]; w.many {
		if !over {
			first = b.And(first, b.Repeat(b.NotIn('/', '/')))
		}
		first = b.Then(first, more)
	} else {
		first = p.program(b, trusted, w.language(b), over)
	}
	if over && slices.ContainsFunc(p.words[1:], flag) {
		return b.Then(first, more)
	}
	return b.Then(first, p.rest(b))
}

// DenyLanguage is a set of commands that the pattern of a deny entry matches.
func (p *Pattern) DenyLanguage(b *language.Builder) language.Language {
	if len(p.before) > 0 {
		return language.None
	}
	word := b.Repeat(b.NotIn(0, Separator))
	first := b.Then(b.NotIn(0, Separator), word, b.Repeat(b.Then(b.In(Separator, Separator), word)))
	if w := p.words[0]; !w.many {
		first = w.language(b)
		if p.dir == nil { // a name means it in every folder
			first = b.Then(b.Or(language.Empty, b.Then(word, b.Text("/"))), b.And(first, b.Repeat(b.NotIn('/', '/'))))
		}
	}
	return b.Then(first, p.rest(b))
}

// rest is the words after the first.
func (p *Pattern) rest(b *language.Builder) language.Language {
	var parts []language.Language
	for _, w := range p.words[1:] {
		if w.many {
			parts = append(parts, b.Repeat(b.Then(b.In(Separator, Separator), b.Repeat(b.NotIn(0, Separator)))))
		} else {
			parts = append(parts, b.In(Separator, Separator), w.language(b))
		}
	}
	return b.Then(parts...)
}

// language is the words that a word of a pattern matches.
func (w *word) language(b *language.Builder) language.Language {
	var parts []language.Language
	for k, l := range w.lits {
		if k > 0 {
			parts = append(parts, b.Repeat(b.NotIn(0, Separator)))
		}
		parts = append(parts, b.Text(l))
	}
	return b.Then(parts...)
}

// program is the first words of commands that the pattern's first word means. Over
// all spellings these are names, paths on the trusted PATH, and paths as such.
func (p *Pattern) program(b *language.Builder, trusted []string, word language.Language, over bool) language.Language {
	first := p.words[0]
	if len(first.lits) == 1 && strings.HasPrefix(first.lits[0], "./") {
		word = b.Or(word, b.Text(p.workspace+strings.TrimPrefix(first.lits[0], ".")))
	}
	if !over {
		if p.dir == nil { // in a path such a word means only some folders
			word = b.And(word, b.Repeat(b.NotIn('/', '/')))
		}
		return word
	}
	last := first
	if p.dir != nil {
		last = p.dir[len(p.dir)-1]
	}
	base := last.language(b)
	out := []language.Language{word, base}
	for _, dir := range trusted {
		out = append(out, b.Then(b.Text(strings.TrimSuffix(dir, "/")+"/"), base))
	}
	return b.Or(out...)
}

// flag reports whether a word can be a flag, which has several spellings.
func flag(w word) bool { return !w.many && len(w.lits) > 0 && strings.HasPrefix(w.lits[0], "-") }
