package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// Includes reports whether everything that an allow entry with this pattern
// would match is matched by one single allow entry of each policy of the chain.
// Entries of ask and deny are not looked at.
//
// It compares patterns and never samples: yes is proof, and no may only mean
// that it cannot be shown. It knows patterns of literals and *, and of ** in the
// last place; any other pattern is included only by the very same.
func (c Chain) Includes(kind tool.ActionKind, pattern string) bool {
	return c.each(sectionOf(kind), func(r *Rules, id sectionID) bool { return r.includesPattern(id, kind, pattern) })
}

// Covers is [Chain.Includes], and no policy of the chain asks about anything
// that the pattern matches.
func (c Chain) Covers(kind tool.ActionKind, pattern string) bool {
	return c.Includes(kind, pattern) && c.each(sectionOf(kind), func(r *Rules, id sectionID) bool {
		en := entry{text: pattern}
		if err := en.compile(id, Allow); err != nil {
			return false
		}
		asks := r.sections[id].lists[Ask]
		return !slices.ContainsFunc(asks, func(ask boundEntry) bool { return !r.apart(id, &en, &ask) })
	})
}

// each reports whether something holds of every policy that decides a section
// itself, and there is one.
func (c Chain) each(id sectionID, holds func(*Rules, sectionID) bool) bool {
	own := false
	for _, r := range c {
		if r == nil || r.policy == nil || id == noSection {
			return false
		}
		if r.sections[id].inherits {
			continue
		}
		own = true
		if !holds(r, id) {
			return false
		}
	}
	return own
}

func (r *Rules) includesPattern(id sectionID, kind tool.ActionKind, pattern string) bool {
	en := entry{text: pattern}
	if err := en.compile(id, Allow); err != nil {
		return false
	}
	allow := r.sections[id].lists[Allow]
	if slices.ContainsFunc(allow, func(b boundEntry) bool { return b.entry.text == pattern }) {
		return true
	}
	includes, ok := r.includes(id, kind, &en)
	return ok && slices.ContainsFunc(allow, includes)
}

// includes gives a test of whether an entry matches all that en would.
func (r *Rules) includes(id sectionID, kind tool.ActionKind, en *entry) (func(boundEntry) bool, bool) {
	switch id {
	case networkSection:
		return func(b boundEntry) bool { return b.entry.net.Includes(en.net) }, true
	case commandSection:
		return func(b boundEntry) bool { return b.entry.cmd.Includes(en.cmd) }, true
	case modelSection, apiSection:
		return func(b boundEntry) bool { return b.entry.name.Match(en.text) }, !strings.Contains(en.text, "*")
	}
	samples, ok := r.generic(kind, en.text)
	return func(b boundEntry) bool {
		return !strings.ContainsAny(b.entry.text, "?[{") && r.matchesEach(id, &b, samples)
	}, ok
}

func (r *Rules) matchesEach(id sectionID, b *boundEntry, samples []tool.Action) bool {
	for i := range samples {
		if !r.matchesAlone(id, b, &samples[i]) {
			return false
		}
	}
	return true
}

// matchesAlone is whether one entry matches an action on what was asked.
func (r *Rules) matchesAlone(id sectionID, b *boundEntry, a *tool.Action) bool {
	f := facts{a: a}
	if id == readSection || id == writeSection {
		if pathProblem(a.Path) != "" {
			return false
		}
		var buf [stackNeeds]glob.Need
		f.path, f.folded = a.Path, glob.Fold(a.Path)
		f.needs = r.needs(f.path, f.folded, id == writeSection, buf[:])
	}
	return r.matches(id, b, &f)
}

// deepest is more segments than a path pattern without ** can have after its
// literal ones.
const deepest = 70

// generic gives paths such that an entry without ?, classes and braces which
// matches them all matches everything that the pattern does: each * as a text
// that no entry holds and, where it is part of a name, also as nothing (by which
// the name may become a sensitive one); ** as none to [deepest] such texts.
func (r *Rules) generic(kind tool.ActionKind, pattern string) ([]tool.Action, bool) {
	base, rest, err := anchor(pattern, false, r.env)
	if err != nil || strings.ContainsAny(unescaped(rest), "?[]{}") {
		return nil, false
	}
	rare := "龘龘"
	for i := range r.sections[sectionOf(kind)].lists[Allow] {
		for strings.Contains(r.sections[sectionOf(kind)].lists[Allow][i].entry.text+pattern, rare) {
			rare += "龘"
		}
	}
	lists, ok := instances(strings.Split(rest, "/"), rare)
	out := make([]tool.Action, len(lists))
	for i, parts := range lists {
		out[i] = tool.Action{Kind: kind, Path: path.Join(append([]string{base}, parts...)...)}
	}
	return out, ok
}

// unescaped leaves out the characters that a backslash takes literally.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxInstances bounds how many stand-ins one pattern makes.
const maxInstances = 2000

// instances writes out a pattern's parts.
func instances(parts []string, rare string) ([][]string, bool) {
	out := [][]string{{}}
	for i, part := range parts {
		var texts []string
		switch {
		case part == "**" && i == len(parts)-1:
			return deepen(out, rare), true
		case part == "**":
			return nil, false
		case strings.Contains(unescaped(part), "*"):
			texts = []string{fillStars(part, rare)}
			if empty := fillStars(part, ""); empty != "" {
				texts = append(texts, empty)
			}
		default:
			texts = []string{fillStars(part, rare)}
		}
		var next [][]string
		for _, t := range texts {
			for _, before := range out {
				next = append(next, append(slices.Clone(before), t))
			}
		}
		if out = next; len(out) > maxInstances/deepest {
			return nil, false
		}
	}
	return out, true
}

func deepen(heads [][]string, rare string) [][]string {
	var out [][]string
	for _, head := range heads {
		for n := 0; n <= deepest; n++ {
			out = append(out, slices.Clone(head))
			head = append(slices.Clone(head), rare)
		}
	}
	return out
}

// fillStars writes with for each * that is not escaped.
func fillStars(part, with string) string {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch {
		case part[i] == '\\' && i+1 < len(part):
			i++
			b.WriteByte(part[i])
		case part[i] == '*':
			b.WriteString(with)
		default:
			b.WriteByte(part[i])
		}
	}
	return b.String()
}

// apart reports whether an entry of ask can certainly match nothing that en
// would.
func (r *Rules) apart(id sectionID, en *entry, ask *boundEntry) bool {
	switch id {
	case networkSection:
		return en.net.Apart(ask.entry.net)
	case commandSection:
		return en.cmd.Apart(ask.entry.cmd)
	case modelSection, apiSection:
		return en.text != ask.entry.text && !strings.Contains(ask.entry.text, "*")
	}
	p, err := compilePath(en.text, false, r.env, glob.Options{})
	if err != nil {
		return false
	}
	for _, a := range p.Bases() {
		for _, b := range ask.exact.Bases() {
			if !basesApart(a, b) {
				return false
			}
		}
	}
	return true
}

func basesApart(a, b glob.Base) bool {
	if a.Path == b.Path {
		return false
	}
	return !(a.Deep && beneath(b.Path, a.Path)) && !(b.Deep && beneath(a.Path, b.Path))
}

func beneath(p, dir string) bool {
	return dir == "/" || strings.HasPrefix(p, dir+"/")
}
