package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// NetworkHint is the edit that would allow a connection which the chain refuses
// because no entry allows it, for the author of the policies. It is "" where no
// edit should be suggested: an entry denies the connection, or its path cannot be
// written as an entry.
func (c Chain) NetworkHint(a tool.Action) string {
	d := c.DecideAction(a)
	if d.Effect != Deny || a.Kind != tool.Network || a.Unknown != "" || d.Link >= len(c) || c[d.Link] == nil || c[d.Link].policy == nil {
		return ""
	}
	for _, r := range d.Refusals {
		if r.Effect == Deny && (r.Rule == nil || r.Rule.Name != "default") {
			return ""
		}
	}
	for _, addr := range a.Addrs {
		if _, err := netip.ParseAddr(a.Target.Host); err == nil || target.Public(addr) {
			continue
		}
		t := a.Target
		t.Method, t.Path = "", ""
		return fmt.Sprintf("only an entry that names the address allows it: {url: %q, addresses: [%q]}", t.String(), addr.Unmap())
	}
	return c.allowHint(a.Target, c[d.Link])
}

// allowHint is the hint to add an entry for a target, which the link r refuses.
func (c Chain) allowHint(t tool.Target, r *Rules) string {
	if strings.Contains(t.Path, "*") {
		return "" // it would be read as a pattern
	}
	whole := ""
	if before, _, ok := strings.Cut(t.Path, target.EncodedSlash); ok { // no entry spells an encoded slash
		if t.Path = before[:strings.LastIndexByte(before, '/')] + "/**"; t.Path == "/**" {
			whole = ", and every path of the host"
		}
	}
	text := t.String()
	if _, err := target.ParseRule(text, false); err != nil {
		return ""
	}
	entry := func(s string) string {
		if !r.policy.content().network.set {
			return "network: {allow: [" + strconv.Quote(s) + "]}"
		}
		return "network.allow: [" + strconv.Quote(s) + "]"
	}
	own := 0
	for _, l := range c.Network() {
		if !l.Inherits {
			own++
		}
	}
	tls := t
	tls.Scheme = "https"
	hint := entry(text) + " would allow it" + whole
	if t.Scheme == "tcp" {
		hint = entry(tls.String()) + " would allow TLS to it"
		if t.Port != 443 {
			hint += ", " + entry(text) + " anything"
		}
	}
	if own > 1 {
		hint += ", in each policy of the grant"
	}
	return hint
}
