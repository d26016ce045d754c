package hostcheck_test

import (
	"net/http"
	"testing"

	"github.com/remitrun/remit/internal/doors/hostcheck"
)

func TestForeign(t *testing.T) {
	s := hostcheck.Service{Hosts: []string{"remit.example"}, Port: "8642"}
	for name, c := range map[string]struct {
		host, origin, site string
		ok                 bool
	}{
		"loopback":                      {host: "127.0.0.1:8642", ok: true},
		"loopback of IPv6":              {host: "[::1]:8642", ok: true},
		"localhost":                     {host: "LocalHost:8642", ok: true},
		"a further name":                {host: "Remit.example", ok: true},
		"a further name, another port":  {host: "remit.example:443", ok: true},
		"another port":                  {host: "127.0.0.1:80"},
		"no port":                       {host: "localhost"},
		"a name that is rebound":        {host: "attacker.example:8642"},
		"a name that ends as one does":  {host: "x.remit.example"},
		"a name that begins as one":     {host: "localhost.attacker.example:8642"},
		"an address elsewhere":          {host: "10.0.0.1:8642"},
		"no host":                       {},
		"its own page":                  {host: "localhost:8642", origin: "http://localhost:8642", site: "same-origin", ok: true},
		"a page elsewhere":              {host: "localhost:8642", origin: "https://attacker.example"},
		"another page of this machine":  {host: "localhost:8642", origin: "http://localhost:3000"},
		"its own page by another name":  {host: "localhost:8642", origin: "http://127.0.0.1:8642"},
		"a page of no origin":           {host: "localhost:8642", origin: "null"},
		"an origin that cannot be read": {host: "localhost:8642", origin: "http://%zz"},
		"across sites without origin":   {host: "localhost:8642", site: "cross-site"},
		"a site beside without origin":  {host: "localhost:8642", site: "same-site"},
		"typed by a person":             {host: "localhost:8642", site: "none", ok: true},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{}}
		for key, v := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if v != "" {
				r.Header.Set(key, v)
			}
		}
		for _, r.Method = range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			if why := s.Foreign(r); (why == "") != c.ok {
				t.Errorf("%s: %s: %q", name, r.Method, why)
			}
		}
	}
	if why := (hostcheck.Service{}).Foreign(&http.Request{Host: "127.0.0.1:1", Header: http.Header{}}); why != "" {
		t.Errorf("a port that is not known: %q", why)
	}
}
