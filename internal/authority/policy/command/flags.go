package command

import (
	"slices"
	"strings"
	"sync"
)

// flagList holds options without a value: letters with their long names. Options that
// mean the same are one: rm -rf, rm -r -f and rm --recursive --force. A + joins the
// options that one letter stands for.
var flagList = []struct{ names, flags string }{
	{"rm", "r=recursive R=recursive f=force d=dir v=verbose i I no-preserve-root one-file-system"},
	{"cp", "r=recursive R=recursive f=force a=archive v=verbose p n=no-clobber u=update i=interactive l=link s=symbolic-link d L=dereference P=no-dereference H x=one-file-system T=no-target-directory b"},
	{"mv", "f=force v=verbose n=no-clobber u=update i=interactive T=no-target-directory b"},
	{"ln", "s=symbolic f=force v=verbose n=no-dereference r=relative i=interactive T=no-target-directory L=logical P=physical"},
	{"mkdir", "p=parents v=verbose"},
	{"rmdir", "p=parents v=verbose"},
	{"chmod chown chgrp", "R=recursive v=verbose c=changes"},
	{"ls", "a=all A=almost-all l h=human-readable R=recursive 1 t S r=reverse d=directory i=inode s=size F n=numeric-uid-gid"},
	{"grep egrep fgrep", `r=recursive R=dereference-recursive i=ignore-case n=line-number l=files-with-matches L=files-without-match v=invert-match
		E=extended-regexp F=fixed-strings P=perl-regexp w=word-regexp x=line-regexp c=count o=only-matching q=quiet h=no-filename H=with-filename s=no-messages a=text z=null-data`},
	{"sed", "n=quiet E=regexp-extended r=regexp-extended s=separate z=null-data u=unbuffered sandbox"},
	{"curl", "k=insecure s=silent S=show-error L=location f=fail v=verbose i=include I=head g=globoff O=remote-name J=remote-header-name N=no-buffer"},
	{"wget", "q=quiet v=verbose c=continue r=recursive N=timestamping p=page-requisites k=convert-links m=mirror no-check-certificate"},
	{"rsync", "a=archive v=verbose r=recursive z=compress n=dry-run u=update delete q=quiet"},
	{"git push", "f=force u=set-upstream n=dry-run q=quiet v=verbose d=delete tags all mirror prune no-verify follow-tags atomic"},
	{"git commit", "a=all v=verbose q=quiet n=no-verify s=signoff p=patch e=edit amend no-edit allow-empty dry-run"},
	{"git reset", "q=quiet hard soft mixed merge keep"},
	{"git clean", "f=force d x X n=dry-run q=quiet i=interactive"},
	{"git checkout git switch", "f=force q=quiet"},
	{"git branch", "d=delete D=delete+force f=force m=move M=move+force a=all r=remotes"},
	{"git add", "A=all u=update f=force v=verbose n=dry-run p=patch i=interactive e=edit"},
	{"git rm", "r f=force q=quiet n=dry-run cached"},
	{"npm install", "g=global D=save-dev E=save-exact"},
}

// flagSet gives the options that each spelling of a program's flags stands for.
type flagSet map[string][]string

// flagTable is flagList by program, or program and subcommand.
var flagTable = sync.OnceValue(func() map[string]flagSet {
	m := map[string]flagSet{}
	for _, e := range flagList {
		set := flagSet{}
		for _, f := range strings.Fields(e.flags) {
			letter, long, both := strings.Cut(f, "=")
			var names []string
			switch {
			case both:
				for _, l := range strings.Split(long, "+") {
					names = append(names, "--"+l)
					set["--"+l] = []string{"--" + l}
				}
				set["-"+letter] = names
			case len(f) > 1:
				set["--"+f] = []string{"--" + f}
			default:
				set["-"+f] = []string{"-" + f}
			}
		}
		list := strings.Fields(e.names)
		if strings.HasPrefix(e.names, "git ") || strings.HasPrefix(e.names, "npm ") {
			list = nil
			for words := strings.Fields(e.names); len(words) > 1; words = words[2:] {
				list = append(list, words[0]+" "+words[1])
			}
		}
		for _, n := range list {
			m[n] = set
		}
	}
	return m
})

// split parts a command's words after the program into flags and the rest. exact is
// false if a word that begins with a dash is not known, or may be one.
func (t flagSet) split(args []string) (flags, rest []string, exact bool) {
	exact = true
	for i, w := range args {
		switch {
		case w == "--":
			if slices.ContainsFunc(args[i+1:], func(w string) bool { return mayBeOption(w) }) {
				rest = append(rest, w)
			}
			return tidy(flags), append(rest, args[i+1:]...), exact
		case nonLiteral(w), len(w) < 2, w[0] != '-':
			rest = append(rest, w)
		case strings.HasPrefix(w, "--"):
			names := t.long(w)
			if t[w] == nil {
				exact = false
			}
			if flags = append(flags, names...); names == nil {
				rest = append(rest, w)
			}
		default:
			for k := 1; k < len(w); k++ {
				names := t["-"+w[k:k+1]]
				if names == nil { // the next word may be its value
					exact, rest = false, append(rest, w)
					break
				}
				flags = append(flags, names...)
			}
		}
	}
	return tidy(flags), rest, exact
}

// long gives the option that a long one, or the beginning of one, stands for.
func (t flagSet) long(w string) []string {
	if names := t[w]; names != nil {
		return names
	}
	var found []string
	for name, names := range t {
		if strings.HasPrefix(name, w) && len(w) > 2 {
			if found != nil {
				return nil
			}
			found = names
		}
	}
	return found
}

func tidy(flags []string) []string {
	slices.Sort(flags)
	return slices.Compact(flags)
}

// flagged is a pattern that has flags, which match in any spelling and order.
type flagged struct {
	heads   int // words before the options: the program, and its subcommand
	table   flagSet
	need    []string // the pattern's flags
	pattern *Pattern // with them in order, before the other words
}

// newFlagged gives the flags of a pattern; nil: it has none, or some that are not known.
func newFlagged(p *Pattern) *flagged {
	text := func(i int) (string, bool) {
		if i >= len(p.words) || p.words[i].many || len(p.words[i].lits) != 1 {
			return "", false
		}
		return p.words[i].lits[0], true
	}
	name, ok := text(0)
	if !ok {
		return nil
	}
	f := &flagged{heads: 1, table: flagTable()[base(name)]}
	if sub, ok := text(1); f.table == nil && ok {
		f.heads, f.table = 2, flagTable()[base(name)+" "+sub]
	}
	if f.table == nil {
		return nil
	}
	rest := []word{}
	for i := f.heads; i < len(p.words); i++ {
		w, literal := text(i)
		switch flags, _, exact := f.table.split([]string{w}); {
		case literal && strings.HasPrefix(w, "-") && len(w) > 1 && (!exact || w == "--"), !literal && strings.HasPrefix(firstLiteral(p.words[i]), "-"):
			return nil
		case literal && len(flags) > 0:
			f.need = append(f.need, flags...)
		default:
			rest = append(rest, p.words[i])
		}
	}
	if f.need = tidy(f.need); len(f.need) == 0 {
		return nil
	}
	words := slices.Clone(p.words[:f.heads])
	for _, n := range f.need {
		words = append(words, newWord([]string{n}))
	}
	if words = append(words, rest...); len(words) > maxWords {
		return nil
	}
	f.pattern = &Pattern{words: words, dir: p.dir}
	return f
}

func firstLiteral(w word) string {
	if len(w.lits) == 0 {
		return ""
	}
	return w.lits[0]
}

// match compares a command with the pattern, whatever the spelling and order of its
// flags. An allow entry matches only if a command of the same meaning is one that the
// pattern spells. A deny entry also matches with further flags.
func (f *flagged) match(name string, args []string, deny bool) bool {
	if len(args) < f.heads-1 {
		return false
	}
	head, args := args[:f.heads-1], args[f.heads-1:]
	flags, rest, exact := f.table.split(args)
	missing := slices.ContainsFunc(f.need, func(n string) bool { return !slices.Contains(flags, n) })
	open := slices.IndexFunc(rest, nonLiteral) // it may become the flags that are missing
	if !deny && (!exact || missing) || missing && open < 0 {
		return false
	}
	more := slices.DeleteFunc(flags, func(n string) bool { return slices.Contains(f.need, n) })
	if f.pattern.run(name, slices.Concat(head, f.need, more, rest), deny) {
		return true
	}
	plain := slices.DeleteFunc(slices.Clone(rest), func(w string) bool { return strings.HasPrefix(w, "-") })
	return deny && (f.pattern.run(name, slices.Concat(head, f.need, rest), true) || f.pattern.run(name, slices.Concat(head, f.need, plain), true) ||
		open >= 0 && f.pattern.run(name, slices.Concat(head, f.need, rest[:open], rest[open+1:]), true))
}

// matches compares a command's words with the pattern: as they are written, and in their other
// forms. loose also takes forms without options that are not bounded.
func (p *Pattern) matches(name string, args []string, deny, loose bool) bool {
	if p.spelled(name, args, deny) {
		return true
	}
	program := name
	if first := p.words[0]; name == "" && len(first.lits) == 1 {
		program = first.lits[0]
	}
	h := heads()[base(program)]
	return h != nil && slices.ContainsFunc(h.forms(args, loose), func(form []string) bool { return p.spelled(name, form, deny) })
}

// spelled compares a command's words as they are written.
func (p *Pattern) spelled(name string, args []string, deny bool) bool {
	return p.run(name, args, deny) || p.flat != nil && p.flat.match(name, args, deny)
}

// includesFlags reports whether p matches what q matches through the spelling of its
// flags.
func (p *Pattern) includesFlags(q *Pattern) bool {
	switch last := len(p.words) - 1; {
	case q.flat == nil:
		return true
	case p.words[last].many && len(p.words) <= q.flat.heads+1:
		return true // any words at all behind the program or subcommand
	case p.flat == nil || p.flat.heads != q.flat.heads || !slices.Equal(p.flat.need, q.flat.need):
		return false
	}
	return p.flat.pattern.Includes(q.flat.pattern)
}

// headsApart reports whether the programs or subcommands of two patterns differ, of
// which one has flags.
func (p *Pattern) headsApart(q *Pattern) bool {
	if p.dir != nil || q.dir != nil {
		return p.dir != nil && q.dir != nil && p.placesApart(q)
	}
	n := maxWords
	for _, f := range []*flagged{p.flat, q.flat} {
		if f != nil {
			n = min(n, f.heads)
		}
	}
	for i := 0; i < n && i < len(p.words) && i < len(q.words); i++ {
		a, b := &p.words[i], &q.words[i]
		if a.many || b.many {
			return false
		}
		if len(a.lits) == 1 && len(b.lits) == 1 && a.lits[0] != b.lits[0] {
			return true
		}
	}
	return false
}
