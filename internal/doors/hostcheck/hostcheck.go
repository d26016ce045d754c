// Package hostcheck recognizes requests that a foreign web page made the browser send
// to a service on this machine. Checking the Host header prevents DNS rebinding;
// checking the Origin header prevents cross-site requests. Start at [Service.Foreign].
package hostcheck

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Service says under which hosts a service may be called: names and addresses of loopback
// with its port, and further names.
type Service struct {
	Hosts []string // further names, with any port, as a proxy before the service may have another one
	Port  string   // that the service listens on; "": any
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
