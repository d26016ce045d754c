package policy

import (
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/authority/policy/glob"
)

// nameTable finds sensitive names fast: a few bits tell that most names are
// ordinary, without a look into any map.
type nameTable struct {
	heads  [1 << 12]bool // by headBits, of the names in top and alone
	starts [1 << 10]bool // by pairBits, of the names in prefixes
	ends   [1 << 10]bool // by pairBits, of the names in suffixes

	top      map[string]*nameNode
	alone    map[string]bool    // sensitive as the last name of a path
	prefixes map[string][]affix // names that end with *, by their first two bytes
	suffixes map[string][]affix // names that begin with *, by their last two bytes

	packages map[string]bool // folders of packages, in this case of letters alone
	inside   *nameTable      // the names that are sensitive in a package
}

// nameNode is a name, and the names beneath it that are sensitive there.
type nameNode struct {
	whole    bool // a sensitive name ends here
	beneath  map[string]*nameNode
	prefixes []affix // names beneath that end with *
}

// affix is a sensitive name that begins or ends with *.
type affix struct {
	text string   // without the *
	but  []string // the ordinary names among them
}

// cutPrefix returns the prefix of a name that ends with *.
func cutPrefix(name string) (affix, bool) {
	text, ok := strings.CutSuffix(name, "*")
	return affix{text, exceptions[name]}, ok
}

// excepts reports whether a name is an ordinary one.
func (a affix) excepts(name []byte) bool {
	for _, b := range a.but {
		before, after, _ := strings.Cut(b, "*")
		if string(name) == b || len(name) >= len(before)+len(after) && len(before)+len(after) < len(b) &&
			string(name[:len(before)]) == before && string(name[len(name)-len(after):]) == after {
			return true
		}
	}
	return false
}

// sensitiveNames has the names for reading and those for writing.
var sensitiveNames = sync.OnceValue(func() *[2]nameTable {
	return &[2]nameTable{packagesOf(Sensitive(false), nil), packagesOf(Sensitive(true), writeAlone)}
})

// packagesOf makes a table that regards folders of packages.
func packagesOf(names, alone []string) nameTable {
	t, inside := tableOf(names, alone), tableOf(nil, alone)
	t.inside, t.packages = &inside, map[string]bool{}
	for _, n := range packageFolders {
		t.packages[n] = true
		t.heads[headBits(n)] = true
	}
	return t
}

func tableOf(names, alone []string) nameTable {
	t := nameTable{top: map[string]*nameNode{}, alone: map[string]bool{}, prefixes: map[string][]affix{}, suffixes: map[string][]affix{}}
	for _, n := range alone {
		t.alone[strings.ToLower(n)] = true
		t.heads[headBits(n)] = true
	}
	for _, n := range names {
		parts := strings.Split(strings.ToLower(n), "/")
		first := parts[0]
		if text, ok := strings.CutPrefix(first, "*"); ok {
			end := text[len(text)-2:]
			t.suffixes[end] = append(t.suffixes[end], affix{text, exceptions[first]})
			t.ends[pairBits(end[0], end[1])] = true
		} else if p, ok := cutPrefix(first); ok {
			t.prefixes[p.text[:2]] = append(t.prefixes[p.text[:2]], p)
			t.starts[pairBits(p.text[0], p.text[1])] = true
		} else {
			t.heads[headBits(first)] = true
			if t.top[first] == nil {
				t.top[first] = &nameNode{}
			}
			t.top[first].add(parts[1:])
		}
	}
	return t
}

// add makes the parts that follow a name sensitive, or the name itself.
func (n *nameNode) add(parts []string) {
	if len(parts) == 0 {
		n.whole = true
		return
	}
	if p, ok := cutPrefix(parts[0]); ok {
		n.prefixes = append(n.prefixes, p)
		return
	}
	if n.beneath == nil {
		n.beneath = map[string]*nameNode{}
	}
	if n.beneath[parts[0]] == nil {
		n.beneath[parts[0]] = &nameNode{}
	}
	n.beneath[parts[0]].add(parts[1:])
}

// pairBits and headBits do not regard case; headBits is made of a name's first
// two bytes and its length.
func pairBits(a, b byte) int { return (int(a|0x20)*31 + int(b|0x20)) & (1<<10 - 1) }

func headBits(name string) int {
	return (pairBits(name[0], name[min(1, len(name)-1)])*37 + len(name)) & (1<<12 - 1)
}

// ordinary reports whether a name, in any case, is certainly not in the table.
func (t *nameTable) ordinary(name string) bool {
	n := len(name)
	if n == 1 {
		return !t.heads[headBits(name)]
	}
	return !t.heads[headBits(name)] && !t.starts[pairBits(name[0], name[1])] && !t.ends[pairBits(name[n-2], name[n-1])]
}

// need says how much of a lower-case name a pattern must spell, by that name
// alone.
func (t *nameTable) need(name []byte, last bool) (n glob.Need) {
	if node := t.top[string(name)]; node != nil && node.whole {
		return glob.Need{Prefix: len(name)}
	}
	if last && t.alone[string(name)] {
		return glob.Need{Prefix: len(name)}
	}
	if len(name) > 1 {
		n.Prefix = longest(t.prefixes[string(name[:2])], name)
		for _, s := range t.suffixes[string(name[len(name)-2:])] {
			if at := len(name) - len(s.text); at >= 0 && len(s.text) > n.Suffix && string(name[at:]) == s.text && !s.excepts(name) {
				n.Suffix = len(s.text)
			}
		}
	}
	return n
}

// longest gives the length of the longest prefix that the name has.
func longest(prefixes []affix, name []byte) int {
	n := 0
	for _, p := range prefixes {
		if len(p.text) > n && len(name) >= len(p.text) && string(name[:len(p.text)]) == p.text && !p.excepts(name) {
			n = len(p.text)
		}
	}
	return n
}

// trails follow the sensitive names of several folders that a path has begun.
// The zero trails follow none. No such name has more parts than it has room for.
type trails struct {
	n    int
	node [4]*nameNode
	from [4]int // the path's segment where the name begins
}

// step takes the next segment of the path, of which the pattern must spell need.
// Where a sensitive name ends with it, from is the segment where that name
// begins, and the need grows.
func (tr *trails) step(t *nameTable, name []byte, i int, need glob.Need) (from int, grown glob.Need) {
	kept := 0
	from = i
	for j := range tr.n {
		node := tr.node[j]
		if n := longest(node.prefixes, name); n > 0 {
			need.Prefix, from = max(need.Prefix, n), min(from, tr.from[j])
		}
		next := node.beneath[string(name)]
		if next == nil {
			continue
		}
		if next.whole {
			need, from = glob.Literal, min(from, tr.from[j])
		}
		tr.node[kept], tr.from[kept] = next, tr.from[j]
		kept++
	}
	tr.n = kept
	if top := t.top[string(name)]; top != nil && (top.beneath != nil || top.prefixes != nil) && tr.n < len(tr.node) {
		tr.node[tr.n], tr.from[tr.n] = top, i
		tr.n++
	}
	return from, need
}

// spell makes segments ones that a pattern must spell.
func spell(segments []glob.Need) {
	for i := range segments {
		segments[i] = glob.Literal
	}
}

// Spelled reports whether a path, absolute or relative, has a name that a
// pattern must spell to match it, for writing or reading.
func Spelled(p string) bool {
	if !strings.HasPrefix(p, "/") {
		p = "/workspace/" + p // a folder dev there is not /dev
	}
	return (&Rules{env: Env{Workspace: "/workspace"}}).needs(p, glob.Fold(p), true, nil) != nil
}

// kernel reports a folder of the kernel's virtual files.
func kernel(name []byte) bool {
	switch string(name) {
	case "proc", "sys", "dev":
		return true
	}
	return false
}

// stackNeeds is how many segments of a path have their needs without
// allocation.
const stackNeeds = 32

// needs returns the parts of each segment that a pattern must spell to match the
// path. It uses buf, or more for a deep path. nil: nothing is sensitive.
func (r *Rules) needs(p, folded string, write bool, buf []glob.Need) []glob.Need {
	t := &sensitiveNames()[0]
	if write {
		t = &sensitiveNames()[1]
	}
	var lower [256]byte
	var under trails
	sensitive, inKernel, odd := false, false, folded != p
	ws, packages := r.packagesFrom(p), -1 // packages: the segment from which on names are those of packages
	own := r.inOwn(p)                     // the names in it are ordinary; the names of its parents are spelled
	out := buf[:0]
	for i, at, rest := 0, 0, strings.TrimPrefix(folded, "/"); rest != ""; i++ {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at += 1 + len(name)
		if name == "" { // folding made a slash of another character
			odd = true
			out = append(out, glob.Need{})
			continue
		}
		if i == packages {
			t = t.inside
		}
		var need glob.Need
		if ordinary := t.ordinary(name); i == 0 || under.n > 0 || !ordinary {
			key := lowerName(name, lower[:0])
			inKernel = inKernel || i == 0 && kernel(key)
			if packages < 0 && !odd && at > ws && t.packages[name] && !hasRepository(rest) {
				packages = i + 2
			}
			if under.n > 0 || !ordinary {
				if odd || !write || at-len(name)-1 != ws || !holdsWorktrees(name, rest) {
					need = t.need(key, rest == "")
				}
				var from int
				if from, need = under.step(t, key, i, need); from < i {
					spell(out[from:i])
				}
			}
		}
		if inKernel || r.inState(folded, at) && (!own || odd || at <= len(r.own)) {
			need = glob.Literal
		}
		if need != (glob.Need{}) {
			sensitive = true
			if odd {
				need = glob.Literal // the name is written in a way of its own
			}
		}
		out = append(out, need)
	}
	if !sensitive {
		return nil
	}
	if odd && strings.Count(folded, "/") != strings.Count(p, "/") {
		spell(out) // the segments do not line up: no wildcard matches anything in this path
	}
	return out
}

// hasRepository reports whether a folder of version control is on a relative path.
func hasRepository(p string) bool {
	for name, more := "", true; more; {
		name, p, more = strings.Cut(p, "/")
		for _, r := range repositoryFolders {
			if strings.EqualFold(r, name) {
				return true
			}
		}
	}
	return false
}

// packagesFrom is the length of the part of a path in which no folder is one of packages: these are in the workspace.
func (r *Rules) packagesFrom(p string) int {
	if r.env.Workspace == "" || !under(r.env.Workspace, p) {
		return len(p)
	}
	return len(strings.TrimSuffix(r.env.Workspace, "/"))
}

// inState reports whether the path's first n bytes are the state folder or in it.
func (r *Rules) inState(folded string, n int) bool {
	s := len(r.state)
	return s > 1 && n >= s && (len(folded) == s || folded[s] == '/') && strings.EqualFold(folded[:s], r.state)
}

func lowerName(name string, buf []byte) []byte {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf = append(buf, c)
	}
	return buf
}
