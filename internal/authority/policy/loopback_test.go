package policy_test

import "testing"

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
