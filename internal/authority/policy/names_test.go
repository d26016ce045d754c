package policy_test

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Paths that differ only in names that no rule tells from a given one are decided
// alike, whatever the rules.
func TestNamesThatNoRuleTellsApart(t *testing.T) {
	const like = "a-name-of-no-rule"
	entries := rapid.SampledFrom([]string{"**", "*", "a", "a/**", "**/b", "a/*", "*.k", ".env", "[ab]", "[!a]*", "?", "??", "{a,c}/b", "A/**", "/etc/**", "~/x", "work*", "*/c/*", ".config/op/**", "**/*-of-*", "x.", "*"})
	files := rapid.SliceOfN(entries, 0, 4)
	part := rapid.SampledFrom([]string{"a", "b", "c", "plain", "Plain2", "x", "x.k", "X.K", "two", ".env", ".ENV", ".config", "op", ".git", "hooks", "config", "HEAD", "id_rsa_x", "credentials", "credentials.toml", "work", "workspace", "own", "proc", "dev", "x.", "x ", "ü", "ｅnv", "of-of-of", "etc", "u", "name.pem", "remit", "node_modules", ".venv"})
	base := rapid.SampledFrom([]string{"/", "/work", "/home/u", "/own", "/state"})
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "version: 1\nfiles: {read: {allow: " + quoted(files.Draw(t, "allow")) + ", ask: " + quoted(files.Draw(t, "ask")) + ", deny: " + quoted(files.Draw(t, "deny")) +
			"}, write: {allow: " + quoted(files.Draw(t, "write")) + ", deny: " + quoted(files.Draw(t, "no write")) + "}}\n"
		p, err := policy.Parse("p", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(policy.Env{Workspace: "/work", Home: "/home/u", State: "/state/remit"})
		if err != nil {
			t.Fatal(err)
		}
		chain := policy.Chain{r}.Owning(rapid.SampledFrom([]string{"", "/own/x"}).Draw(t, "own"))
		names := chain.NamesLike(like)
		parts := rapid.SliceOfN(part, 1, 4).Draw(t, "path")
		replaced := make([]string, len(parts))
		for i, name := range parts {
			if replaced[i] = name; names.Contain(name) && rapid.Bool().Draw(t, "replace") {
				replaced[i] = like
				seen++
			}
		}
		in := base.Draw(t, "base")
		for _, kind := range []tool.ActionKind{tool.FileRead, tool.FileWrite} {
			decide := func(parts []string) policy.Effect {
				full := path.Join(in, strings.Join(parts, "/"))
				return chain.DecideAction(tool.Action{Kind: kind, Path: full, Real: full}).Effect
			}
			if got, want := decide(replaced), decide(parts); got != want {
				t.Fatalf("%v %q is %v, but %q is %v under\n%s", kind, parts, want, replaced, got, text)
			}
		}
	})
	if seen == 0 {
		t.Error("no name was ever replaced")
	}
}
