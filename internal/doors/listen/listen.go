// Package listen opens the addresses at which doors serve clients: a loopback address, or
// one that others reach under conditions. Start at [Open].
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Address is an address to serve at.
type Address struct {
	Listen  string   // IP address and port; no IP address: all of this machine's
	Example string   // a valid Listen, for hints
	Hosts   []string // names by which clients may call, besides those of loopback
	// Secure says that tokens travel encrypted, or that the operator takes care of it. It is
	// needed for addresses that other machines reach.
	Secure bool
}

// Open listens at an address. It refuses one that other machines reach unless that is secure
// and has a name.
func Open(ctx context.Context, a Address) (net.Listener, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.Listen)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "cannot listen on %q: %v", a.Listen, errors.Unwrap(err))
	}
	return l, nil
}

func (a Address) check() error {
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return fault.New(fault.Usage, "--listen %q is not an address and a port", a.Listen).WithHint("expected an address such as %s", a.Example)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fault.New(fault.Usage, "--listen %q: %q is not a valid port; expected 0 to 65535", a.Listen, port).WithHint("expected an address such as %s", a.Example)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		return fault.New(fault.Usage, "--listen %q names no address", a.Listen).WithHint("as %s, or :%s for all addresses", a.Example, port)
	}
	if Loopback(a.Listen) {
		return nil
	}
	if !a.Secure {
		return fault.New(fault.Usage, "%q is not a loopback address; tokens would be sent unencrypted", a.Listen).
			WithHint("listen on 127.0.0.1; or give --tls-cert and --tls-key; or say --insecure-public where something else before it has TLS")
	}
	if len(a.Hosts) == 0 {
		return fault.New(fault.Usage, "%q is not a loopback address; say by which name clients call it", a.Listen).
			WithHint("listen on 127.0.0.1, or give the name with --allow-host")
	}
	return nil
}

// Loopback reports whether only this machine reaches an address.
func Loopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().IsLoopback()
}

// leastBits is the smallest number of bits of a network of proxies.
const leastBits = 8

// Proxies reads the addresses and networks of --proxy. A wide network is refused: its clients could
// choose their own addresses.
func Proxies(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil && a.Zone() == "" {
			a = a.Unmap()
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil || p.Addr().Is4In6():
			return nil, fault.New(fault.Usage, "--proxy %q is not a valid address or network", text).
				WithHint("expected one such as 10.0.0.5 or 10.0.0.0/24; repeat --proxy for several")
		case p != p.Masked():
			return nil, fault.New(fault.Usage, "--proxy %q is neither an address nor a network", text).
				WithHint("for the network say %s, for the address %s", p.Masked(), p.Addr())
		case p.Bits() < leastBits:
			return nil, fault.New(fault.Usage, "--proxy %q has too many addresses; clients among them could choose the address that counts", text).
				WithHint("name only the proxies before the service")
		}
		out = append(out, p)
	}
	return out, nil
}

// TLS reads a certificate and its key; without their files it gives nil.
func TLS(cert, key string) (*tls.Config, error) {
	if (cert == "") != (key == "") {
		return nil, fault.New(fault.Usage, "a certificate and its key belong together").WithHint("give both --tls-cert and --tls-key")
	}
	if cert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the certificate %q cannot be used with the key %q: %v", cert, key, wholefile.Cause(err))
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}
