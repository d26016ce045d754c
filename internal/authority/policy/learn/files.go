package learn

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// several is how many similar uses are combined into a pattern.
const several = 3

var fileKinds = [3]tool.ActionKind{tool.FileRead, tool.FileWrite, tool.FileDelete}

func (b *builder) sawFile(k tool.ActionKind, p string, u Use) {
	i := slices.Index(fileKinds[:], k)
	if b.files[i] == nil {
		b.files[i] = map[string]*seen{}
	}
	b.see(b.files[i], p, tool.Action{Kind: k, Path: p}, u)
	if s := b.files[i][p]; s != nil {
		s.example = strconv.Quote(b.shown(p))
	}
}

// shown is a path as people write it: relative where it is in the workspace.
func (b *builder) shown(p string) string {
	if rel, ok := strings.CutPrefix(p, strings.TrimSuffix(b.opt.Workspace, "/")+"/"); ok {
		return rel
	}
	if rel, ok := strings.CutPrefix(p, b.opt.Home+"/"); ok && b.opt.Home != "" {
		return "~/" + rel
	}
	return p
}

// pattern writes an absolute path, with patterns for its last segments, as a
// policy does.
func (b *builder) pattern(p string, more ...string) string {
	rel := b.shown(p)
	if p == b.opt.Workspace && len(more) > 0 {
		return path.Join(more...)
	}
	text := glob.Escape(rel)
	if rel != p && rel[0] == '~' && !strings.HasPrefix(p, b.opt.Home+"/") || rel == "~" {
		text = `\` + text
	}
	if rel == "/" {
		return "/" + path.Join(more...)
	}
	return path.Join(append([]string{text}, more...)...)
}

// group is one pattern of files.
type group struct {
	pattern string
	effect  policy.Effect
	count   int
	example string
	kept    bool // an entry of the chain, for uses that are not recorded
	wide    bool // it matches files that were not used
}

func (b *builder) allFiles() {
	for i, k := range fileKinds {
		if len(b.files[i]) == 0 && (!b.opt.Confined || k == tool.FileDelete && !b.opt.Chain.PartsDeleting()) {
			continue
		}
		groups := b.fileGroups(k, b.files[i])
		for _, g := range groups {
			b.add(k.String(), g.effect, strconv.Quote(g.pattern), g.count, g.example)
			if g.kept {
				b.entries[len(b.entries)-1].note += "; kept as it was, as what processes read and write is not recorded"
			}
			if g.wide {
				b.widenEntry(k, g.pattern, g.count, g.example)
			}
		}
	}
}

// fileGroups makes patterns of paths: first folders that were read with everything
// below them, then names that will not come again, then folders with several used
// files, then the remaining files one by one.
func (b *builder) fileGroups(k tool.ActionKind, files map[string]*seen) []group {
	left := map[string]*seen{}
	var out []group
	if b.opt.Confined {
		out = b.kept(k, "")
	}
	for _, p := range sorted(files) {
		s := files[p]
		switch {
		case s.effect != policy.Allow && b.volatilePath(p):
			b.leave(k, s.example, "a name like this will not come again, and it was asked about", s.count)
		case s.effect != policy.Allow:
			out = append(out, group{pattern: b.pattern(p), effect: s.effect, count: s.count, example: s.example})
		case s.below && b.covers(k, b.pattern(p, "**")):
			out = append(out, group{pattern: b.pattern(p, "**"), effect: policy.Allow, count: s.count, example: s.example})
		case s.below:
			out = append(out, b.kept(k, p)...)
			left[p] = s
		default:
			left[p] = s
		}
	}
	out = append(out, b.volatileFiles(k, left)...)
	if !b.opt.Exact {
		out = append(out, b.siblingFolders(k, left)...)
	}
	out = append(out, b.folders(k, left)...)
	for _, p := range sorted(left) {
		out = append(out, group{pattern: b.pattern(p), effect: policy.Allow, count: left[p].count, example: left[p].example})
	}
	return b.merged(k, out)
}

// merged drops the patterns that another one holds, and adds up their uses.
func (b *builder) merged(k tool.ActionKind, groups []group) []group {
	var out []group
	for i := range groups {
		g := groups[i]
		if at := slices.IndexFunc(out, func(o group) bool { return o.pattern == g.pattern && o.effect == g.effect }); at >= 0 {
			out[at].count += g.count
			continue
		}
		out = append(out, g)
	}
	for i := 0; i < len(out); i++ {
		wide := out[i]
		if wide.effect != policy.Allow || !strings.Contains(wide.pattern, "*") {
			continue
		}
		c := b.alone(k, wide.pattern)
		out = slices.DeleteFunc(out, func(g group) bool {
			gone := g.pattern != wide.pattern && g.effect == policy.Allow && c.Includes(k, g.pattern)
			if gone {
				wide.count += g.count
			}
			return gone
		})
		i = slices.IndexFunc(out, func(g group) bool { return g.pattern == wide.pattern && g.effect == policy.Allow })
		out[i].count = wide.count
	}
	return out
}

// volatileFiles makes patterns of paths that hold a name which will not come
// again, and takes them out of left.
func (b *builder) volatileFiles(k tool.ActionKind, left map[string]*seen) []group {
	var out []group
	for _, p := range sorted(left) {
		if !b.volatilePath(p) {
			continue
		}
		s := left[p]
		delete(left, p)
		if pat, ok := b.volatilePattern(k, p); ok {
			out = append(out, group{pattern: pat, effect: policy.Allow, count: s.count, wide: true})
			continue
		}
		if kept := b.holding(k, p); kept != "" {
			out = append(out, group{pattern: kept, effect: policy.Allow, count: s.count})
			continue
		}
		b.leave(k, s.example, "a name like this will not recur, and no covered pattern matches it", s.count)
	}
	return out
}

// volatilePath reports whether a path holds a name that will not come again.
func (b *builder) volatilePath(p string) bool {
	parts := strings.Split(strings.TrimPrefix(b.shown(p), "/"), "/")
	return slices.ContainsFunc(parts, func(seg string) bool { _, _, ok := b.looks.volatile(seg); return ok })
}

// volatilePattern stars the parts of a path that will not come again, each as
// narrowly as the chain covers it.
func (b *builder) volatilePattern(k tool.ActionKind, p string) (string, bool) {
	for _, whole := range []bool{false, true} {
		rel := b.shown(p)
		lead := ""
		switch {
		case rel == p:
			lead, rel = "/", strings.TrimPrefix(p, "/")
		case strings.HasPrefix(rel, "~/") && strings.HasPrefix(p, b.opt.Home+"/"):
			lead, rel = "~/", rel[2:]
		}
		parts := strings.Split(rel, "/")
		for i, seg := range parts {
			parts[i] = b.starred(seg, whole)
		}
		pat := lead + strings.Join(parts, "/")
		if lead == "" && strings.HasPrefix(pat, "~") {
			pat = `\` + pat
		}
		if b.covers(k, pat) {
			return pat, true
		}
	}
	return "", false
}

// starred writes a segment as a pattern, with a * for what will not come again.
func (b *builder) starred(seg string, whole bool) string {
	from, _, ok := b.looks.volatile(seg)
	if !ok {
		return glob.Escape(seg)
	}
	if whole {
		return "*"
	}
	to := len(seg) - len(path.Ext(seg))
	if to <= from {
		to = len(seg)
	}
	if _, _, again := b.looks.volatile(seg[to:]); again {
		to = len(seg)
	}
	return glob.Escape(seg[:from]) + "*" + glob.Escape(seg[to:])
}

// folders makes patterns of folders of which several files, or several folders
// with files, were used, and takes them out of left.
func (b *builder) folders(k tool.ActionKind, left map[string]*seen) []group {
	byDir := map[string][]string{}
	for p := range left {
		if !policy.Spelled(b.shown(p)) && p != "/" {
			byDir[path.Dir(p)] = append(byDir[path.Dir(p)], p)
		}
	}
	var out []group
	for _, dir := range sorted(byDir) {
		names := byDir[dir]
		slices.Sort(names)
		if len(names) < several {
			continue
		}
		for _, last := range b.lastSegments(dir, names) {
			pat := b.pattern(dir, last)
			if !b.covers(k, pat) {
				continue
			}
			out = append(out, b.take(left, names, pat))
			break
		}
	}
	return out
}

// take makes a group of files, which are no longer left.
func (b *builder) take(left map[string]*seen, names []string, pattern string) group {
	g := group{pattern: pattern, effect: policy.Allow, example: left[names[0]].example, wide: true}
	for _, p := range names {
		g.count += left[p].count
		delete(left, p)
	}
	return g
}

// siblingFolders makes patterns of files that are in three or more folders of one
// folder, and takes them out of left.
func (b *builder) siblingFolders(k tool.ActionKind, left map[string]*seen) []group {
	above, dirs := map[string][]string{}, map[string]map[string]bool{}
	for _, p := range sorted(left) {
		dir := path.Dir(p)
		up := path.Dir(dir)
		if policy.Spelled(b.shown(p)) || dir == "/" || up == "/" || p == b.opt.Workspace || dir == b.opt.Workspace || dir == b.opt.Home {
			continue
		}
		if dirs[up] == nil {
			dirs[up] = map[string]bool{}
		}
		above[up], dirs[up][dir] = append(above[up], p), true
	}
	var out []group
	for _, up := range sorted(above) {
		names := above[up]
		if len(dirs[up]) < several {
			continue
		}
		for _, last := range b.lastSegments(up, names) {
			if pat := b.pattern(up, "*", last); b.covers(k, pat) {
				out = append(out, b.take(left, names, pat))
				break
			}
		}
	}
	return out
}

// lastSegments are the patterns that could stand for a folder's files, the
// narrower first. The workspace itself and the folders above it are too much
// for a bare *.
func (b *builder) lastSegments(dir string, names []string) []string {
	var out []string
	ext := path.Ext(names[0])
	if ext != "" && !slices.ContainsFunc(names, func(n string) bool { return path.Ext(n) != ext }) {
		out = append(out, "*"+glob.Escape(ext))
	}
	if dir != b.opt.Workspace && dir != b.opt.Home && strings.Count(dir, "/") > 1 {
		out = append(out, "*")
	}
	return out
}

// kept returns the chain's own allow entries that may concern files below a
// folder ("" for all), if every other policy of the chain covers them, and the
// chain's ask entries in them.
func (b *builder) kept(k tool.ActionKind, dir string) []group {
	var out []group
	asks := false
	for _, text := range b.originals(k, policy.Allow) {
		if !b.opt.Chain.Includes(k, text) || dir != "" && !b.near(text, dir) {
			continue
		}
		asks = asks || !b.covers(k, text)
		out = append(out, group{pattern: text, effect: policy.Allow, kept: true})
	}
	effect := policy.Ask
	if len(b.opt.Chain) > 1 {
		effect = policy.Deny // another policy may deny where this one asks
	}
	if asks {
		for _, text := range b.originals(k, policy.Ask) {
			out = append(out, group{pattern: text, effect: effect, kept: true})
		}
	}
	return out
}

// originals are the texts of one of the chain's lists for a kind of action.
func (b *builder) originals(k tool.ActionKind, effect policy.Effect) []string {
	var out []string
	for _, r := range b.opt.Chain {
		if r == nil || r.Policy() == nil {
			continue
		}
		for _, e := range r.Policy().Entries() {
			if e.Section == k.String() && e.Effect == effect && !slices.Contains(out, e.Pattern) {
				out = append(out, e.Pattern)
			}
		}
	}
	return out
}

// near reports whether one of a pattern's literal beginning and a folder is
// beneath the other.
func (b *builder) near(text, dir string) bool {
	lead := text
	if i := strings.IndexAny(text, "*?[{\\"); i >= 0 {
		lead = text[:strings.LastIndexByte(text[:i], '/')+1]
	}
	abs := path.Join(b.opt.Workspace, lead)
	switch {
	case strings.HasPrefix(text, "/"):
		abs = path.Clean("/" + lead)
	case strings.HasPrefix(text, "~/"):
		abs = path.Join(b.opt.Home, strings.TrimPrefix(lead, "~/"))
	}
	return abs == dir || strings.HasPrefix(abs+"/", dir+"/") || strings.HasPrefix(dir+"/", abs+"/")
}

// holding is an original entry that allows a path and is covered by every policy.
func (b *builder) holding(k tool.ActionKind, p string) string {
	for _, text := range b.originals(k, policy.Allow) {
		if b.covers(k, text) && b.matches(k, text, p) {
			return text
		}
	}
	return ""
}

// matches reports whether a pattern of files, as an allow entry, holds a path.
func (b *builder) matches(k tool.ActionKind, text, p string) bool {
	return b.alone(k, text).DecideAction(tool.Action{Kind: k, Path: p}).Effect == policy.Allow
}

// alone returns a chain of one policy that allows one pattern of files; nil if
// the pattern is not valid.
func (b *builder) alone(k tool.ActionKind, text string) policy.Chain {
	key := strings.TrimPrefix(k.String(), "files.")
	p, err := policy.Parse(key, []byte("version: 1\nfiles: {"+key+": {allow: ["+strconv.Quote(text)+"]}}\n"))
	if err != nil {
		return nil
	}
	r, err := p.Bind(policy.Env{Workspace: b.opt.Workspace, Home: b.opt.Home})
	if err != nil {
		return nil
	}
	return policy.Chain{r}
}
