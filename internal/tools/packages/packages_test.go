package packages_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/packages"
)

func TestParseCommand(t *testing.T) {
	tests := map[string]struct {
		argv string
		want *packages.Request // nil: not a launcher, or refused
		err  string
	}{
		"a package":              {"npx -y @scope/name dir", &packages.Request{Kind: packages.NPM, Name: "@scope/name", Args: []string{"dir"}}, ""},
		"a version":              {"npx name@1.2.3", &packages.Request{Kind: packages.NPM, Name: "name", Version: "1.2.3", Args: []string{}}, ""},
		"a scope and a tag":      {"/usr/bin/npx --yes @s/n@latest", &packages.Request{Kind: packages.NPM, Name: "@s/n", Version: "latest", Args: []string{}}, ""},
		"a range":                {"npx name@^1.2", &packages.Request{Kind: packages.NPM, Name: "name", Version: "^1.2", Args: []string{}}, ""},
		"a named program":        {"npx -p name@2 prog --flag", &packages.Request{Kind: packages.NPM, Name: "name", Version: "2", Program: "prog", Args: []string{"--flag"}}, ""},
		"options of the program": {"npx -y name --registry=https://evil.test", &packages.Request{Kind: packages.NPM, Name: "name", Args: []string{"--registry=https://evil.test"}}, ""},
		"after two dashes":       {"npx -y -- name a", &packages.Request{Kind: packages.NPM, Name: "name", Args: []string{"a"}}, ""},
		"uvx":                    {"uvx mcp-server-time --zone x", &packages.Request{Kind: packages.PyPI, Name: "mcp-server-time", Args: []string{"--zone", "x"}}, ""},
		"uvx with a version":     {"uvx a==1.0", &packages.Request{Kind: packages.PyPI, Name: "a", Version: "1.0", Args: []string{}}, ""},
		"uvx from":               {"uvx --from a[x]@latest prog", &packages.Request{Kind: packages.PyPI, Name: "a[x]", Program: "prog", Args: []string{}}, ""},
		"another program":        {"node index.js", nil, ""},
		"a registry":             {"npx --registry=https://evil.test name", nil, "not supported"},
		"a userconfig":           {"npx --userconfig /tmp/rc name", nil, "not supported"},
		"a shell":                {"npx -c id", nil, "not supported"},
		"two packages":           {"npx -p a -p b prog", nil, "two packages"},
		"an option as a package": {"npx -- --registry=https://evil.test", nil, "not a valid package name"},
		"an option by -p":        {"npx --package=--global prog", nil, "not a valid package name"},
		"a folder":               {"npx ./evil", nil, "not a valid package name"},
		"a parent":               {"npx ..", nil, "not a valid package name"},
		"an archive":             {"npx https://evil.test/x.tgz", nil, "not a valid package name"},
		"a repository":           {"npx user/repo", nil, "not a valid package name"},
		"a repository by URL":    {"npx git+ssh://git@evil.test/x", nil, "not a valid package name"},
		"a file as version":      {"npx name@file:../x", nil, "not a valid version"},
		"another name":           {"npx name@npm:other", nil, "not a valid version"},
		"a terminal escape":      {"npx na\x1b[2Jme", nil, "not a valid package name"},
		"a program with a slash": {"npx -p name ../prog", nil, "not a valid program"},
		"no package":             {"npx -y", nil, "missing"},
		"an index for uvx":       {"uvx --index-url=https://evil.test a", nil, "not supported"},
		"a requirement":          {"uvx a@git+https://evil.test", nil, "not a valid version"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := packages.ParseCommand(strings.Split(tt.argv, " "))
			if tt.err != "" {
				if err == nil || !strings.Contains(fault.Message(err), tt.err) {
					t.Fatalf("got %v, %v; want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// What is accepted reaches the package manager as one word: it must not be an option, a path
// or a URL.
func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{"npx\x00-y\x00@a/b@1", "npx\x00-p\x00a\x00b", "uvx\x00a==1", "npx\x00--\x00-g"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := packages.ParseCommand(strings.Split(s, "\x00"))
		if r == nil || err != nil {
			return
		}
		word := r.String()
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, ".") || strings.HasPrefix(word, "/") || strings.ContainsAny(word, ":\\ \n\x1b") || strings.Contains(word, "/..") || strings.Contains(word, "../") {
			t.Fatalf("%q was accepted as the package %q", s, word)
		}
	})
}

var strong = "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))

func lockOf(items string) []byte {
	return fmt.Appendf(nil, `{"lockfileVersion": 3, "packages": {"": {"name": "x"}, %s}}`, strings.ReplaceAll(items, "HASH", strong))
}

func TestReadNPMLock(t *testing.T) {
	origins := []string{"https://registry.test"}
	good := `"node_modules/a": {"version": "1.0.0", "resolved": "https://registry.test/a/-/a.tgz", "integrity": "HASH"}`
	tests := map[string]struct {
		items string
		err   string
	}{
		"a package":                         {good, ""},
		"without a source":                  {`"node_modules/a": {"version": "1.0.0", "integrity": "HASH"}`, ""},
		"a scope inside another":            {good + `, "node_modules/a/node_modules/@s/b": {"version": "1.0.0", "integrity": "HASH"}`, ""},
		"part of a package":                 {good + `, "node_modules/a/node_modules/b": {"version": "1.0.0", "inBundle": true}`, ""},
		"part of nothing":                   {`"node_modules/b": {"version": "1.0.0", "inBundle": true}`, "not part of a package with a hash"},
		"part of a package, from elsewhere": {good + `, "node_modules/a/node_modules/b": {"version": "1.0.0", "inBundle": true, "resolved": "https://evil.test/b"}`, "source of its own"},
		"no hash":                           {`"node_modules/a": {"version": "1.0.0", "resolved": "https://registry.test/a.tgz"}`, "no SHA-512 hash"},
		"a weak hash":                       {`"node_modules/a": {"version": "1.0.0", "integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}`, "no SHA-512 hash"},
		"a short hash":                      {`"node_modules/a": {"version": "1.0.0", "integrity": "sha512-AAAA"}`, "no SHA-512 hash"},
		"another host":                      {`"node_modules/a": {"version": "1.0.0", "resolved": "https://evil.test/a.tgz", "integrity": "HASH"}`, "does not come from the registry"},
		"another host by user":              {`"node_modules/a": {"version": "1.0.0", "resolved": "https://registry.test@evil.test/a.tgz", "integrity": "HASH"}`, "does not come from the registry"},
		"another scheme":                    {`"node_modules/a": {"version": "1.0.0", "resolved": "http://registry.test/a.tgz", "integrity": "HASH"}`, "does not come from the registry"},
		"a file":                            {`"node_modules/a": {"version": "1.0.0", "resolved": "file:../../etc", "integrity": "HASH"}`, "does not come from the registry"},
		"a repository":                      {`"node_modules/a": {"version": "1.0.0", "resolved": "git+ssh://git@registry.test/a.git#1", "integrity": "HASH"}`, "does not come from the registry"},
		"a link":                            {`"node_modules/a": {"version": "1.0.0", "link": true, "resolved": "../x"}`, "is a link"},
		"a place outside":                   {`"../a": {"version": "1.0.0", "integrity": "HASH"}`, "not a place in node_modules"},
		"a place above":                     {`"node_modules/../../a": {"version": "1.0.0", "integrity": "HASH"}`, "not a place in node_modules"},
		"a scope that leads out":            {`"node_modules/@a/..": {"version": "1.0.0", "integrity": "HASH"}`, "not a place in node_modules"},
		"a workspace":                       {`"packages/a": {"version": "1.0.0", "integrity": "HASH"}`, "not a place in node_modules"},
		"an escape in a version":            {`"node_modules/a": {"version": "1.0\u001b[2J", "integrity": "HASH"}`, "no valid version"},
		"an escape in a name":               {`"node_modules/a": {"name": "b\u001b[2J", "version": "1.0", "integrity": "HASH"}`, "no valid name"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := packages.ReadNPMLock(lockOf(tt.items), origins)
			if tt.err == "" && (err != nil || len(l.Packages) == 0) {
				t.Fatalf("got %+v, %v", l, err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(fault.Message(err), tt.err)) {
				t.Errorf("got %v, want an error with %q", err, tt.err)
			}
		})
	}
	for _, bad := range []string{`{}`, `[]`, `{"lockfileVersion": 1}`, `x`} {
		if _, err := packages.ReadNPMLock([]byte(bad), origins); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestCompareNamesEveryDifference(t *testing.T) {
	read := func(items string) *packages.Lock {
		l, err := packages.ReadNPMLock(lockOf(items), nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	other := "sha512-" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 64)))
	was := read(`"node_modules/a": {"version": "1.0", "integrity": "HASH"}, "node_modules/b": {"version": "1.0", "integrity": "HASH"}, "node_modules/c": {"version": "1.0", "integrity": "HASH"}, "node_modules/e": {"version": "1.0", "integrity": "HASH"}`)
	now := read(`"node_modules/a": {"version": "1.0", "integrity": "HASH"}, "node_modules/b": {"version": "2.0", "integrity": "HASH"}, "node_modules/d": {"version": "1.0", "integrity": "HASH"}, "node_modules/e": {"version": "1.0", "integrity": "` + other + `"}`)
	want := []packages.Change{{"node_modules/b", "1.0", "2.0"}, {"node_modules/c", "1.0", ""}, {"node_modules/d", "", "1.0"}, {"node_modules/e", "1.0", "1.0"}}
	if got := packages.Compare(was, now); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheFirstConfigurationWins(t *testing.T) {
	var r packages.Registries
	lookup := func(name string) (string, bool) { return map[string]string{"HOST": "own.test"}[name], name == "HOST" }
	r.ReadNPMRC([]byte("; comment\nregistry=https://${HOST}/npm/\n@acme:registry = \"https://acme.test/\"\n//own.test/:_authToken=hush\n@bad/../x:registry=https://x.test\ncafile=/etc/ca.pem\n"), lookup)
	r.ReadNPMRC([]byte("registry=https://later.test/\n@acme:registry=https://later.test/\n"), lookup)
	origins, err := r.Check()
	if err != nil || r.Main != "https://own.test/npm/" || !r.Logins || r.CAFile != "/etc/ca.pem" || !reflect.DeepEqual(r.Scopes, map[string]string{"@acme": "https://acme.test/"}) ||
		!reflect.DeepEqual(origins, []string{"https://own.test", "https://acme.test"}) {
		t.Errorf("got %+v, %v, %v", r, origins, err)
	}
	if strings.Contains(fmt.Sprintf("%+v", r), "hush") {
		t.Error("a credential was kept")
	}
	for _, bad := range []string{"", "file:///x", "https://user:pw@x.test/", "https://x.test/?q", "--evil", "ftp://x.test"} {
		if _, err := (&packages.Registries{Main: bad}).Check(); err == nil || strings.Contains(fault.Message(err), "pw") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestReadProgram(t *testing.T) {
	tests := map[string]struct {
		src, want, file string
		code            fault.Code
	}{
		"one":            {`{"name": "@s/a", "bin": "x.js"}`, "", "x.js", 0},
		"one by name":    {`{"name": "@s/a", "bin": {"other": "x.js"}}`, "", "x.js", 0},
		"like the name":  {`{"name": "a", "bin": {"a": "x.js", "b": "y.js"}}`, "", "x.js", 0},
		"the named one":  {`{"name": "a", "bin": {"a": "x.js", "b": "y.js"}}`, "b", "y.js", 0},
		"none":           {`{"name": "a"}`, "", "", fault.ToolFailed},
		"not that one":   {`{"name": "a", "bin": {"b": "y.js"}}`, "c", "", fault.Usage},
		"one of several": {`{"name": "a", "bin": {"b": "y.js", "c": "y.js"}}`, "", "", fault.Usage},
		"not JSON":       {`x`, "", "", fault.ToolFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file, err := packages.ReadProgram([]byte(tt.src), tt.want)
			if file != tt.file || tt.code != 0 && !errors.Is(err, tt.code) || tt.code == 0 && err != nil {
				t.Errorf("got %q, %v", file, err)
			}
		})
	}
}
