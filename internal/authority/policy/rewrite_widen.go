package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
)

// Wide describes how a policy is widened: to learn the needs of a command, or for the files of
// a pinned package.
type Wide struct {
	Files   bool     // all of the workspace may be read and written, except names that need to be spelled
	Read    []string // further entries of files.read.allow
	Hold    bool     // writes are held
	System  string   // "minimal" or "standard"; "" leaves it
	Network []string // further entries of network.allow
	Ask     bool     // ask about every host on ports 80 and 443 that is not denied
}

// Widened returns a policy that allows more than this one. Deny entries, limits and other modes stay. An invalid entry is
// an error (code PolicyInvalid).
func (p *Policy) Widened(w Wide) (*Policy, error) {
	d := *p.content()
	d.files.hold = w.Hold
	if w.System != "" {
		d.isolation.system = w.System
	}
	if w.Files {
		if err := d.also(readSection, Allow, "**"); err != nil {
			return nil, err
		}
		if err := d.also(writeSection, Allow, "**"); err != nil {
			return nil, err
		}
		if d.files.delete.set {
			if err := d.also(deleteSection, Allow, "**"); err != nil {
				return nil, err
			}
		}
	}
	for _, text := range w.Read {
		if err := d.also(readSection, Allow, text); err != nil {
			return nil, err
		}
	}
	for _, text := range w.Network {
		if err := d.also(networkSection, Allow, text); err != nil {
			return nil, err
		}
	}
	if w.Ask {
		for _, text := range []string{"*", "http://*"} {
			if err := d.also(networkSection, Ask, text); err != nil {
				return nil, err
			}
		}
	}
	wide, err := Parse(p.file, (&Policy{doc: &d}).Print())
	if err != nil {
		return nil, fault.Wrap(fault.PolicyInvalid, err, "the policy cannot be widened: %s", fault.Message(err))
	}
	return wide, nil
}

// also adds an entry to a list that other documents may share.
func (d *content) also(id sectionID, e Effect, text string) error {
	p, err := parsePattern(id, text, e)
	if err != nil {
		return fault.New(fault.PolicyInvalid, "%s: %v", id, err)
	}
	s := d.section(id)
	s.lists[e] = slices.Clone(s.lists[e])
	s.add(e, entry{pattern: p})
	s.set, s.allowSet = true, s.allowSet || e == Allow
	return nil
}

// Holds reports whether the policy says files.write.hold.
func (p *Policy) Holds() bool { return p.content().files.hold }
