package policy_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestNetworkEntriesAsMappings(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"no url":                      {"allow: [{inspect: true}]", "has no url"},
		"unknown key":                 {"allow: [{url: a.example, inspct: true}]", `did you mean "inspect"?`},
		"bad url":                     {"allow: [{url: 'http://u@a'}]", "network.allow[0].url"},
		"in deny":                     {"deny: [{url: a.example}]", "must be a string"},
		"inspect of http":             {"allow: [{url: 'http://a.example', inspect: true}]", "https only"},
		"secret over http":            {"allow: [{url: 'http://a.example', secret: {header: X-Key, env: K}}]", "https only"},
		"a placeholder that is short": {"allow: [{url: a.example, secret: {header: A, env: K, instead_of: short}}]", "8 to 4096"},
		"a placeholder of a space":    {"allow: [{url: a.example, secret: {header: A, env: K, instead_of: ' padded text'}}]", "space"},
		"no secret with another":      {"allow: [{url: a.example, secret: {header: A, none: true, prefix: x}}]", "beside header alone"},
		"no secret, false":            {"allow: [{url: a.example, secret: {header: A, none: false}}]", "beside header alone"},
		"an unknown login":            {"allow: [{url: a.example, secret: {header: A, login: nobody}}]", "expected one of claude, codex"},
		"two sources":                 {"allow: [{url: a.example, secret: {header: A, login: claude, env: K}}]", "one source"},
		"inspect on loopback":         {"allow: [{url: 'http://127.0.0.1:80', inspect: true}]", "https only"},
		"secret to a private host":    {"allow: [{url: 'http://10.0.0.1', secret: {header: X-Key, env: K}}]", "https only"},
		"secret to a like name":       {"allow: [{url: 'http://localhost.example', secret: {header: X-Key, env: K}}]", "https only"},
		"secret without header":       {"allow: [{url: a.example, secret: {env: K}}]", "needs header, and one of"},
		"secret in Host":              {"allow: [{url: a.example, secret: {header: Host, env: K}}]", "cannot carry a secret"},
		"secret in Proxy-*":           {"allow: [{url: a.example, secret: {header: Proxy-Authorization, env: K}}]", "cannot carry a secret"},
		"header with a colon":         {"allow: [{url: a.example, secret: {header: 'a:b', env: K}}]", "not a valid header name"},
		"env is no name":              {"allow: [{url: a.example, secret: {header: A, env: 'K-1'}}]", "environment variable"},
		"line break in a prefix":      {`allow: [{url: a.example, secret: {header: A, env: K, prefix: "a\r\nb"}}]`, "printable"},
		"inspect is a word":           {"inspect: yes please", "must be true or false"},
		"bandwidth of nothing":        {"bandwidth: 0", "size of at least 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Parse("p.yaml", []byte("version: 1\nnetwork: {"+tt.src+"}"))
			if !errors.Is(err, fault.PolicyInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestNetworkEntriesPrintAsTheyParse(t *testing.T) {
	src := `version: 1
network:
  allow:
    - plain.example
    - {url: "GET https://a.example/v1/**", inspect: true}
    - {url: "b.example", secret: {header: Authorization, env: B_TOKEN, prefix: "Bearer "}}
    - {url: "c.example", inspect: true, secret: {header: X-Key, env: C_KEY}}
    - {url: "d.example", inspect: false}
    - {url: "f.example", secret: {header: X-Key, login: claude, prefix: "Bearer ", instead_of: "a placeholder"}}
    - {url: "f.example", secret: {header: X-Other, none: true}}
    - {url: "http://127.0.0.1:8080", secret: {header: X-Key, env: K}}
  ask: [{url: "e.example", inspect: true}]
  bandwidth: 1MiB
  total_bytes: 5MiB
  inspect: true
roles:
  "agent:x": {network: {allow: [{url: a.example, inspect: true}], total_bytes: 1KiB}}
`
	p, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	first := p.Print()
	for _, want := range []string{`- url: "GET https://a.example/v1/**"`, `secret: {header: "Authorization", env: "B_TOKEN", prefix: "Bearer "}`,
		`- "d.example"`, "bandwidth: 1048576", "total_bytes: 5242880", "inspect: true"} {
		if !bytes.Contains(first, []byte(want)) {
			t.Errorf("the print lacks %s:\n%s", want, first)
		}
	}
	again, err := policy.Parse("p.yaml", first)
	if err != nil || !bytes.Equal(again.Print(), first) {
		t.Errorf("the print does not read back: %v\n%s", err, first)
	}
}

func https(host, method, path string) tool.Target {
	return tool.Target{Method: method, Scheme: "https", Host: host, Port: 443, Path: path}
}

func TestATunnelNeedsAnEntryWithoutMethodAndPath(t *testing.T) {
	tests := map[string]struct {
		entry  string
		deny   bool
		effect bool
	}{
		"bare host":                   {"a.example", false, true},
		"scheme and port":             {"https://a.example:443", false, true},
		"any host":                    {"*", false, true},
		"a method":                    {"GET a.example", false, false},
		"every usual method":          {"GET,POST,PUT,DELETE,HEAD,OPTIONS,PATCH a.example", false, false},
		"a path":                      {"https://a.example/v1/**", false, false},
		"any path":                    {"https://a.example/**", false, false},
		"the root":                    {"https://a.example/", false, false},
		"another port":                {"https://a.example:8443", false, false},
		"plain http":                  {"http://a.example:443", false, false},
		"deny of a method denies all": {"POST a.example", true, false},
		"deny of a path denies all":   {"a.example/private", true, false},
		"deny of another host":        {"b.example", true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			src := "network: {allow: ['" + tt.entry + "']}"
			if tt.deny {
				src = "network: {allow: [a.example], deny: ['" + tt.entry + "']}"
			}
			d := chain(t, src).DecideAction(tool.Action{Kind: tool.Network, Target: https("a.example", "", "")})
			if (d.Effect == policy.Allow) != tt.effect {
				t.Errorf("%s: %v, %s", tt.entry, d.Effect, d.Reason)
			}
			if r, err := target.ParseRule(tt.entry, false); err != nil || !tt.deny && r.Match(https("a.example", "", "")) != tt.effect {
				t.Errorf("the rule itself: %v", err)
			}
		})
	}
}

func TestATunnelIsAskedAboutWhereAskNamesWhatItCanCarry(t *testing.T) {
	tests := map[string]struct {
		src  string
		want policy.Effect
	}{
		"a method":          {"allow: [a.example], ask: ['GET a.example']", policy.Ask},
		"a path":            {"allow: [a.example], ask: ['a.example/v1/**']", policy.Ask},
		"another host":      {"allow: [a.example], ask: ['GET b.example']", policy.Allow},
		"another port":      {"allow: [a.example], ask: ['GET a.example:8443']", policy.Allow},
		"plain http":        {"allow: [a.example], ask: ['GET http://a.example']", policy.Allow},
		"nothing allows it": {"ask: ['GET a.example']", policy.Deny},
		"denied as well":    {"allow: [a.example], ask: ['GET a.example'], deny: [POST a.example]", policy.Deny},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := chain(t, "network: {"+tt.src+"}").DecideAction(tool.Action{Kind: tool.Network, Target: https("a.example", "", "")})
			if d.Effect != tt.want {
				t.Errorf("%v: %s", d.Effect, d.Reason)
			}
		})
	}
}

func TestWhatConnectionsMayReach(t *testing.T) {
	tests := map[string]struct {
		links         []string
		reach, opened bool
	}{
		"an entry with a path":          {[]string{"network: {allow: [GET a.example/v1/**]}"}, true, false},
		"an ask entry":                  {[]string{"network: {ask: [GET a.example]}"}, true, false},
		"another host":                  {[]string{"network: {allow: [b.example]}"}, false, false},
		"another port":                  {[]string{"network: {allow: ['https://a.example:8443']}"}, false, false},
		"no section":                    {[]string{"limits: {calls: 1}"}, false, false},
		"denied whole":                  {[]string{"network: {allow: [GET a.example], deny: [a.example]}"}, false, false},
		"denied in part":                {[]string{"network: {allow: [a.example], deny: [POST a.example]}"}, true, false},
		"inspect for all":               {[]string{"network: {allow: [a.example], inspect: true}"}, true, true},
		"inspect for the host":          {[]string{"network: {allow: [{url: a.example/x, inspect: true}]}"}, true, true},
		"inspect for another host":      {[]string{"network: {allow: [a.example, {url: b.example, inspect: true}]}"}, true, false},
		"a secret inspects":             {[]string{"network: {allow: [{url: a.example, secret: {header: A, env: K}}]}"}, true, true},
		"any link inspects":             {[]string{"network: {allow: [a.example]}", "network: {allow: [a.example], inspect: true}"}, true, true},
		"a narrower link does not":      {[]string{"network: {allow: [a.example], inspect: true}", "network: {allow: [a.example], inspect: false}"}, true, true},
		"one link closes":               {[]string{"network: {allow: [a.example]}", "network: {allow: [b.example]}"}, false, false},
		"a link that leaves it is open": {[]string{"network: {allow: [a.example]}", "rest: inherit"}, true, false},
		"all leave it":                  {[]string{"rest: inherit", "rest: inherit"}, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := chain(t, tt.links...)
			if got := c.MayReach(https("a.example", "", "")); got != tt.reach {
				t.Errorf("may reach: %v", got)
			}
			if got := c.Inspects(https("a.example", "", "")); got != tt.opened {
				t.Errorf("inspects: %v", got)
			}
		})
	}
	if (policy.Chain{}).MayReach(https("a.example", "", "")) || (policy.Chain{nil}).MayReach(https("a.example", "", "")) {
		t.Error("an empty chain reaches something")
	}
}

func TestSecretsAreOfTheFirstPolicyAlone(t *testing.T) {
	const root = "network: {allow: [{url: 'GET a.example/v1/**', secret: {header: Authorization, env: K, prefix: 'Bearer '}}, a.example, b.example]}"
	key := policy.Secret{Header: "Authorization", Env: "K", Prefix: "Bearer "}
	tests := map[string]struct {
		links []string
		to    tool.Target
		want  []policy.Secret
		err   string
	}{
		"the matching request":       {[]string{root}, https("a.example", "GET", "/v1/x"), []policy.Secret{key}, ""},
		"another path":               {[]string{root}, https("a.example", "GET", "/v2"), nil, ""},
		"another method":             {[]string{root}, https("a.example", "POST", "/v1/x"), nil, ""},
		"another host":               {[]string{root}, https("b.example", "GET", "/v1/x"), nil, ""},
		"a tunnel":                   {[]string{root}, https("a.example", "", ""), nil, ""},
		"a narrower link without":    {[]string{root, "network: {allow: [a.example]}"}, https("a.example", "GET", "/v1/x"), []policy.Secret{key}, ""},
		"a narrower link repeats it": {[]string{root, root}, https("a.example", "GET", "/v1/x"), []policy.Secret{key}, ""},
		"a narrower link adds one": {[]string{root, "network: {allow: [{url: b.example, secret: {header: A, env: OTHER}}]}"},
			https("b.example", "GET", "/"), nil, `"OTHER"`},
		"a narrower link takes another prefix": {[]string{root, "network: {allow: [{url: a.example, secret: {header: Authorization, env: K}}]}"},
			https("a.example", "GET", "/v1/x"), nil, "narrowing"},
		"after a link that leaves it open": {[]string{"rest: inherit", root}, https("a.example", "GET", "/v1/x"), []policy.Secret{key}, ""},
		"two with placeholders": {[]string{"network: {allow: [{url: a.example, secret: {header: A, env: K, instead_of: placeholder-1}}, {url: a.example, secret: {header: a, env: L, instead_of: placeholder-2}}]}"},
			https("a.example", "GET", "/"), []policy.Secret{{Header: "A", Env: "K", InsteadOf: "placeholder-1"}, {Header: "a", Env: "L", InsteadOf: "placeholder-2"}}, ""},
		"two with one placeholder": {[]string{"network: {allow: [{url: a.example, secret: {header: A, env: K, instead_of: placeholder-1}}, {url: a.example, secret: {header: a, env: L, instead_of: placeholder-1}}]}"},
			https("a.example", "GET", "/"), nil, "different secrets"},
		"one with and one without": {[]string{"network: {allow: [{url: a.example, secret: {header: A, env: K, instead_of: placeholder-1}}, {url: a.example, secret: {header: a, none: true}}]}"},
			https("a.example", "GET", "/"), nil, "different secrets"},
		"two for one header": {[]string{"network: {allow: [{url: a.example, secret: {header: A, env: K}}, {url: a.example, secret: {header: a, env: L}}]}"},
			https("a.example", "GET", "/"), nil, "different secrets"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chain(t, tt.links...).Secrets(tt.to)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestNetworkBudgetsAreTheSmallest(t *testing.T) {
	l := chain(t, "network: {bandwidth: 2MiB, total_bytes: 9MiB}", "rest: inherit", "network: {bandwidth: 1MiB, total_bytes: 20MiB}").Limits()
	if l.Bandwidth != 1<<20 || l.TotalBytes != 9<<20 {
		t.Errorf("%d bytes/s, %d bytes", l.Bandwidth, l.TotalBytes)
	}
}

func TestTheSchemaKnowsNetworkEntriesAsMappings(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(policy.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string]bool{
		`{"allow": ["a.example", {"url": "b.example", "inspect": true}], "inspect": true, "bandwidth": "1MiB", "total_bytes": 5}`: true,
		`{"ask": [{"url": "b.example", "secret": {"header": "A", "env": "K", "prefix": "Bearer "}}]}`:                             true,
		`{"allow": [{"url": "b.example", "addresses": ["10.0.0.5"]}]}`:                                                            true,
		`{"deny": [{"url": "b.example", "addresses": ["10.0.0.5"]}]}`:                                                             false,
		`{"allow": [{"url": "b.example", "addresses": "10.0.0.5"}]}`:                                                              false,
		`{"allow": [{"inspect": true}]}`:                                                                                          false,
		`{"allow": [{"url": "a", "secret": {"env": "K"}}]}`:                                                                       false,
		`{"allow": [{"url": "a", "secret": {"header": "A", "env": "K", "value": "x"}}]}`:                                          false,
		`{"deny": [{"url": "a"}]}`: false,
		`{"inspect": "yes"}`:       false,
	} {
		for _, where := range []string{`{"version": 1, "network": %s}`, `{"version": 1, "roles": {"agent:x": {"network": %s}}}`} {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(fmt.Sprintf(where, section)))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Validate(v) == nil; got != want {
				t.Errorf("%s: fits %v", fmt.Sprintf(where, section), got)
			}
			if _, err := policy.Parse("p.json", []byte(fmt.Sprintf(where, section))); (err == nil) != want {
				t.Errorf("%s: %v", fmt.Sprintf(where, section), err)
			}
		}
	}
}
