package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
)

// Narrowed returns a policy in which patterns replace one entry of an allow list. It does not
// check that they are narrower; [Chain.Includes] does. An invalid pattern, a place without an
// entry, and an entry that is more than a pattern are errors (code PolicyInvalid).
func (p *Policy) Narrowed(section string, at int, patterns []string) (*Policy, error) {
	d := *p.content()
	id := sectionNamed(section)
	s := d.section(id)
	if id == noSection || at < 0 || at >= len(s.lists[Allow]) {
		return nil, fault.New(fault.PolicyInvalid, "%s.allow[%d] does not exist", section, at)
	}
	if !entryOf(id, Allow, s.lists[Allow][at].pattern, 0).Plain() {
		return nil, fault.New(fault.PolicyInvalid, "%s.allow[%d] has more than a pattern", section, at)
	}
	list := make([]entry, 0, len(patterns))
	for _, text := range patterns {
		pattern, err := parsePattern(id, text, Allow)
		if err != nil {
			return nil, fault.New(fault.PolicyInvalid, "%s: %v", section, err)
		}
		list = append(list, entry{pattern: pattern})
	}
	s.lists[Allow] = slices.Concat(s.lists[Allow][:at], list, s.lists[Allow][at+1:])
	narrow, err := Parse(p.file, (&Policy{doc: &d}).Print())
	if err != nil {
		return nil, fault.Wrap(fault.PolicyInvalid, err, "the policy cannot be narrowed: %s", fault.Message(err))
	}
	return narrow, nil
}

// Plain reports whether an entry is a pattern alone, without arguments or options.
func (e Entry) Plain() bool {
	if n, ok := e.pattern.(*networkPattern); ok {
		return !n.inspect && n.secret == nil && len(n.addresses) == 0
	}
	return e.Args == nil && !e.Closed
}
