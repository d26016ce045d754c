package policy

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// An action's subject as a text, by section:
//
//	files.*   the absolute path
//	network   target.Text: method, scheme, host, port and path
//	commands  the words, with command.Separator between
//	models    the model
//	api       the operation
//	tools     the tool's ID

// Language is the set of subjects that the chain decides with at least this effect in a
// section ("files.read", "network", …). It may have more subjects than that, and never has
// fewer: if it is empty, it is proved that the chain gives no such decision. The sections
// of databases have no language; they are [language.All].
func (c Chain) Language(b *language.Builder, section string, least Effect) language.Language {
	id := sectionNamed(section)
	if id == databaseReadSection || id == databaseWriteSection {
		return language.All
	}
	out := []language.Language{universe(b, id)}
	decided := false
	for _, r := range c {
		if r == nil || r.policy == nil {
			return language.None
		}
		if r.sections[id].inherits {
			continue
		}
		decided = true
		type key struct {
			of    *Rules
			id    sectionID
			least Effect
		}
		out = append(out, b.Once(key{r, id, least}, func() language.Language { return r.language(b, id, least) }))
	}
	if !decided {
		return language.None
	}
	return b.And(out...)
}

// TypedLanguage is the commands that the chain does not deny to the person who types them,
// and perhaps others. Each needs that person's approval.
func (c Chain) TypedLanguage(b *language.Builder) language.Language {
	out := []language.Language{universe(b, commandSection)}
	for _, r := range c {
		for i := range r.sections[commandSection].lists[Deny] {
			out = append(out, b.Not(r.entryLanguage(b, commandSection, &r.sections[commandSection].lists[Deny][i], false)))
		}
	}
	return b.And(out...)
}

func (r *Rules) language(b *language.Builder, id sectionID, least Effect) language.Language {
	s := &r.sections[id]
	var in, not []language.Language
	odd := slices.ContainsFunc(slices.Concat(s.lists[Ask], s.lists[Allow]), func(e boundEntry) bool {
		return glob.Fold(e.rule.Pattern) != e.rule.Pattern // it may spell a name that no wildcard matches
	})
	for e := range s.lists {
		for i := range s.lists[e] {
			entry := &s.lists[e][i]
			if Effect(e) < least && odd && Effect(e) == Ask {
				continue
			} else if Effect(e) < least {
				not = append(not, r.entryLanguage(b, id, entry, false))
			} else {
				in = append(in, r.entryLanguage(b, id, entry, true))
			}
		}
	}
	if id == commandSection && r.untold.inside != nil {
		in = append(in, language.All) // programs of the workspace, and perhaps less
	}
	if id == toolSection && r.unlisted != nil && least < Allow {
		in = append(in, language.All)
	}
	if id == toolSection && (!s.allowSet || r.unlisted != nil) {
		in = append(in, b.Repeat(b.NotIn(':', ':'))) // the built-in tools; others have a source in their ID
	}
	return b.And(b.Or(in...), b.Not(b.Or(not...)))
}

// entryLanguage is what an entry matches: with over at least that, without it at most.
func (r *Rules) entryLanguage(b *language.Builder, id sectionID, e *boundEntry, over bool) language.Language {
	switch p := e.pattern.(type) {
	case *filePattern:
		return r.fileLanguage(b, p, over)
	case *networkPattern:
		return p.rule.Language(b)
	case *commandPattern:
		if p.effect == Deny && !over {
			return p.cmd.DenyLanguage(b)
		}
		return p.cmd.Language(b, r.path, over, p.effect != Allow)
	case *toolPattern:
		if p.args != nil && !over {
			return language.None
		}
		return p.name.Language(b, ':')
	case *namePattern:
		if id == modelSection {
			return p.name.Language(b, '/')
		}
		return p.name.Language(b, '.')
	}
	return language.All
}

// universe is the subjects that a section can decide.
func universe(b *language.Builder, id sectionID) language.Language {
	switch id {
	case readSection, writeSection, deleteSection:
		name := b.And(names(b), b.Not(b.Or(b.Text("."), b.Text(".."))))
		segment := b.Then(b.Text("/"), name)
		return b.Or(b.Text("/"), b.Then(segment, b.Repeat(segment)))
	case networkSection:
		return target.Targets(b)
	case commandSection:
		word := b.Repeat(b.NotIn(0, command.Separator))
		return b.Then(b.NotIn(0, command.Separator), word, b.Repeat(b.Then(b.In(command.Separator, command.Separator), word)))
	}
	char := b.NotIn(0, ' ', ':', ':', 0x7f, unicode.MaxRune)
	word := b.Then(char, b.Repeat(char))
	return b.Then(word, b.Repeat(b.Then(b.Text(":"), word)))
}

// names is the names that files can have.
func names(b *language.Builder) language.Language {
	char := b.NotIn(0, 0, '/', '/')
	return b.Then(char, b.Repeat(char))
}

// fileLanguage regards the names that a pattern must spell, see [Sensitive].
func (r *Rules) fileLanguage(b *language.Builder, p *filePattern, over bool) language.Language {
	any := func(string, string) language.Language { return names(b) }
	if p.deny {
		l := p.exact.Language(b, any)
		if !over && !strings.ContainsAny(p.text, "?[") {
			// The character for a ? or a class may have another length when it is folded.
			l = b.Or(l, p.fold.Language(b, any))
		}
		return l
	}
	l := r.spellingLanguage(b, p)
	if over {
		ordinary := []language.Language{r.packageLanguage(b)}
		if p.write {
			ordinary = append(ordinary, b.Then(b.Text(path.Join(r.env.Workspace, worktreeFolder[0], worktreeFolder[1])), below(b)))
		}
		l = b.Or(l, b.And(b.Or(ordinary...), p.roughly(b, any)))
		if r.env.Repository != "" { // its paths are judged as others are
			l = b.Or(l, b.Then(b.Text(r.env.Repository), below(b)))
		}
	} else if len(p.exact.Literals()) > 0 {
		// Whether a name after a wildcard is spelled is not certain.
		l = b.And(l, b.Not(b.Then(language.All, b.Text("/"), sensitiveParts(b, p.write), below(b))))
		l = b.And(l, b.Not(r.ownPlaces(b)))
	}
	return l
}

// below is the rest of a path behind a folder.
func below(b *language.Builder) language.Language {
	return b.Or(language.Empty, b.Then(b.Text("/"), language.All))
}

// roughly has all paths of a pattern, and may have more: of one with ** it has all paths below its literal beginning. The
// rest of the pattern would multiply the states of a question.
func (p *filePattern) roughly(b *language.Builder, any glob.Wild) language.Language {
	if !strings.Contains(p.text, "**") {
		return p.exact.Language(b, any)
	}
	var out []language.Language
	for _, base := range p.exact.Bases() {
		out = append(out, b.Then(b.Text(base.Path), language.All))
	}
	return b.Or(out...)
}

// spellingLanguage has the paths of a pattern whose wildcards match no sensitive name.
func (r *Rules) spellingLanguage(b *language.Builder, p *filePattern) language.Language {
	l := p.exact.Language(b, func(prefix, suffix string) language.Language {
		type key struct {
			write          bool
			prefix, suffix string
		}
		return b.Once(key{p.write, prefix, suffix}, func() language.Language {
			return b.And(names(b), b.Not(spelledNames(b, p.write, prefix, suffix)))
		})
	})
	return b.And(l, b.Not(r.spelledPlaces(b, p)))
}

// packageLanguage is the paths in packages.
func (r *Rules) packageLanguage(b *language.Builder) language.Language {
	type key struct{ packages string }
	return b.Once(key{r.env.Workspace}, func() language.Language {
		var folders []language.Language
		for _, n := range packageFolders {
			folders = append(folders, b.Text("/"+n))
		}
		var others []language.Ending
		for _, n := range repositoryFolders {
			others = append(others, language.Ending{Text: n, Then: language.Empty})
		}
		slash, in := b.Text("/"), b.And(names(b), b.Not(b.Endings(others)))
		return b.Then(b.Text(strings.TrimSuffix(r.env.Workspace, "/")), b.Repeat(b.Then(slash, names(b))), b.Or(folders...), slash, in, slash, in, b.Repeat(b.Then(slash, in)))
	})
}

// spelledNames is the names that a segment with a wildcard does not match, by what it
// spells.
func spelledNames(b *language.Builder, write bool, prefix, suffix string) language.Language {
	var list []string
	for _, n := range Sensitive(write) {
		switch before, after, star := strings.Cut(n, "*"); {
		case strings.Contains(n, "/"), star && len(prefix) >= len(before) && len(suffix) >= len(after), !star && len(prefix) >= len(n):
		default:
			list = append(list, n)
		}
	}
	return anyName(b, list)
}

// anyName is the names that one of the sensitive names without slashes matches. It may have texts with slashes too.
func anyName(b *language.Builder, list []string) language.Language {
	var out []language.Language
	var whole, ends []language.Ending // a list of endings is much less work than a language for each name
	for _, n := range list {
		before, after, star := strings.Cut(n, "*")
		switch but := exceptions[n]; {
		case but != nil:
			var ordinary []language.Language
			for _, x := range but {
				ordinary = append(ordinary, anyName(b, []string{x}))
			}
			out = append(out, b.And(b.Then(b.Fold(before), language.All, b.Fold(after)), b.Not(b.Or(ordinary...))))
		case !star:
			whole = append(whole, language.Ending{Text: n, Then: language.Empty})
		case after == "":
			whole = append(whole, language.Ending{Text: before, Then: language.All})
		case before == "":
			ends = append(ends, language.Ending{Text: after, Then: language.Empty})
		default:
			whole = append(whole, language.Ending{Text: before, Then: b.Then(language.All, b.Fold(after))})
		}
	}
	return b.Or(append(out, b.Endings(whole), b.Then(language.All, b.Endings(ends)))...)
}

// spelledPlaces is the paths below the pattern's literal beginning that its wildcards do
// not match: sensitive names of several folders and those that end a path, Remit's own
// folder, the kernel's files. Those with a name that the pattern spells after a wildcard
// are left out.
func (r *Rules) spelledPlaces(b *language.Builder, p *filePattern) language.Language {
	spelled := p.exact.Literals()
	any := b.Repeat(b.Then(b.Text("/"), names(b)))
	isSpelled := func(part string) bool {
		return slices.ContainsFunc(spelled, func(s string) bool { return strings.EqualFold(s, part) })
	}
	var out []language.Language
	for _, base := range p.exact.Bases() {
		if !base.Deep {
			continue
		}
		lead := b.Text(strings.TrimSuffix(base.Path, "/"))
		var deep, near []language.Ending
		for _, n := range Sensitive(p.write) {
			parts := strings.Split(n, "/")
			if len(parts) == 1 || slices.ContainsFunc(parts, isSpelled) {
				continue
			}
			tail := any
			if last := len(parts) - 1; strings.HasSuffix(parts[last], "*") {
				parts[last] = strings.TrimSuffix(parts[last], "*")
				tail = b.Then(b.Repeat(b.NotIn('/', '/')), any)
			}
			deep = append(deep, language.Ending{Text: "/" + strings.Join(parts, "/"), Then: tail})
			for k := 1; k < len(parts); k++ { // the lead may end with the first of them
				if strings.HasSuffix(strings.ToLower(base.Path), strings.ToLower("/"+strings.Join(parts[:k], "/"))) {
					near = append(near, language.Ending{Text: "/" + strings.Join(parts[k:], "/"), Then: tail})
				}
			}
		}
		if p.write && !isSpelled(".git") {
			deep = append(deep, language.Ending{Text: "/.git", Then: language.Empty})
		}
		out = append(out, b.Then(lead, any, b.Endings(deep)), b.Then(lead, b.Endings(near)))
		for _, dir := range r.ownFolders() {
			switch {
			case len(spelled) > 0:
			case base.Path == dir || isBeneath(base.Path, dir):
				out = append(out, b.Then(lead, b.Text("/"), language.All))
			default:
				out = append(out, b.Then(b.Fold(dir), any))
			}
		}
	}
	return b.Or(out...)
}

// ownFolders are folders that no wildcard enters.
func (r *Rules) ownFolders() []string {
	list := []string{"/proc", "/sys", "/dev"}
	if len(r.env.State) > 1 {
		list = append(list, r.env.State)
	}
	return list
}

func (r *Rules) ownPlaces(b *language.Builder) language.Language {
	var out []language.Language
	for _, dir := range r.ownFolders() {
		out = append(out, b.Then(b.Fold(dir), b.Repeat(b.Then(b.Text("/"), names(b)))))
	}
	return b.Or(out...)
}

// sensitiveParts is every name that is part of a sensitive one.
func sensitiveParts(b *language.Builder, write bool) language.Language {
	var list []string
	for _, n := range append(Sensitive(write), SensitiveAlone()...) {
		list = append(list, strings.Split(n, "/")...)
	}
	return b.And(names(b), anyName(b, list))
}

// Naming reports whether a call of the tool can be allowed or asked about with some
// arguments: every policy has an entry that names it, or opens it by default.
func (c Chain) Naming(t *tool.Spec) bool {
	for _, r := range c {
		s := &r.sections[toolSection]
		names := func(b boundEntry) bool { return b.hasPrefix(t.ID) && b.tool().matchName(t.ID) }
		open := s.inherits || r.unlisted != nil || r.allowsBuiltIn(t) || slices.ContainsFunc(slices.Concat(s.lists[Ask], s.lists[Allow]), names)
		shut := slices.ContainsFunc(s.lists[Deny], func(b boundEntry) bool { return names(b) && b.tool().args == nil })
		if !open || shut {
			return false
		}
	}
	return len(c) > 0
}

// Asked is a set of subjects that a person writes as an entry of a section, read as an
// entry of deny: each missing part stands for anything.
type Asked struct {
	Section string
	Text    string
	rules   *Rules
	id      sectionID
	entry   boundEntry
}

// NewAsked reads such an entry in the environment of a policy.
func NewAsked(env Env, section, text string) (*Asked, error) {
	id := sectionNamed(section)
	if id == noSection || id == databaseReadSection || id == databaseWriteSection {
		return nil, fault.New(fault.Usage, "%q is not a section of actions", section)
	}
	p, err := parsePattern(id, text, Deny)
	if err != nil {
		return nil, err
	}
	r := &Rules{policy: &Policy{}, env: env, path: env.Path, state: glob.Fold(env.State)}
	bound, err := p.bind(r, Deny)
	if err != nil {
		return nil, err
	}
	return &Asked{section, text, r, id, boundEntry{pattern: bound, effect: Deny}}, nil
}

// Language has the subjects that are asked about: with over at least these, without it at
// most.
func (q *Asked) Language(b *language.Builder, over bool) language.Language {
	return b.And(universe(b, q.id), q.rules.entryLanguage(b, q.id, &q.entry, over))
}

// ActionOn is the action with a subject of the language. ok is false if the subject is none.
func ActionOn(section, subject string) (a tool.Action, ok bool) {
	switch id := sectionNamed(section); id {
	case readSection, writeSection, deleteSection:
		return tool.Action{Kind: fileKinds[id], Path: subject, Real: subject}, pathProblem(subject) == ""
	case networkSection:
		t, ok := target.ParseText(subject)
		return tool.Action{Kind: tool.Network, Target: t}, ok
	case commandSection:
		return tool.Action{Kind: tool.Command, Argv: strings.Split(subject, string(command.Separator))}, subject != ""
	case modelSection:
		return tool.Action{Kind: tool.Model, Model: subject}, true
	case apiSection:
		return tool.Action{Kind: tool.API, API: subject}, true
	}
	return tool.Action{}, false
}
