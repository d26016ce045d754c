package policy

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
)

// LikeNames are the file names that no rule distinguishes from one given name:
// two paths that differ only in such names get the same decision. So a survey of
// a workspace need not decide them one by one.
type LikeNames struct {
	spelled map[string]bool // names that rules or the lists of sensitive names spell, in lower case
	wild    []glob.Name     // patterns of one name
	like    []bool          // which of them match the given name
}

// NamesLike returns the names that no file rule of the chain distinguishes from
// name, which must be an ASCII name that is not sensitive.
func (c Chain) NamesLike(name string) *LikeNames {
	n := &LikeNames{spelled: map[string]bool{}}
	for _, sensitive := range slices.Concat(Sensitive(true), SensitiveAlone(), Examples()) {
		for _, part := range strings.Split(sensitive, "/") {
			if p, err := glob.Compile(part, glob.Options{Fold: true}); err == nil { // the lists are constant
				n.add(p)
			}
		}
	}
	n.spell("/proc/sys/dev")
	n.spell(packageFolders...)
	for _, r := range c {
		if r == nil {
			continue
		}
		n.spell(r.state, r.own, r.env.Workspace, r.env.Repository)
		for _, id := range []sectionID{readSection, writeSection} {
			for _, list := range r.sections[id].lists {
				for i := range list {
					p := list[i].pattern.(*filePattern)
					n.add(p.exact)
					if p.fold != nil {
						n.add(p.fold)
					}
				}
			}
		}
	}
	for _, w := range n.wild {
		n.like = append(n.like, w.Match(name))
	}
	return n
}

func (n *LikeNames) add(p *glob.Pattern) {
	spelled, wild := p.Names()
	for _, s := range spelled {
		n.spelled[s] = true
	}
	n.wild = append(n.wild, wild...)
}

func (n *LikeNames) spell(paths ...string) {
	for _, p := range paths {
		for _, name := range strings.Split(strings.ToLower(p), "/") {
			n.spelled[name] = true
		}
	}
}

// Contain reports whether a name is one of them. False can also mean that
// Contain did not find a proof.
func (n *LikeNames) Contain(name string) bool {
	var buf [256]byte
	if len(name) > len(buf) || glob.Fold(name) != name || !ascii(name) {
		return false
	}
	if n.spelled[string(lowerName(name, buf[:0]))] {
		return false
	}
	for i, w := range n.wild {
		if w.Match(name) != n.like[i] {
			return false
		}
	}
	return true
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || s[i] == 0 {
			return false
		}
	}
	return s != ""
}

// RoleNames are the patterns of principals that the document's roles name, in its order.
func (p *Policy) RoleNames() []string {
	var out []string
	for _, r := range p.content().roles {
		out = append(out, r.pattern)
	}
	return out
}
