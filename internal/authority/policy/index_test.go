package policy_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// An index changes no decision: not its effect, its rule, its reason, nor any refusal.
func TestIndexesChangeNoDecision(t *testing.T) {
	draw := func(t *rapid.T, label string, pool ...string) string {
		n := rapid.SampledFrom([]int{0, 3, 45}).Draw(t, label+" count")
		return quoted(rapid.SliceOfN(rapid.SampledFrom(pool), n, n).Draw(t, label))
	}
	files := []string{"**", "*", "a", "a/**", "**/b", "a/*", "*.k", ".env", "{a,c}/b", "A/**", "/etc/**", "~/x", "/**", "ü/**", "Ü/x", "{a/b,c}/d/**", "a/b/c", "a/b/c/**", "x./**", "[ab]/**"}
	commands := []string{"git **", "git status", "Git **", "** --force **", "go test **", "/usr/bin/go **", "./run **", "g* **", "** x", "rm **", "sh -c **", "rm -rf **", "rm -r --force x"}
	hosts := []string{"a.example.com", "*.example.com", "GET https://b.example.com/v1/**", "localhost", "10.0.0.1", "a.example.com:8443", "EXAMPLE.com"}
	tools := []string{"fs.*", "fs.read", "mcp:a:*", "mcp:a:b", "mcp:*", "**", "*:b", "mcp:a:b*", "MCP:A:B", "mcp:*:b", "FS.*"}
	part := rapid.SampledFrom([]string{"a", "b", "c", "d", "A", ".env", "x.k", "x.", "ü", "Ü", "etc", "ａ", "HEAD"})
	word := rapid.SampledFrom([]string{"git", "GIT", "go", "status", "test", "--force", "x", "rm", "-rf", "-fr", "/usr/bin/git", "/usr/bin/go", "./run", "", "bin/", "sh", "-c", "K", "\u212a", command.NonLiteral, command.NonLiteralMany})
	indexed := 0
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		section := func(name string, pool []string) {
			fmt.Fprintf(&text, "%s: {allow: %s, ask: %s, deny: %s}\n", name, draw(t, name+" allow", pool...), draw(t, name+" ask", pool...), draw(t, name+" deny", pool...))
		}
		text.WriteString("version: 1\nfiles:\n")
		section("  read", files)
		section("  write", files)
		section("commands", append(commands, "k **", "\u212a **"))
		section("network", hosts)
		section("tools", tools)
		p, err := policy.Parse("p", []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		chain := policy.Chain{r}.Owning(rapid.SampledFrom([]string{"", "/etc/a"}).Draw(t, "own"))
		indexed += chain.Indexed()
		linear := chain.WithoutIndex()
		for range 8 {
			id := rapid.SampledFrom([]string{"fs.read", "FS.read", "fs.", "mcp:a:b", "mcp:a:b:c", "mcp:A:b", "mcp:", "other", "\u212a:b"}).Draw(t, "tool")
			call := policy.Call{Tool: &tool.Spec{ID: tool.ID(id), Source: "builtin"}}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				name := "/" + strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "path"), "/")
				in := rapid.SampledFrom([]string{"", env.Workspace, env.Home}).Draw(t, "in")
				kind := rapid.SampledFrom([]tool.ActionKind{tool.FileRead, tool.FileWrite}).Draw(t, "access")
				call.Actions = []tool.Action{{Kind: kind, Path: in + name, Real: rapid.SampledFrom([]string{"", in + name, "/etc" + name}).Draw(t, "real")}}
			case 1:
				call.Actions = []tool.Action{{Kind: tool.Command, Dir: env.Workspace, Argv: rapid.SliceOfN(word, 1, 4).Draw(t, "argv"),
					Exe:   rapid.SampledFrom([]string{"", "/usr/bin/git", "/usr/bin/GO", env.Workspace + "/run"}).Draw(t, "exe"),
					Names: rapid.SliceOfN(rapid.SampledFrom([]string{"/usr/bin/rm", "/bin/sh", "", "/bin/"}), 0, 2).Draw(t, "names")}}
			case 2:
				host := rapid.SampledFrom([]string{"a.example.com", "b.example.com", "example.com", "localhost", "x.localhost", "10.0.0.1"}).Draw(t, "host")
				port := rapid.SampledFrom([]uint16{443, 8443}).Draw(t, "port")
				call.Actions = []tool.Action{{Kind: tool.Network, Target: tool.Target{Scheme: "https", Host: host, Port: port, Method: "GET", Path: "/v1/x"}}}
			}
			got, want := chain.Decide(call), linear.Decide(call)
			if got.Effect != want.Effect || got.Rule.String() != want.Rule.String() || got.Reason != want.Reason || got.Link != want.Link ||
				!reflect.DeepEqual(got.Refusals, want.Refusals) || got.Rule != nil && *got.Rule != *want.Rule {
				t.Fatalf("%v %+v is decided\n%+v by the index, and without it\n%+v, under\n%s", id, call.Actions, got, want, text.String())
			}
		}
	})
	if indexed == 0 {
		t.Error("no list had an index")
	}
}

// manyRules is a policy with so many entries in each of four lists, and calls that the
// last entries allow.
func manyRules(t testing.TB, entries int) (policy.Chain, []policy.Call) {
	list := func(format string) string {
		var b strings.Builder
		for i := range entries {
			fmt.Fprintf(&b, "    - "+format+"\n", i)
		}
		return b.String()
	}
	text := "files:\n  read:\n   allow:\n" + list(`"src/part%d/**"`) + "commands:\n  allow:\n" + list(`"tool%d **"`) +
		"network:\n  allow:\n" + list("h%d.example.com") + "tools:\n  allow:\n" + list(`"mcp:s%d:*"`) + "    - \"fs.*\"\n    - \"http.*\"\n    - shell.run\n"
	spec := func(id string) *tool.Spec { return &tool.Spec{ID: tool.ID(id), Source: "builtin"} }
	last := entries - 1
	file := fmt.Sprintf("/ws/src/part%d/a.go", last)
	return chain(t, text), []policy.Call{
		{Tool: spec("fs.read"), Actions: []tool.Action{{Kind: tool.FileRead, Path: file, Real: file}}},
		{Tool: spec("http.get"), Actions: []tool.Action{get(t, fmt.Sprintf("https://h%d.example.com/v1", last))}},
		{Tool: spec("shell.run"), Actions: []tool.Action{run(fmt.Sprintf("tool%d", last), "x")}},
		{Tool: spec(fmt.Sprintf("mcp:s%d:get", last))},
	}
}

func TestManyRulesAllocateNothing(t *testing.T) {
	c, calls := manyRules(t, 500)
	for _, call := range calls {
		if d := c.Decide(call); d.Effect != policy.Allow {
			t.Fatalf("%s: %v %s", call.Tool.ID, d.Effect, d.Reason)
		}
		if n := testing.AllocsPerRun(100, func() { c.Decide(call) }); n != 0 {
			t.Errorf("Decide on %s: %v allocations", call.Tool.ID, n)
		}
	}
}
