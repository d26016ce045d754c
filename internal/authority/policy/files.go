package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/tool"
)

// fileSettings is the section files.
type fileSettings struct {
	read, write       section
	delete            section // missing parts are as in write
	readMax, writeMax int64
	hold              bool
}

func (s *fileSettings) setting() setting {
	return mapping("files",
		s.read.setting("read", readSection, size("max_bytes", &s.readMax)),
		s.write.setting("write", writeSection, size("max_bytes", &s.writeMax), flag("hold", &s.hold)),
		s.delete.setting("delete", deleteSection))
}

// filePattern is an entry of files.read, files.write or files.delete.
type filePattern struct {
	text        string
	write, deny bool // write: of files.write or files.delete
	added       int  // bytes that braces add

	// bound
	exact *glob.Pattern
	fold  *glob.Pattern // deny only
}

func parseFilePattern(text string, write bool, e Effect) (pattern, error) {
	compiled, err := compilePath(text, e == Deny, Env{Workspace: "/workspace", Home: "/home"}, glob.Options{})
	if err != nil {
		return nil, err
	}
	return &filePattern{text: text, write: write, deny: e == Deny, added: compiled.Added()}, nil
}

func (p *filePattern) String() string { return p.text }

func (p *filePattern) print(w *printer, in int) { w.line(in, "- %s", quote(p.text)) }

func (p *filePattern) bind(r *Rules, e Effect) (_ pattern, err error) {
	b := *p
	if b.exact, err = compilePath(p.text, e == Deny, r.env, glob.Options{Beneath: e == Deny}); err == nil && e == Deny {
		b.fold, err = compilePath(p.text, true, r.env, glob.Options{Fold: true, Beneath: true})
	}
	return &b, err
}

func (p *filePattern) match(f *facts) bool {
	if p.deny {
		return p.fold.Match(f.folded) || f.folded != f.path && p.exact.Match(f.path)
	}
	return p.exact.MatchSpelled(f.path, f.needs)
}

// judgeFile decides an action on a file by one policy: its path as given, and
// its path with links resolved.
func (r *Rules) judgeFile(id sectionID, a *tool.Action, link int, seen *ordinaryPaths, all *collector) (Effect, *boundEntry) {
	e, b := r.judgePath(id, a, a.Path, link, seen, all)
	if a.Real == "" || a.Real == a.Path || e == Deny && all == nil {
		return e, b
	}
	if e2, b2 := r.judgePath(id, a, a.Real, link, seen, all); e2 < e {
		return e2, b2
	}
	return e, b
}

func (r *Rules) judgePath(id sectionID, a *tool.Action, p string, link int, seen *ordinaryPaths, all *collector) (Effect, *boundEntry) {
	if as, ok := r.owned(p); ok {
		// A policy's rules for the folder's own path take precedence. In a repository the strictest rule holds, as it does
		// for one in the workspace.
		e, b := r.judgePlainPath(id, a, p, link, seen, nil)
		if b == nil {
			p = as
		} else if !r.inOwn(p) {
			if stricter, b := r.judgePlainPath(id, a, as, link, seen, nil); b != nil && stricter < e {
				p = as
			}
		}
	}
	if a.Argument != tool.NoArgument && r.leaves(id, a, p) {
		left := &r.left
		if a.Argument == tool.AgentArgument {
			left = &r.agents
		}
		all.match(link, left, a, nil)
		return Allow, left
	}
	return r.judgePlainPath(id, a, p, link, seen, all)
}

func (r *Rules) judgePlainPath(id sectionID, a *tool.Action, p string, link int, seen *ordinaryPaths, all *collector) (Effect, *boundEntry) {
	folded, ordinary := seen.folded(r, p)
	led := a.Lead != "" && id != readSection && under(a.Lead, p)
	if ordinary && !led {
		return r.search(id, &facts{action: a, path: p, folded: folded}, link, all)
	}
	if why := pathProblem(p); why != "" {
		if all != nil {
			all.refuse(r, link, a, fmt.Sprintf("the path %q cannot be decided: %s", clip.Text(p, 40), why))
		}
		return Deny, nil
	}
	var buf [stackNeeds]glob.Need
	folded = glob.Fold(p)
	needs := r.needs(p, folded, id != readSection, buf[:])
	if needs == nil {
		seen.add(r, p, folded)
	}
	if led {
		needs = spellLead(needs, a.Lead, folded)
	}
	return r.search(id, &facts{action: a, path: p, folded: folded, needs: needs}, link, all)
}

// spellLead has a pattern spell the name that settings of Git name.
func spellLead(needs []glob.Need, lead, folded string) []glob.Need {
	if needs == nil {
		needs = make([]glob.Need, strings.Count(folded, "/"))
	}
	if last := strings.Count(lead, "/") - 1; last >= 0 && last < len(needs) && glob.Fold(lead) == lead {
		needs[last] = glob.Literal
	} else {
		spell(needs)
	}
	return needs
}

// ordinaryPaths are the paths of one action that an earlier policy of the chain found
// decidable and without sensitive names, which mostly holds for all policies alike. nil
// knows none.
type ordinaryPaths struct {
	list [2]ordinaryPath // an action has a path as given and one with links resolved
	next int
}

// ordinaryPath is a path with all that the finding depends on.
type ordinaryPath struct {
	path, folded string
	state, own   string // of the policy
}

// folded gives the folded path of one that is ordinary to this policy too.
func (o *ordinaryPaths) folded(r *Rules, p string) (folded string, ok bool) {
	if o == nil {
		return "", false
	}
	for i := range o.list {
		if k := &o.list[i]; k.path == p && p != "" && k.state == r.state && k.own == r.own {
			return k.folded, true
		}
	}
	return "", false
}

// add notes a path that is ordinary to this policy.
func (o *ordinaryPaths) add(r *Rules, p, folded string) {
	if o != nil {
		o.list[o.next%len(o.list)] = ordinaryPath{p, folded, r.state, r.own}
		o.next++
	}
}

// anchor splits a path pattern into the folder that it is relative to and the
// rest.
func anchor(pattern string, deny bool, env Env) (base, rest string, err error) {
	switch {
	case strings.HasPrefix(pattern, "~/"):
		if env.Home == "" {
			return "", "", fmt.Errorf("%q: the home folder is not known", pattern)
		}
		return env.Home, pattern[2:], nil
	case strings.HasPrefix(pattern, "~"):
		return "", "", fmt.Errorf("%q: only ~/ stands for a home folder; write \\~ for the character", pattern)
	case strings.HasPrefix(pattern, "/"):
		return "/", pattern[1:], nil
	case deny && (pattern == "**" || strings.HasPrefix(pattern, "**/")):
		return "/", pattern, nil
	}
	return env.Workspace, pattern, nil
}

func compilePath(pattern string, deny bool, env Env, o glob.Options) (*glob.Pattern, error) {
	base, rest, err := anchor(pattern, deny, env)
	if err != nil {
		return nil, err
	}
	o.Base = base
	return glob.Compile(rest, o)
}

// absolutePattern writes a pattern with its anchor, whose own wildcards are
// escaped.
func (r *Rules) absolutePattern(pattern string, deny bool) string {
	base, rest, err := anchor(pattern, deny, r.env)
	if err != nil {
		return pattern // Bind has compiled it, so there is no error
	}
	return strings.TrimSuffix(glob.Escape(base), "/") + "/" + rest
}

// pathProblem returns why a policy cannot decide a path; "" if it can.
func pathProblem(p string) string {
	switch {
	case p == "":
		return "it is empty"
	case len(p) > 4096:
		return "it is longer than 4096 bytes"
	case p[0] != '/':
		return "it is not absolute"
	case !utf8.ValidString(p):
		return "it is not UTF-8"
	}
	if p == "/" {
		return ""
	}
	start := 1
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			if p[i] == 0 {
				return "it contains a NUL byte"
			}
			continue
		}
		switch seg := p[start:i]; {
		case seg == "" || seg == "." || seg == "..":
			return "it is not clean"
		case len(seg) > 255:
			return "a name in it is longer than 255 bytes"
		}
		start = i + 1
	}
	return ""
}

// relative is a path as people write it: relative if it is in the workspace.
func (r *Rules) relative(p string) string {
	if rel, ok := strings.CutPrefix(p, strings.TrimSuffix(r.env.Workspace, "/")+"/"); ok {
		return path.Clean(rel)
	}
	return p
}

// includes compares with the paths that stand for the other pattern. An entry
// with ?, classes or braces includes only the same entry.
func (p *filePattern) includes(r *Rules, other pattern) bool {
	o, ok := other.(*filePattern)
	if !ok {
		return false
	}
	if o.text == p.text {
		return true
	}
	if strings.ContainsAny(p.text, "?[{") {
		return false
	}
	samples, ok := o.samples(r.env, p.text)
	return ok && !slices.ContainsFunc(samples, func(sample string) bool { return !p.matchesPath(r, sample) })
}

func (p *filePattern) matchesPath(r *Rules, name string) bool {
	if pathProblem(name) != "" {
		return false
	}
	f := facts{path: name, folded: glob.Fold(name)}
	f.needs = r.needs(f.path, f.folded, p.write, nil)
	return p.match(&f)
}

// maxSegments is more segments than a path pattern without ** can have after
// its literal ones.
const maxSegments = 70

// samples gives paths such that an entry without ?, classes and braces which
// matches them all matches everything that the pattern does. Each * is replaced
// by a text that neither pattern contains and, within a name, also by nothing
// (which may make the name a sensitive one); ** by none to [maxSegments] such
// texts.
func (p *filePattern) samples(env Env, by string) ([]string, bool) {
	base, rest, err := anchor(p.text, false, env)
	if err != nil || strings.ContainsAny(unescaped(rest), "?[]{}") {
		return nil, false
	}
	rare := "龘龘"
	for strings.Contains(by+p.text, rare) {
		rare += "龘"
	}
	lists, ok := instances(strings.Split(rest, "/"), rare)
	out := make([]string, len(lists))
	for i, parts := range lists {
		out[i] = path.Join(append([]string{base}, parts...)...)
	}
	return out, ok
}

// unescaped removes escaped characters and their backslashes.
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

// maxInstances bounds how many samples one pattern makes.
const maxInstances = 2000

// instances replaces the wildcards of a pattern's segments.
func instances(segments []string, rare string) ([][]string, bool) {
	out := [][]string{{}}
	for i, segment := range segments {
		var texts []string
		switch {
		case segment == "**" && i == len(segments)-1:
			return deepen(out, rare), true
		case segment == "**":
			return nil, false
		case strings.Contains(unescaped(segment), "*"):
			texts = []string{fillStars(segment, rare)}
			if empty := fillStars(segment, ""); empty != "" {
				texts = append(texts, empty)
			}
		default:
			texts = []string{fillStars(segment, rare)}
		}
		var next [][]string
		for _, t := range texts {
			for _, before := range out {
				next = append(next, append(slices.Clone(before), t))
			}
		}
		if out = next; len(out) > maxInstances/maxSegments {
			return nil, false
		}
	}
	return out, true
}

func deepen(heads [][]string, rare string) [][]string {
	var out [][]string
	for _, head := range heads {
		for range maxSegments + 1 {
			out = append(out, slices.Clone(head))
			head = append(slices.Clone(head), rare)
		}
	}
	return out
}

// fillStars replaces each * that is not escaped.
func fillStars(segment, with string) string {
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		switch {
		case segment[i] == '\\' && i+1 < len(segment):
			i++
			b.WriteByte(segment[i])
		case segment[i] == '*':
			b.WriteString(with)
		default:
			b.WriteByte(segment[i])
		}
	}
	return b.String()
}

// disjoint compares the literal beginnings of the patterns.
func (p *filePattern) disjoint(other pattern) bool {
	o, ok := other.(*filePattern)
	if !ok {
		return false
	}
	for _, a := range p.exact.Bases() {
		for _, b := range o.exact.Bases() {
			if a.Path == b.Path || a.Deep && isBeneath(b.Path, a.Path) || b.Deep && isBeneath(a.Path, b.Path) {
				return false
			}
		}
	}
	return true
}

func isBeneath(p, dir string) bool {
	return dir == "/" || strings.HasPrefix(p, dir+"/")
}
