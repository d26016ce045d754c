// Package hostcheck tells what clients ask of a service that listens here from what a
// web page may have had a browser ask: by the Host that was called (against DNS
// rebinding) and by the page's Origin (against requests across sites). Start at
// [Service.Foreign].
package hostcheck

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Service is how a service may be called: by a name or address of loopback with its
// port, and by further names.
type Service struct {
	Hosts []string // further names, with any port: a proxy before it may have another
	Port  string   // that it listens on; "": not known, and not looked at
}

// Foreign says why a request may be one that a web page had a browser make, or "".
func (s Service) Foreign(r *http.Request) string {
	if !s.named(r.Host) {
		return "this host is not served here"
	}
	from := r.Header.Get("Origin")
	if from == "" && !slices.Contains([]string{"cross-site", "same-site"}, r.Header.Get("Sec-Fetch-Site")) {
		return ""
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || !s.named(u.Host) || !strings.EqualFold(u.Host, r.Host) {
		return "requests of other origins are not served"
	}
	return ""
}

// named reports whether clients may call the service by a host, with its port.
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
