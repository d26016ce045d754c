package policy

import "slices"

// Without is the rules without the entry that a rule is of; nil if they have no such entry. It
// serves to find out what depends on the entry: nothing is written.
func (r *Rules) Without(rule Rule) *Rules {
	less, found := *r, false
	for id := range less.sections { // files.delete may have the entries of files.write
		s := &less.sections[id]
		for e, list := range s.lists {
			kept := slices.DeleteFunc(slices.Clone(list), func(b boundEntry) bool { return b.rule == rule })
			if len(kept) < len(list) {
				s.lists[e], s.index[e], found = kept, newIndex(kept), true
			}
		}
		s.indexed = s.index != [3]*index{}
	}
	if !found {
		return nil
	}
	return &less
}
