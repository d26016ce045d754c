package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// minIndexed is the number of entries from which a list is indexed. Matching
// fewer entries takes less time than a look-up in the index.
const minIndexed = 40

// index finds the entries of a long list that can match. An entry is filed under
// a word that every matching action must have: the literal folder that a path
// begins with, the host, the program's name, the tool's name or its beginning.
// The words are in lower case. An index only leaves out entries that cannot
// match. Each of the other entries still decides whether it matches.
type index struct {
	by   map[string][]int32 // positions in the list, ascending
	rest []int32            // of entries without such a word
}

// newIndex files the entries of a list; nil: the list is short.
func newIndex(list []boundEntry) *index {
	if len(list) < minIndexed {
		return nil
	}
	x := &index{by: map[string][]int32{}}
	for i := range list {
		words := list[i].words()
		if len(words) == 0 {
			x.rest = append(x.rest, int32(i))
		}
		slices.Sort(words)
		for _, w := range slices.Compact(words) {
			x.by[w] = append(x.by[w], int32(i))
		}
	}
	return x
}

// words are the words that an entry is filed under. It can only match an action
// that has one of them. No words: it may match anything.
func (b *boundEntry) words() []string {
	switch p := b.pattern.(type) {
	case *filePattern:
		var out []string
		for _, base := range p.exact.Bases() {
			out = append(out, asciiLower(base.Path))
		}
		if p.fold != nil {
			for _, base := range p.fold.Bases() {
				out = append(out, asciiLower(base.Path))
			}
		}
		return out
	case *commandPattern:
		if name, ok := p.cmd.Program(); ok {
			return []string{strings.ToLower(name)} // as command.Pattern does
		}
	case *networkPattern:
		if host, ok := p.rule.Host(); ok {
			return []string{host}
		}
	case *toolPattern:
		name, _, wild := strings.Cut(p.text, "*")
		if wild {
			name = name[:strings.LastIndexAny(name, partEnds)+1]
		}
		if name != "" {
			return []string{asciiLower(name)}
		}
	}
	return nil
}

// partEnds end the parts of a tool's name at which entries with a wildcard are filed.
const partEnds = ":."

// candidates are the positions of entries that can match, in the list's order. With
// all set, and if they are nil, they are all entries of the list.
type candidates struct {
	all   bool
	n     int
	found [64]int32
	lower [256]byte
}

// begin prepares for finding the entries of a list. It returns false if all of them
// are candidates.
func (c *candidates) begin(x *index) bool {
	if c == nil {
		return false
	}
	c.n, c.all = 0, x == nil
	if !c.all {
		c.add(x.rest)
	}
	return !c.all
}

func (c *candidates) add(list []int32) {
	if c.n+len(list) > len(c.found) {
		c.all = true
		return
	}
	c.n += copy(c.found[c.n:], list)
}

// size is how many candidates there are, of a list of so many entries.
func (c *candidates) size(entries int) int {
	if c == nil || c.all {
		return entries
	}
	slices.Sort(c.found[:c.n])
	c.n = len(slices.Compact(c.found[:c.n]))
	return c.n
}

// at gives the position of a candidate.
func (c *candidates) at(i int) int {
	if c == nil || c.all {
		return i
	}
	return int(c.found[i])
}

// word gives a text in lower case; nil: it is too long or not ASCII.
func (c *candidates) word(s string) []byte {
	if len(s) > len(c.lower) || !ascii(s) {
		c.all = true
		return nil
	}
	return lowerName(s, c.lower[:0])
}

// find finds the entries of a list that can match an action.
func (c *candidates) find(id sectionID, x *index, f *facts) {
	if !c.begin(x) {
		return
	}
	switch id {
	case readSection, writeSection, deleteSection:
		c.path(x, f)
	case networkSection:
		c.add(x.by[f.action.Target.Host])
	case commandSection:
		c.command(x, f.action)
	default:
		c.all = true
	}
}

// path adds the entries of each folder around a path.
func (c *candidates) path(x *index, f *facts) {
	if f.folded != f.path {
		c.all = true
		return
	}
	p := c.word(f.path)
	if c.all {
		return
	}
	c.add(x.by["/"])
	for i := 1; i <= len(p); i++ {
		if i == len(p) || p[i] == '/' {
			c.add(x.by[string(p[:i])])
		}
	}
}

// command adds the entries of each name that the command has.
func (c *candidates) command(x *index, a *tool.Action) {
	if len(a.Argv) == 0 {
		return // no entry matches
	}
	c.program(x, a.Argv[0])
	if a.Exe != "" {
		c.program(x, a.Exe)
	}
	for _, name := range a.Names {
		c.program(x, name)
	}
}

// program adds the entries of a program's name, and of its path's last part. A word
// that is not literal has a NUL byte, and can be any name.
func (c *candidates) program(x *index, name string) {
	if name == "" || strings.HasSuffix(name, "/") {
		c.all = true
		return
	}
	word := c.word(name)
	c.add(x.by[string(word)])
	c.add(x.by[path.Base(string(word))])
}

// tool adds the entries of a tool's name and of each of its beginnings.
func (c *candidates) tool(x *index, id tool.ID) {
	if !c.begin(x) {
		return
	}
	word := c.word(string(id))
	c.add(x.by[string(word)])
	for i, b := range word {
		if strings.IndexByte(partEnds, b) >= 0 {
			c.add(x.by[string(word[:i+1])])
		}
	}
}

func asciiLower(s string) string { return string(lowerName(s, nil)) }
