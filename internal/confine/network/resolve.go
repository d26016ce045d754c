package network

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/remitrun/remit/internal/base/fault"
)

// loopback has the addresses of localhost, as RFC 6761 wants, without the resolver.
var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// Resolve gives the addresses of a canonical host ([tool.Target].Host), without
// duplicates and in the resolver's order; a literal address is its own answer.
// Search domains are not applied. The result is a fact for a decision; [Transport]
// alone resolves and judges the address that it dials.
//
// An unknown host is a fault.NotFound error; other failures are ToolFailed,
// ToolTimeout or ToolCancelled.
func Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	if host == "localhost" {
		return append([]netip.Addr(nil), loopback...), nil
	}
	// The final dot makes the name absolute, so that no search domain turns it
	// into another one.
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host+".")
	if err != nil {
		return nil, lookupError(ctx, host, err)
	}
	return unique(found), nil
}

func unique(list []netip.Addr) []netip.Addr {
	seen := make(map[netip.Addr]bool, len(list))
	out := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if a = a.Unmap(); !seen[a] { // one resolver gives IPv4 as mapped IPv6, another as IPv4
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

func lookupError(ctx context.Context, host string, err error) error {
	var dns *net.DNSError
	if ctx.Err() == nil && errors.As(err, &dns) && dns.IsNotFound {
		return fault.Wrap(fault.NotFound, err, "the host %q does not exist", host)
	}
	return failure(ctx, err, "the host "+host+" cannot be looked up")
}
