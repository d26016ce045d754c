package packages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/packages"
)

func TestServerJSON(t *testing.T) {
	const npm = `{"registryType": "npm", "identifier": "@acme/mcp", "version": "1.2.3", "transport": {"type": "stdio"}`
	tests := map[string]struct{ src, kind, given, want string }{
		"npm": {`{"name": "io.acme/x", "packages": [` + npm + `,
			"packageArguments": [{"type": "positional", "valueHint": "root", "isRequired": true, "description": "Where"}, {"type": "named", "name": "--mode", "default": "fast"},
				{"type": "named", "name": "--verbose", "isRequired": true}, {"type": "named", "name": "--port", "value": "{port}", "variables": {"port": {"default": "80"}}}, {"type": "positional", "valueHint": "rest"}],
			"environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true}, {"name": "ZONE", "choices": ["eu", "us"], "default": "eu"}, {"name": "OTHER"}]}]}`, "", "",
			`npx -y @acme/mcp@1.2.3 ${input:root} --mode fast --verbose --port ${input:port}|map[TOKEN:${input:TOKEN} ZONE:eu]|map[]|root, port=80, TOKEN secret`},
		"given":  {`{"packages": [` + npm + `, "environmentVariables": [{"name": "ZONE", "choices": ["eu", "us"], "default": "eu"}]}]}`, "", "ZONE", `npx -y @acme/mcp@1.2.3|map[ZONE:${input:ZONE}]|map[]|ZONE=eu of eu us`},
		"pypi":   {`{"server": {"packages": [{"registryType": "pypi", "identifier": "acme-mcp", "version": "2.0", "runtimeHint": "uvx"}]}}`, "", "", `uvx acme-mcp==2.0|map[]|map[]|`},
		"remote": {`{"remotes": [{"type": "sse", "url": "https://a.test/sse"}, {"type": "streamable-http", "url": "https://{tenant}.a.test/mcp", "variables": {"tenant": {"isRequired": true}}, "headers": [{"name": "Authorization", "value": "Bearer {key}", "isSecret": true, "variables": {"key": {}}}, {"name": "X-Key", "isRequired": true}]}]}`, "", "", `https://${input:tenant}.a.test/mcp|map[]|map[Authorization:Bearer ${input:key} X-Key:${input:X-Key}]|tenant, key secret, X-Key secret`},
		"a kind": {`{"packages": [` + npm + `}], "remotes": [{"type": "streamable-http", "url": "https://a.test/mcp"}]}`, "remote", "", `https://a.test/mcp|map[]|map[]|`},

		"an image":             {`{"packages": [{"registryType": "oci", "identifier": "a.test/x@sha256:00", "version": "1"}]}`, "", "", "podman or docker"},
		"a bundle":             {`{"packages": [{"registryType": "mcpb", "identifier": "https://a.test/x.mcpb", "version": "1"}]}`, "", "", "add it with --bundle"},
		"another registry":     {`{"packages": [{"registryType": "nuget", "identifier": "x", "version": "1"}]}`, "", "", `"nuget" packages are not supported`},
		"no version":           {`{"packages": [{"registryType": "npm", "identifier": "x"}]}`, "", "", "has no version"},
		"a URL as package":     {`{"packages": [{"registryType": "npm", "identifier": "https://evil.test/x.tgz", "version": "1"}]}`, "", "", "not a valid package name"},
		"an option as package": {`{"packages": [{"registryType": "pypi", "identifier": "--index-url=https://evil.test", "version": "1"}]}`, "", "", "not supported"},
		"a launcher's option":  {`{"packages": [` + npm + `, "runtimeArguments": [{"type": "named", "name": "--registry", "value": "https://evil.test"}]}]}`, "", "", "launcher"},
		"a server over HTTP":   {`{"packages": [{"registryType": "npm", "identifier": "x", "version": "1", "transport": {"type": "streamable-http"}}]}`, "", "", "expected stdio"},
		"a secret argument":    {`{"packages": [` + npm + `, "packageArguments": [{"type": "positional", "valueHint": "key", "isRequired": true, "isSecret": true}]}]}`, "", "", "is secret"},
		"a strange name":       {`{"packages": [` + npm + `, "environmentVariables": [{"name": "A}${B", "isRequired": true}]}]}`, "", "", "not a valid name"},
		"nothing":              {`{"name": "x"}`, "", "", "neither packages nor remotes"},
		"twice":                {`{"packages": [], "packages": []}`, "", "", "not a valid server.json"},
		"not JSON":             {`x`, "", "", "not a valid server.json"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := recipe(tt.src, tt.kind, tt.given); got != tt.want && (strings.Contains(tt.want, "|") || !strings.Contains(got, tt.want)) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// recipe reads an entry, and gives its recipe or the error in one line.
func recipe(src, kind, given string) string {
	s, err := packages.ReadServerJSON([]byte(src))
	var r *packages.Recipe
	if err == nil {
		var e *packages.Entry
		if e, err = s.Pick(kind); err == nil {
			r, err = e.Recipe(map[string]string{given: "x"})
		}
	}
	if err != nil {
		return fault.Message(err)
	}
	var inputs []string
	for _, in := range r.Inputs {
		one := in.ID
		if in.Default != "" {
			one += "=" + in.Default
		}
		if in.Secret {
			one += " secret"
		}
		if len(in.Options) > 0 {
			one += " of " + strings.Join(in.Options, " ")
		}
		inputs = append(inputs, one)
	}
	return fmt.Sprintf("%s|%v|%v|%s", strings.Join(r.Command, " ")+r.URL, r.Env, r.Headers, strings.Join(inputs, ", "))
}

// Whatever an entry says, its command is npx or uvx of one package with a version, and all that comes
// after belongs to the program.
func FuzzServerJSON(f *testing.F) {
	f.Add("npm", "@acme/mcp", "1.0.0", "--x", "{a}")
	f.Add("pypi", "mcp", "1", "", "v")
	f.Fuzz(func(t *testing.T, registry, identifier, version, name, value string) {
		src, err := json.Marshal(map[string]any{"packages": []any{map[string]any{
			"registryType": registry, "identifier": identifier, "version": version,
			"packageArguments": []any{map[string]any{"type": "named", "name": name, "value": value}}, "environmentVariables": []any{map[string]any{"name": name, "value": value}},
		}}})
		if err != nil {
			return
		}
		s, err := packages.ReadServerJSON(src)
		if err != nil {
			return
		}
		e, err := s.Pick("")
		if err != nil {
			return
		}
		r, err := e.Recipe(nil)
		if err != nil {
			return
		}
		p, err := packages.ParseCommand(r.Command)
		if value == "" || !utf8.ValidString(name) || !utf8.ValidString(value) { // it is left out, or written otherwise
			return
		}
		if err != nil || p == nil || p.Name != identifier || p.Version != version || len(p.Args) != 2 || p.Args[0] != name || p.Args[1] != value {
			t.Fatalf("%q gives %q, %+v, %v", src, r.Command, p, err)
		}
	})
}
