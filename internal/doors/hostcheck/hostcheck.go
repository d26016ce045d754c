// Package hostcheck recognizes requests that a foreign web page made the browser send
// to a service on this machine. Checking the Host header prevents DNS rebinding;
// checking the Origin header prevents cross-site requests. Start at [Service.Foreign].
package hostcheck

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/dpop"
)

// Service says under which hosts a service may be called: names and addresses of loopback
// with its port, and further names.
type Service struct {
	Hosts []string // further names, with any port, as a proxy before the service may have another one
	Port  string   // that the service listens on; "": any
	TLS   bool
	// Address is where clients find the service, if the settings say so; "": they do not.
	Address string
}

// Origins gives the origins of the service, as [dpop.Origin] writes them. A proxy before it
// ends TLS at the usual port of its further names, or at Address.
func (s Service) Origins() []string {
	scheme, out := "http", []string{}
	if s.TLS {
		scheme = "https"
	}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, s.Hosts...) {
		out = append(out, dpop.Origin(&url.URL{Scheme: scheme, Host: net.JoinHostPort(h, s.Port)}))
	}
	for _, h := range s.Hosts {
		out = append(out, dpop.Origin(&url.URL{Scheme: "https", Host: net.JoinHostPort(h, "")}))
	}
	if u, err := url.Parse(s.Address); err == nil && u.Host != "" {
		out = append(out, dpop.Origin(u))
	}
	return out
}

// Foreign says why a request may come from a foreign web page; "": it does not.
func (s Service) Foreign(r *http.Request) string {
	if !s.named(r.Host) {
		return "this host is not served here"
	}
	checked := r.WithContext(r.Context())
	checked.Method = http.MethodPost // of all methods: the library lets foreign pages read
	if http.NewCrossOriginProtection().Check(checked) != nil {
		return "requests of other origins are not served"
	}
	return ""
}

// named reports whether the service may be called under a host.
func (s Service) named(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	if slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
		return true
	}
	if s.Port != "" && port != s.Port {
		return false
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(name, "localhost")
}
