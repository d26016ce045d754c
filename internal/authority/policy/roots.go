package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// Link is one policy's file rules of one kind, for compiling a sandbox profile.
// A path may be used only if every link of a chain allows it.
type Link struct {
	Policy string
	// Inherits: this link adds no restriction; its lists are empty.
	Inherits bool
	Allow    []FilePattern
	// Deny holds the absolute patterns of deny and, since nobody can be asked
	// while the kernel decides, of ask. They win over Allow.
	Deny []string
}

// FilePattern is an allow pattern with its literal beginning written out.
type FilePattern struct {
	Base    string // absolute: the longest literal part, a folder or a file
	Pattern string // the whole pattern, absolute
	// Exact: the pattern is Base alone, or Base and everything beneath it (Deep)
	// but sensitive names, which a wildcard never matches.
	Exact bool
	Deep  bool
}

// Files gives the chain's rules for reading or writing files, link by link.
func (c Chain) Files(kind tool.ActionKind) []Link {
	id := sectionOf(kind)
	if id != readSection && id != writeSection {
		return nil
	}
	out := make([]Link, 0, len(c))
	for _, r := range c {
		if r == nil || r.policy == nil {
			out = append(out, Link{})
			continue
		}
		s := &r.sections[id]
		l := Link{Policy: r.policy.Name(), Inherits: s.inherits}
		for i := range s.lists[Allow] {
			b := &s.lists[Allow][i]
			full := r.absolute(b.entry.text, false)
			for _, base := range b.exact.Bases() {
				l.Allow = append(l.Allow, FilePattern{base.Path, full, base.Exact, base.Deep})
			}
		}
		for e := Deny; e <= Ask; e++ {
			for i := range s.lists[e] {
				l.Deny = append(l.Deny, r.absolute(s.lists[e][i].entry.text, e == Deny))
			}
		}
		out = append(out, l)
	}
	return out
}

// NetworkLink is one policy's network rules, as they are written.
type NetworkLink struct {
	Policy           string   `json:"policy"`
	Inherits         bool     `json:"inherits,omitempty"` // this link adds no restriction
	Allow, Ask, Deny []string `json:",omitempty"`
}

// Network gives the chain's network rules, link by link.
func (c Chain) Network() []NetworkLink {
	out := make([]NetworkLink, 0, len(c))
	for _, r := range c {
		if r == nil || r.policy == nil {
			out = append(out, NetworkLink{})
			continue
		}
		s := &r.sections[networkSection]
		l := NetworkLink{Policy: r.policy.Name(), Inherits: s.inherits}
		for e, into := range map[Effect]*[]string{Allow: &l.Allow, Ask: &l.Ask, Deny: &l.Deny} {
			for i := range s.lists[e] {
				*into = append(*into, s.lists[e][i].entry.text)
			}
		}
		out = append(out, l)
	}
	return out
}

// Connects reports whether the chain could let anything reach the network:
// every link allows or asks about something, or leaves it to the others.
func (c Chain) Connects() bool {
	own := false
	for _, l := range c.Network() {
		if l.Inherits {
			continue
		}
		if len(l.Allow) == 0 && len(l.Ask) == 0 {
			return false
		}
		own = true
	}
	return own
}

// NamesLoopback reports whether the chain could let anything reach this
// machine's own loopback addresses: every link names one, or leaves it to the
// others.
func (c Chain) NamesLoopback() bool {
	own := false
	for _, r := range c {
		if r == nil || r.policy == nil {
			return false
		}
		s := &r.sections[networkSection]
		if s.inherits {
			continue
		}
		if !slices.ContainsFunc(s.lists[Allow], namesLoopback) && !slices.ContainsFunc(s.lists[Ask], namesLoopback) {
			return false
		}
		own = true
	}
	return own
}

func namesLoopback(b boundEntry) bool {
	return b.entry.net.AllowsAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || b.entry.net.AllowsAddr(netip.IPv6Loopback())
}

// absolute writes a pattern with its anchor, the anchor's own wildcards escaped.
func (r *Rules) absolute(pattern string, deny bool) string {
	base, rest, err := anchor(pattern, deny, r.env)
	if err != nil {
		return pattern // Bind has compiled it, so there is no error
	}
	return strings.TrimSuffix(glob.Escape(base), "/") + "/" + rest
}
