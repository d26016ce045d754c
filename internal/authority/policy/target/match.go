package target

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// Match reports whether the rule matches the target, judged by the request
// alone. It allocates nothing,
// unless the path has an encoded slash. Allow and ask match exactly: a rule that names a
// part does not cover a target that leaves the part open (the method and path
// inside a tcp connection). Deny matches broadly: an open part counts as
// the worst, letter case, repeated and final slashes and ";parameters" in paths
// make no difference, and a tcp target may carry any scheme. Of a path with an
// encoded slash, an allow rule has to match both readings, and an ask or deny rule one.
func (r *Rule) Match(t tool.Target) bool {
	return r.matchRest(t) && r.matchHost(t.Host)
}

// Covers reports whether the rule (of allow or ask) matches some request to the
// target's scheme, host and port, whatever its method and path.
func (r *Rule) Covers(t tool.Target) bool {
	return !r.deny && r.scheme == t.Scheme && r.port == t.Port && r.matchHost(t.Host)
}

// OtherPort reports whether the rule (of allow or ask) is for the target's host,
// but for another scheme or port of it.
func (r *Rule) OtherPort(t tool.Target) bool {
	return (r.scheme != t.Scheme || r.port != t.Port) && r.SameHost(t)
}

// SameHost reports whether the rule (of allow or ask) is for the target's host,
// whatever its scheme, port, methods and paths.
func (r *Rule) SameHost(t tool.Target) bool { return !r.deny && t.Host != "" && r.matchHost(t.Host) }

// Host is the host that a target must have to be matched. ok is false if the rule
// may match other hosts.
func (r *Rule) Host() (name string, ok bool) {
	return r.host, r.kind == hostName && !(r.deny && r.host == "localhost")
}

// Origin is the one scheme, host and port that the rule (of allow or ask) is for. ok is false if it is for more.
func (r *Rule) Origin() (t tool.Target, ok bool) {
	t = tool.Target{Scheme: r.scheme, Host: r.host, Port: r.port}
	if r.kind == hostLiteral {
		t.Host = r.addr.String()
	}
	return t, !r.deny && (r.kind == hostName || r.kind == hostLiteral)
}

// Whole reports whether the rule names neither a method nor a path: it speaks of
// everything that a connection carries.
func (r *Rule) Whole() bool { return r.methods == nil && r.path == "" }

// Scheme is the rule's scheme; "" where a deny rule names none.
func (r *Rule) Scheme() string { return r.scheme }

// Port is the rule's port; 0 where a deny rule names none.
func (r *Rule) Port() uint16 { return r.port }

// AllowsAddr reports whether the rule (of allow or ask) covers dialling an
// address that the host resolved to: a public one always; any other only when
// the rule names that literal address, or is localhost and the address is
// loopback.
func (r *Rule) AllowsAddr(a netip.Addr) bool {
	a = a.Unmap()
	switch r.kind {
	case hostLiteral:
		return a == r.addr
	case hostName:
		return Public(a) || r.host == "localhost" && a.IsLoopback() && a.Zone() == ""
	case hostAny, hostBelow:
		return Public(a)
	}
	return false
}

// DeniesAddr reports whether the rule (of deny) names the address or a range
// that holds it, and the rest of the rule matches the target. The name that led to
// the address plays no part. An address that embeds an IPv4 one counts as both.
func (r *Rule) DeniesAddr(t tool.Target, a netip.Addr) bool {
	if !r.deny || !r.matchRest(t) {
		return false
	}
	if r.holds(a) {
		return true
	}
	inner, ok := embedded(a)
	return ok && r.holds(inner)
}

func (r *Rule) holds(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	switch r.kind {
	case hostLiteral:
		return a == r.addr
	case hostRange:
		return r.prefix.Contains(a)
	case hostName:
		return r.host == "localhost" && a.IsLoopback()
	}
	return false
}

// embedded is the IPv4 address that packets to an IPv6 address may reach.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case sixTo4.Contains(a):
		return v4(b[2:]), true
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case a.Is4In6(), nat64.Contains(a), b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return v4(b[12:]), true
	}
	return netip.Addr{}, false
}

// matchRest matches everything but the host.
func (r *Rule) matchRest(t tool.Target) bool {
	if r.methods != nil && !slices.Contains(r.methods, t.Method) && (!r.deny || t.Method != "") {
		return false
	}
	if r.scheme != "" && r.scheme != t.Scheme && (!r.deny || t.Scheme != "tcp" && r.scheme != "tcp") {
		return false
	}
	if r.port != t.Port && (!r.deny || r.port != 0) {
		return false
	}
	switch {
	case r.path == "":
		return true
	case t.Path == "":
		return r.deny
	case r.kind == hostAgent || t.Scheme == agentScheme:
		return r.path == t.Path
	}
	is := matchPath(r.path, t.Path, r.deny)
	if !strings.Contains(t.Path, EncodedSlash) {
		return is
	}
	other := matchPath(r.path, strings.ReplaceAll(t.Path, EncodedSlash, "/"), r.deny) // as other servers read it
	return is && other || (r.deny || r.ask) && (is || other)
}

func (r *Rule) matchHost(host string) bool {
	if host == "" { // a Unix socket or a key; their schemes tell them apart
		return r.kind == hostSocket || r.kind == hostAgent || r.kind == hostAny && r.deny
	}
	addr, isAddr := literal(host)
	switch r.kind {
	case hostAny:
		if r.deny {
			return true
		}
		return isAddr && Public(addr) || !isAddr && !isLocalhost(host)
	case hostName:
		if r.deny && r.host == "localhost" {
			return isLocalhost(host) || isAddr && addr.IsLoopback()
		}
		return host == r.host
	case hostBelow:
		n := len(host) - len(r.host)
		return n > 1 && host[n-1] == '.' && host[n:] == r.host
	case hostLiteral, hostRange:
		return isAddr && r.holds(addr)
	}
	return false
}

// literal reads a canonical host that is an address. The first test keeps
// netip's error values off the heap for names.
func literal(host string) (netip.Addr, bool) {
	if strings.IndexByte(host, ':') < 0 && !endsInNumber(host) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(host)
	return a, err == nil
}

func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// matchPath matches a path segment by segment. Backtracking to the last ** is
// enough, so the time is at most the product of the lengths.
func matchPath(pattern, path string, loose bool) bool {
	p, s := pattern[1:], path[1:]
	pMore, sMore := true, true
	var backP, backS string
	canBack := false
	for {
		if loose {
			for sMore && (s == "" || s[0] == '/') {
				_, s, sMore = cut(s)
			}
			for pMore && (p == "" || p[0] == '/') {
				_, p, pMore = cut(p)
			}
		}
		if pMore {
			seg, rest, more := cut(p)
			if seg == "**" {
				if !more {
					return true
				}
				p, pMore = rest, more
				backP, backS, canBack = p, s, sMore
				continue
			}
			if sMore {
				have, sRest, sNext := cut(s)
				if matchSegment(seg, have, loose) {
					p, pMore, s, sMore = rest, more, sRest, sNext
					continue
				}
			}
		} else if !sMore {
			return true
		}
		if !canBack {
			return false
		}
		_, backS, canBack = cut(backS)
		p, pMore, s, sMore = backP, true, backS, canBack
	}
}

// cut splits the first segment off; more is false when it was the last.
func cut(s string) (seg, rest string, more bool) {
	i := strings.IndexByte(s, '/')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func matchSegment(pattern, s string, loose bool) bool {
	if pattern == "*" {
		return s != ""
	}
	if matchStars(pattern, s, loose) {
		return true
	}
	if i := strings.IndexByte(s, ';'); loose && i >= 0 {
		return matchStars(pattern, s[:i], loose)
	}
	return false
}

// matchStars matches text in which each * of the pattern is any run of bytes.
func matchStars(pattern, s string, fold bool) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && sameByte(pattern[p], s[i], fold):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func sameByte(a, b byte, fold bool) bool {
	return a == b || fold && lower(a) == lower(b)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
