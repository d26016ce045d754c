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
// only commands that it does match. loose is for an entry that also matches commands with
// options before the subcommand that are not bounded. trusted is the trusted PATH.
func (p *Pattern) Language(b *language.Builder, trusted []string, over, loose bool) language.Language {
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
	return b.Then(first, p.inForms(b, loose))
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
	return b.Then(first, p.inForms(b, true))
}

// inForms is the words after the first, also in the other forms of a command.
func (p *Pattern) inForms(b *language.Builder, loose bool) language.Language {
	first := p.words[0]
	rest := p.rest(b, 1)
	if first.many || len(first.lits) != 1 || len(p.words) < 2 || p.words[1].many {
		return rest // the ** also stands for the words of other forms
	}
	h := heads()[base(first.lits[0])]
	if h == nil {
		return rest
	}
	if h.ready(); !loose {
		return b.Then(h.beforeBounded(b), rest)
	}
	word := b.Repeat(b.NotIn(0, Separator))
	option := b.Then(b.In(Separator, Separator), b.Text("-"), word)
	more := b.Repeat(b.Then(b.In(Separator, Separator), word))
	is := func(text string) language.Language { return b.Then(b.In(Separator, Separator), b.Text(text)) }
	group := func(name string) language.Language { return b.Or(is(name), b.Then(is(name), option, more)) }
	tail := p.rest(b, 2)
	out := []language.Language{rest}
	for name, list := range h.others {
		for _, o := range list {
			switch {
			case !p.words[1].match(o.to, false):
			case o.second != "":
				out = append(out, b.Then(group(name), is(o.second), tail))
			default:
				out = append(out, b.Then(is(name), tail))
			}
		}
	}
	for name := range h.lists["groups"] {
		if p.words[1].match(name, false) {
			out = append(out, b.Then(is(name), option, more, b.And(tail, b.Not(b.Then(option, more)))))
		}
	}
	for name := range h.lists["whole"] {
		for n := 1; p.words[1].match(name, false) && n < len(name); n++ {
			if !h.lists["whole"][name[:n]] {
				out = append(out, b.Then(is(name[:n]), tail))
			}
		}
	}
	return b.Then(h.before(b), b.Or(out...))
}

// before is any options before a subcommand, as [head.behind] reads them.
func (h *head) before(b *language.Builder) language.Language {
	word := b.Repeat(b.NotIn(0, Separator))
	sep := b.In(Separator, Separator)
	alone, value := []language.Language{b.Text("--"), b.Then(b.Text("-"), word, b.Text("="), word)}, []language.Language{}
	for name, kind := range h.global.options().kinds {
		if kind == valued {
			value = append(value, b.Text(name))
		} else {
			alone = append(alone, b.Text(name))
		}
	}
	known := b.Or(append(slices.Clone(alone), value...)...)
	other := b.And(b.Then(b.Text("-"), word), b.Not(known))
	return b.Repeat(b.Or(b.Then(sep, b.Or(append(alone, other)...)), b.Then(sep, b.Or(append(value, other)...), sep, word)))
}

// beforeBounded is options before a subcommand that are all bounded.
func (h *head) beforeBounded(b *language.Builder) language.Language {
	word := b.Repeat(b.NotIn(0, Separator))
	sep := b.In(Separator, Separator)
	var flags, out []language.Language // flags: letters that can be joined
	for name, kind := range h.global.options().kinds {
		option := strings.TrimLeft(name, "-")
		if !h.lists["bounded"][option] {
			continue
		}
		short := len(option) == 1 && !h.global.single
		if short && kind == flagOnly {
			flags = append(flags, b.Text(option))
		}
		out = append(out, b.Then(sep, b.Text(name)), b.Then(sep, b.Text("--no-"+option)), b.Then(sep, b.Text(name), b.Text("="), word), b.Then(sep, b.Text(name), sep, word))
	}
	letters := b.Repeat(b.Or(flags...))
	for name, kind := range h.global.options().kinds {
		if option := strings.TrimLeft(name, "-"); len(option) == 1 && !h.global.single && h.lists["bounded"][option] && kind != flagOnly {
			out = append(out, b.Then(sep, b.Text("-"), letters, b.Text(option), word), b.Then(sep, b.Text("-"), letters, b.Text(option), sep, word))
		}
	}
	out = append(out, b.Then(sep, b.Text("-"), letters), b.Then(sep, b.Text("--")))
	return b.Repeat(b.Or(out...))
}

// rest is the words from one on.
func (p *Pattern) rest(b *language.Builder, from int) language.Language {
	var parts []language.Language
	for _, w := range p.words[from:] {
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
