package policy_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const secretsHead = "version: 1\nname: p\n"

func secretChain(t *testing.T, docs ...string) policy.Chain {
	t.Helper()
	var c policy.Chain
	for _, d := range docs {
		p, err := policy.Parse("p.yaml", []byte(secretsHead+d))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(policy.Env{Workspace: "/w"})
		if err != nil {
			t.Fatal(err)
		}
		c = append(c, r)
	}
	return c
}

func TestWhoMaySendASecret(t *testing.T) {
	github := `secrets: [{name: github, tools: ["api:github:*"], hosts: [GET https://api.github.com/repos/**]}]` + "\n"
	tests := map[string]struct {
		chain  []string
		secret string
		tool   tool.ID
		url    string
		want   bool
	}{
		"what an entry says": {[]string{github}, "github", "api:github:get", "https://api.github.com/repos/a", true},
		"nothing said":       {[]string{""}, "github", "api:github:get", "https://api.github.com/repos/a", false},
		"another secret":     {[]string{github}, "gitlab", "api:github:get", "https://api.github.com/repos/a", false},
		"another tool":       {[]string{github}, "github", "api:gitlab:get", "https://api.github.com/repos/a", false},
		"another host":       {[]string{github}, "github", "api:github:get", "https://example.com/repos/a", false},
		"another path":       {[]string{github}, "github", "api:github:get", "https://api.github.com/user", false},
		"without TLS":        {[]string{github}, "github", "api:github:get", "http://api.github.com/repos/a", false},
		"a later policy that says nothing closes": {[]string{github, ""}, "github", "api:github:get", "https://api.github.com/repos/a", false},
		"a later policy that inherits leaves it":  {[]string{github, "rest: inherit\n"}, "github", "api:github:get", "https://api.github.com/repos/a", true},
		"a later policy gives nothing":            {[]string{"secrets: []\n", github}, "github", "api:github:get", "https://api.github.com/repos/a", false},
		"a later policy takes away":               {[]string{github, "rest: inherit\nsecrets: []\n"}, "github", "api:github:get", "https://api.github.com/repos/a", false},
		"only the environment": {[]string{`secrets: [{name: github, tools: ["*"], env: TOKEN}]` + "\n"}, "github",
			"api:github:get", "https://api.github.com/repos/a", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			to, err := target.Parse("GET", tc.url)
			if err != nil {
				t.Fatal(err)
			}
			err = secretChain(t, tc.chain...).MaySend(tc.secret, tc.tool, to)
			if (err == nil) != tc.want || err != nil && !errors.Is(err, fault.HandleRefused) {
				t.Errorf("got %v, want allowed: %v", err, tc.want)
			}
		})
	}
	if to, err := target.Parse("GET", "https://api.github.com/repos/a"); err != nil || (policy.Chain{}).MaySend("github", "x", to) == nil {
		t.Error("an empty chain lets a secret be sent")
	}
}

func TestWhichSecretsAProcessIsGiven(t *testing.T) {
	gives := `secrets: [{name: github, tools: [shell.run], env: TOKEN}, {name: npm, tools: ["shell.*"], env: NPM_TOKEN}]` + "\n"
	tests := map[string]struct {
		chain []string
		tool  tool.ID
		want  []policy.EnvSecret
	}{
		"both":                 {[]string{gives}, "shell.run", []policy.EnvSecret{{"NPM_TOKEN", "npm"}, {"TOKEN", "github"}}},
		"another tool":         {[]string{gives}, "exec", nil},
		"no policy":            {nil, "shell.run", nil},
		"a silent second":      {[]string{gives, ""}, "shell.run", nil},
		"an inheriting second": {[]string{gives, "rest: inherit\n"}, "shell.run", []policy.EnvSecret{{"NPM_TOKEN", "npm"}, {"TOKEN", "github"}}},
		"a second that keeps one": {[]string{gives, `secrets: [{name: npm, tools: [shell.run], env: NPM_TOKEN}, {name: github, tools: [shell.run], env: OTHER}]` + "\n"},
			"shell.run", []policy.EnvSecret{{"NPM_TOKEN", "npm"}}},
		"a second adds nothing": {[]string{"secrets: []\n", gives}, "shell.run", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := secretChain(t, tc.chain...).EnvSecrets(tc.tool)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
	two := `secrets: [{name: a, tools: ["*"], env: T}, {name: b, tools: [shell.run], env: T}]` + "\n"
	if _, err := secretChain(t, two).EnvSecrets("shell.run"); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("two values for one variable: %v", err)
	}
}

func TestSecretsAreReadStrictly(t *testing.T) {
	for src, want := range map[string]string{
		`secrets: {}`:                                                                                 "must be a list",
		`secrets: [{name: a}]`:                                                                        "needs name and tools",
		`secrets: [{tools: [x]}]`:                                                                     "needs name and tools",
		`secrets: [{name: a, tools: []}]`:                                                             "needs name and tools",
		`secrets: [{name: a, tools: [x]}]`:                                                            "allows nothing",
		`secrets: [{name: A, tools: [x]}]`:                                                            "is not a valid name of a stored secret",
		`secrets: [{name: "a--b", tools: [x]}]`:                                                       "is not a valid name of a stored secret",
		`secrets: [{name: a-, tools: [x]}]`:                                                           "is not a valid name of a stored secret",
		`secrets: [{name: a, tools: [x], hosts: ["http://example.com"]}]`:                             "https only",
		`secrets: [{name: a, tools: [x], hosts: ["http://*"]}]`:                                       "https only",
		`secrets: [{name: a, tools: [x], hosts: ["tcp://example.com:22"]}]`:                           "https only",
		`secrets: [{name: a, tools: [x], hosts: [10.0.0.0/8]}]`:                                       "cannot be read",
		`secrets: [{name: a, tools: [x], env: PATH}]`:                                                 "Remit's to set",
		`secrets: [{name: a, tools: [x], env: "A=B"}]`:                                                "is not a valid name of an environment variable",
		`secrets: [{name: a, tools: ["x y"], env: A}]`:                                                "is not a valid tool pattern",
		`secrets: [{name: a, tools: [x], value: hunter22}]`:                                           "unknown key",
		`network: {allow: [{url: "https://h", secret: {header: A, env: E, store: s}}]}`:               "one source",
		`network: {allow: [{url: "https://h", secret: {header: A, store: "Not Good"}}]}`:              "is not a valid name of a stored secret",
		`network: {allow: [{url: "https://h", secret: {header: A}}]}`:                                 "needs header, and one of env, store and login",
		`roles: {"agent:*": {secrets: [{name: a, tools: [x]}]}}`:                                      "allows nothing",
		`secrets: [{name: a, tools: [x], hosts: ["http://127.0.0.1:80"]}, {name: a, name: b}]` + "\n": "given twice",
	} {
		_, err := policy.Parse("p.yaml", []byte(secretsHead+src+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.PolicyInvalid) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

func TestSecretsArePrintedAsTheyAreRead(t *testing.T) {
	src := secretsHead + `secrets:
  - {name: github, tools: ["api:github:*"], hosts: [api.github.com, "http://127.0.0.1:8080"], env: TOKEN}
  - {name: npm, tools: [shell.run], env: NPM}
network:
  allow: [{url: "https://h", secret: {header: X-Key, store: github, prefix: "t "}}]
roles:
  "agent:*": {secrets: []}
`
	p, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	printed := p.Print()
	again, err := policy.Parse("p.yaml", printed)
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if !bytes.Equal(again.Print(), printed) {
		t.Errorf("printed\n%s\nthen\n%s", printed, again.Print())
	}
	uses := again.SecretUses()
	if len(uses) != 2 || uses[0].Name != "github" || uses[0].Env != "TOKEN" || len(uses[0].Hosts) != 2 || uses[1].Tools[0] != "shell.run" {
		t.Errorf("%+v", uses)
	}
	for _, e := range again.Entries() {
		if e.Secret == nil || e.Secret.Key() != "store:github" || e.Secret.Prefix != "t " {
			t.Errorf("%+v", e.Secret)
		}
	}
	if !strings.Contains(string(printed), "secrets: []") {
		t.Errorf("a role's empty list is lost:\n%s", printed)
	}
}
