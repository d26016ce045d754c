package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/base/tool"
)

// Includes reports whether everything that an allow entry with this pattern
// would match is matched by one single allow entry of each policy of the chain.
// Entries of ask and deny are not looked at.
//
// It compares patterns and never samples calls: true is proof, and false may only
// mean that there is no proof. It knows patterns of literals and *, and of ** in
// the last place; any other pattern is included only by the very same.
func (c Chain) Includes(kind tool.ActionKind, pattern string) bool {
	id := sectionOf(kind)
	return c.each(id, func(r *Rules) bool {
		p, err := r.bindPattern(id, pattern)
		return err == nil && slices.ContainsFunc(r.sections[id].lists[Allow], func(b boundEntry) bool { return b.pattern.includes(r, p) })
	})
}

// Covers is [Chain.Includes], and no policy of the chain asks about anything
// that the pattern matches.
func (c Chain) Covers(kind tool.ActionKind, pattern string) bool {
	id := sectionOf(kind)
	return c.Includes(kind, pattern) && c.each(id, func(r *Rules) bool {
		p, err := r.bindPattern(id, pattern)
		return err == nil && !slices.ContainsFunc(r.sections[id].lists[Ask], func(ask boundEntry) bool { return !p.disjoint(ask.pattern) })
	})
}

// bindPattern reads and binds the pattern of an allow entry.
func (r *Rules) bindPattern(id sectionID, text string) (pattern, error) {
	p, err := parsePattern(id, text, Allow)
	if err != nil {
		return nil, err
	}
	return p.bind(r, Allow)
}

// each reports whether something holds of every policy that decides a section
// itself, and there is one.
func (c Chain) each(id sectionID, holds func(*Rules) bool) bool {
	decided := false
	for _, r := range c {
		if r == nil || r.policy == nil || id == noSection {
			return false
		}
		if r.sections[id].inherits {
			continue
		}
		decided = true
		if !holds(r) {
			return false
		}
	}
	return decided
}
