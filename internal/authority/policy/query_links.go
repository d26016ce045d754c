package policy

import (
	"net/netip"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// Link is one policy's file rules of one kind, for compiling a sandbox profile.
// A path may be used only if every link of a chain allows it.
type Link struct {
	Policy string
	// Inherits: this link adds no restriction; its lists are empty.
	Inherits bool
	Allow    []FilePattern
	Ask      []FilePattern
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

// Files gives the chain's rules for reading, writing or deleting files, link by link.
func (c Chain) Files(kind tool.ActionKind) []Link {
	id := sectionOf(kind)
	if id != readSection && id != writeSection && id != deleteSection {
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
		for e, into := range map[Effect]*[]FilePattern{Allow: &l.Allow, Ask: &l.Ask} {
			for i := range s.lists[e] {
				b := &s.lists[e][i]
				full := r.absolutePattern(b.pattern.String(), false)
				for _, base := range b.pattern.(*filePattern).exact.Bases() {
					*into = append(*into, FilePattern{base.Path, full, base.Exact, base.Deep})
				}
			}
		}
		for e := Deny; e <= Ask; e++ {
			for i := range s.lists[e] {
				l.Deny = append(l.Deny, r.absolutePattern(s.lists[e][i].pattern.String(), e == Deny))
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
				*into = append(*into, s.lists[e][i].pattern.String())
			}
		}
		out = append(out, l)
	}
	return out
}

// Connects reports whether the chain could let anything reach the network:
// every policy allows or asks about something, or leaves it to the others.
func (c Chain) Connects() bool {
	return c.each(networkSection, func(r *Rules) bool { return r.anyNetwork(func(*networkPattern) bool { return true }) })
}

// Sockets lists the Unix sockets that entries name and the chain allows or asks about.
func (c Chain) Sockets() []string {
	var out []string
	for _, r := range c {
		if r == nil || r.policy == nil {
			return nil
		}
		r.anyNetwork(func(p *networkPattern) bool {
			at, ok := p.rule.Socket()
			t := tool.Target{Scheme: p.rule.Scheme(), Path: at}
			if ok && !slices.Contains(out, at) && c.DecideAction(tool.Action{Kind: tool.Network, Target: t}).Effect != Deny {
				out = append(out, at)
			}
			return false
		})
	}
	slices.Sort(out)
	return out
}

// Agent reports whether the chain could let anything use a key of the person's SSH agent.
func (c Chain) Agent() bool {
	return c.each(networkSection, func(r *Rules) bool { return r.anyNetwork(func(p *networkPattern) bool { return p.rule.Agent() }) })
}

// LoopbackHost is the host by which the chain could let something reach a port of this machine's loopback interface, at an
// address of it or 0.0.0.0; "": by none.
func (c Chain) LoopbackHost(at netip.AddrPort) string {
	hosts := []string{at.Addr().String()}
	if usual := []string{"127.0.0.1", "::1", "localhost"}; at.Addr().IsUnspecified() || slices.Contains(usual, hosts[0]) {
		hosts = append(hosts, usual...) // each program chooses one of these for the same server
	}
	for _, host := range hosts {
		for _, scheme := range []string{"tcp", "https", "http"} {
			to := tool.Target{Scheme: scheme, Host: host, Port: at.Port()}
			if c.MayReach(to) && c.each(networkSection, func(r *Rules) bool {
				return r.anyNetwork(func(p *networkPattern) bool { return p.rule.Covers(to) && allowsHost(p.rule, host) })
			}) {
				return host
			}
		}
	}
	return ""
}

// allowsHost reports whether a rule covers dialling a host that is an address or localhost.
func allowsHost(r *target.Rule, host string) bool {
	at, err := netip.ParseAddr(host)
	return err == nil && r.AllowsAddr(at) || err != nil && allowsLoopback(r)
}

func allowsLoopback(r *target.Rule) bool {
	return r.AllowsAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || r.AllowsAddr(netip.IPv6Loopback())
}

// NamesLoopback reports whether the chain could let anything reach this
// machine's own loopback addresses: every policy names one, or leaves it to the
// others.
func (c Chain) NamesLoopback() bool {
	return c.each(networkSection, func(r *Rules) bool {
		return r.anyNetwork(func(p *networkPattern) bool { return allowsLoopback(p.rule) })
	})
}
