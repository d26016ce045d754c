package policy_test

import (
	"net/netip"
	"testing"
)

func TestTheHostOfALoopbackPort(t *testing.T) {
	const head = "network: "
	tests := map[string]struct {
		at      string
		sources []string
		want    string
	}{
		"localhost":                  {"127.0.0.1:3000", []string{head + `{allow: ["http://localhost:3000"]}`}, "localhost"},
		"localhost at IPv6":          {"[::1]:3000", []string{head + `{allow: ["http://localhost:3000"]}`}, "localhost"},
		"the unspecified address":    {"0.0.0.0:3000", []string{head + `{allow: ["tcp://127.0.0.1:3000"]}`}, "127.0.0.1"},
		"one address for another":    {"[::1]:3000", []string{head + `{ask: ["GET http://127.0.0.1:3000/x"]}`}, "127.0.0.1"},
		"another port":               {"127.0.0.1:3001", []string{head + `{allow: ["http://localhost:3000"]}`}, ""},
		"another loopback address":   {"127.0.0.2:3000", []string{head + `{allow: ["http://127.0.0.1:3000"]}`}, ""},
		"that one is named":          {"127.0.0.2:3000", []string{head + `{allow: ["https://127.0.0.2:3000"]}`}, "127.0.0.2"},
		"any host is no address":     {"127.0.0.1:443", []string{head + `{allow: ["*"]}`}, ""},
		"denied":                     {"127.0.0.1:3000", []string{head + `{allow: ["http://localhost:3000"], deny: ["localhost"]}`}, ""},
		"no rules":                   {"127.0.0.1:3000", []string{""}, ""},
		"a later link does not":      {"127.0.0.1:3000", []string{head + `{allow: ["http://localhost:3000"]}`, head + `{allow: ["http://localhost:3001"]}`}, ""},
		"links with different names": {"127.0.0.1:3000", []string{head + `{allow: ["http://localhost:3000"]}`, head + `{allow: ["http://127.0.0.1:3000"]}`}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chainOfSources(t, tc.sources...).LoopbackHost(netip.MustParseAddrPort(tc.at)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhetherLoopbackIsNamed(t *testing.T) {
	const head = "network: "
	tests := map[string]struct {
		sources []string
		want    bool
	}{
		"localhost":                    {[]string{head + `{allow: ["http://localhost:3000"]}`}, true},
		"the address, with a path":     {[]string{head + `{allow: ["GET http://127.0.0.1:8080/x/**"]}`}, true},
		"the IPv6 address":             {[]string{head + `{allow: ["http://[::1]:8080"]}`}, true},
		"to be asked about":            {[]string{head + `{ask: ["tcp://127.0.0.1:22"]}`}, true},
		"any name is no address":       {[]string{head + `{allow: ["*.example.com", "example.com"]}`}, false},
		"another private one":          {[]string{head + `{allow: ["http://10.0.0.1"]}`}, false},
		"only denied":                  {[]string{head + `{allow: [a.example], deny: ["http://localhost"]}`}, false},
		"no rules":                     {[]string{""}, false},
		"a later link does not":        {[]string{head + `{allow: ["http://localhost"]}`, head + `{allow: [a.example]}`}, false},
		"a later link leaves it to it": {[]string{head + `{allow: ["http://localhost"]}`, "rest: inherit\n"}, true},
		"a later link also does":       {[]string{head + `{allow: ["http://localhost"]}`, head + `{allow: ["http://127.0.0.1"]}`}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chainOfSources(t, tc.sources...).NamesLoopback(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
