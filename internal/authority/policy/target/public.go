package target

import "net/netip"

// special4 is the IANA IPv4 Special-Purpose Address Registry, multicast
// (RFC 5771) and the one metadata address outside of both. Entries that the
// registry calls globally reachable (AS112, AMT) are here as well: they are
// anycast infrastructure, not hosts.
var special4 = prefixes(
	"0.0.0.0/8",        // this network, RFC 791
	"10.0.0.0/8",       // private, RFC 1918
	"100.64.0.0/10",    // carrier-grade NAT, RFC 6598
	"127.0.0.0/8",      // loopback, RFC 1122
	"168.63.129.16/32", // Azure's metadata and health server
	"169.254.0.0/16",   // link-local, RFC 3927, with most metadata servers
	"172.16.0.0/12",    // private, RFC 1918
	"192.0.0.0/24",     // IETF protocol assignments, RFC 6890
	"192.0.2.0/24",     // TEST-NET-1, RFC 5737
	"192.31.196.0/24",  // AS112-v4, RFC 7535
	"192.52.193.0/24",  // AMT, RFC 7450
	"192.88.99.0/24",   // 6to4 relay anycast, RFC 7526
	"192.168.0.0/16",   // private, RFC 1918
	"192.175.48.0/24",  // AS112, RFC 7534
	"198.18.0.0/15",    // benchmarking, RFC 2544
	"198.51.100.0/24",  // TEST-NET-2, RFC 5737
	"203.0.113.0/24",   // TEST-NET-3, RFC 5737
	"224.0.0.0/4",      // multicast, RFC 5771
	"240.0.0.0/4",      // reserved, RFC 1112, and limited broadcast
)

// global6 is the only block that IANA assigns for global unicast. Loopback,
// ULA (RFC 4193), link-local, site-local (RFC 3879), multicast, discard
// (RFC 6666), local NAT64 (64:ff9b:1::/48, RFC 8215), IPv4-compatible
// (RFC 4291) and SRv6 (RFC 9602) addresses are outside of it.
var global6 = netip.MustParsePrefix("2000::/3")

// special6 is the IANA IPv6 Special-Purpose Address Registry within global6.
var special6 = prefixes(
	"2001::/23",         // IETF protocol assignments, RFC 2928
	"2001:db8::/32",     // documentation, RFC 3849
	"2620:4f:8000::/48", // AS112, RFC 7534
	"3fff::/20",         // documentation, RFC 9637
)

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
	teredo = netip.MustParsePrefix("2001::/32")    // RFC 4380
)

// Public reports whether an address is an ordinary one of the Internet. It is
// false for every special-purpose address. An IPv6 address that embeds an IPv4
// address (mapped, NAT64, 6to4, Teredo, ISATAP) is public only if that one is.
func Public(a netip.Addr) bool {
	switch {
	case !a.IsValid() || a.Zone() != "":
		return false
	case a.Is4():
		return !contains(special4, a)
	}
	b := a.As16()
	switch {
	case a.Is4In6(), nat64.Contains(a):
		return Public(v4(b[12:]))
	case sixTo4.Contains(a):
		return Public(v4(b[2:])) && !isatapPrivate(b)
	case teredo.Contains(a):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return Public(v4(b[4:])) && Public(client)
	}
	return global6.Contains(a) && !contains(special6, a) && !isatapPrivate(b)
}

// isatapPrivate reports whether the interface identifier is ISATAP's
// (RFC 5214) with an IPv4 address that is not public.
func isatapPrivate(b [16]byte) bool {
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe && !Public(v4(b[12:]))
}

func v4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b[:4])) }

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
