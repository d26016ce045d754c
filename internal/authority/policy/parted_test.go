package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

func remove(p string) tool.Action { return tool.Action{Kind: tool.FileDelete, Path: abs(p)} }

func TestDeletingApartFromWriting(t *testing.T) {
	for name, tc := range map[string]struct {
		links  []string
		action tool.Action
		want   policy.Effect
		rule   string
	}{
		"absent: as writing":                      {[]string{"files: {write: {allow: ['out/**']}}"}, remove("out/a"), policy.Allow, `files.write.allow[0] "out/**"`},
		"absent: denied as writing":               {[]string{"files: {write: {allow: ['out/**'], deny: ['out/x']}}"}, remove("out/x"), policy.Deny, `files.write.deny[0] "out/x"`},
		"nothing may be deleted":                  {[]string{"files: {write: {allow: ['**']}, delete: {allow: []}}"}, remove("a"), policy.Deny, "default"},
		"writing stays":                           {[]string{"files: {write: {allow: ['**']}, delete: {allow: []}}"}, write("a"), policy.Allow, `files.write.allow[0] "**"`},
		"a part may be deleted":                   {[]string{"files: {write: {allow: ['**']}, delete: {allow: ['tmp/**']}}"}, remove("tmp/a"), policy.Allow, `files.delete.allow[0] "tmp/**"`},
		"asked":                                   {[]string{"files: {write: {allow: ['**']}, delete: {ask: ['**']}}"}, remove("a"), policy.Ask, `files.delete.ask[0] "**"`},
		"only deleting":                           {[]string{"files: {delete: {allow: ['**']}}"}, write("a"), policy.Deny, "default"},
		"a narrowing parts it":                    {[]string{"files: {write: {allow: ['**']}}", "rest: inherit\nfiles: {delete: {allow: ['tmp/**']}}"}, remove("a"), policy.Deny, "default"},
		"a narrowing that parts inherits writing": {[]string{"files: {write: {allow: ['**']}}", "rest: inherit\nfiles: {delete: {allow: []}}"}, write("a"), policy.Allow, `files.write.allow[0] "**"`},
		"a narrowing cannot give it back": {[]string{"files: {write: {allow: ['**']}, delete: {allow: []}}", "rest: inherit\nfiles: {delete: {allow: ['**']}}"},
			remove("a"), policy.Deny, "default"},
		"a narrowing of writing narrows deleting": {[]string{"files: {write: {allow: ['**']}, delete: {allow: ['**']}}", "rest: inherit\nfiles: {write: {allow: ['out/**']}}"},
			remove("a"), policy.Deny, "default"},
		"a wildcard matches no sensitive name": {[]string{"files: {delete: {allow: ['**']}}"}, remove(".git/hooks/x"), policy.Deny, "default"},
	} {
		d := chain(t, tc.links...).DecideAction(tc.action)
		if d.Effect != tc.want || d.Rule.String() != tc.rule {
			t.Errorf("%s: %v by %s (%s), want %v by %s", name, d.Effect, d.Rule, d.Reason, tc.want, tc.rule)
		}
	}
}

// TestPartedKeysNarrow: a policy without the keys decides deleting as writing; a link that
// has them never allows what the chain without it refuses.
func TestPartedKeysNarrow(t *testing.T) {
	values := rapid.SampledFrom([]string{"", "env: []", "env: [A, MODE]", "env: ['MODE=a']", "env: ['MODE=b', A]", "env: ['LD_PRELOAD=x']"})
	folders := rapid.SampledFrom([]string{"", "cwd: []", "cwd: ['.']", "cwd: ['src/**']", "cwd: ['**', /tmp]"})
	draw := func(t *rapid.T, name string) string {
		files := fmt.Sprintf("files: {write: {allow: %s, ask: %s, deny: %s}", quoted(lists.Draw(t, name+" allow")), quoted(lists.Draw(t, name+" ask")), quoted(lists.Draw(t, name+" deny")))
		if rapid.Bool().Draw(t, name+" parts") {
			files += fmt.Sprintf(", delete: {allow: %s, ask: %s, deny: %s}", quoted(lists.Draw(t, name+" delete")), quoted(lists.Draw(t, name+" ask delete")), quoted(lists.Draw(t, name+" deny delete")))
		}
		keys := []string{"allow: ['**']"}
		for _, k := range []string{values.Draw(t, name+" env"), folders.Draw(t, name+" cwd")} {
			if k != "" {
				keys = append(keys, k)
			}
		}
		rest := ""
		if name != "root" && rapid.Bool().Draw(t, name+" inherits") {
			rest = "\nrest: inherit"
		}
		return files + "}\ncommands: {" + strings.Join(keys, ", ") + "}" + rest
	}
	rapid.Check(t, func(rt *rapid.T) {
		root, child := draw(rt, "root"), draw(rt, "child")
		one, both := chain(t, root), chain(t, root, child)
		p := paths.Draw(rt, "path")
		if !one.PartsDeleting() {
			w, d := one.DecideAction(write(p)), one.DecideAction(remove(p))
			if w.Effect != d.Effect || w.Rule.String() != d.Rule.String() || w.Reason != d.Reason {
				rt.Fatalf("deleting %q: %v %s %q, writing it: %v %s %q\n%s", p, d.Effect, d.Rule, d.Reason, w.Effect, w.Rule, w.Reason, root)
			}
		}
		dir := rapid.SampledFrom([]string{"/ws", "/ws/src", "/ws/src/a", "/tmp", ""}).Draw(rt, "dir")
		variable := rapid.SampledFrom([]string{"", "MODE", "LD_PRELOAD"}).Draw(rt, "variable")
		for _, a := range []tool.Action{write(p), remove(p), {Kind: tool.Command, Argv: []string{"ls"}, Dir: dir},
			{Kind: tool.Command, Argv: []string{"ls"}, Dir: dir, Variable: variable, Unknown: "x"}} {
			if was, is := one.DecideAction(a).Effect, both.DecideAction(a).Effect; is > was {
				rt.Fatalf("narrowing made %v of %v for %s in %q\n%s\n%s", is, was, a, dir, root, child)
			}
		}
		had := one.Limits()
		for name, v := range had.Values {
			if now := both.Limits().Values[name]; now != v {
				rt.Fatalf("narrowing made %s=%q of %q", name, now, v)
			}
		}
	})
}

func TestFoldersOfCommands(t *testing.T) {
	at := func(dir, real string) tool.Action {
		return tool.Action{Kind: tool.Command, Argv: []string{"ls"}, Dir: dir, RealDir: real}
	}
	for name, tc := range map[string]struct {
		cwd    string
		action tool.Action
		want   policy.Effect
	}{
		"absent":                   {"", at("/anywhere", ""), policy.Allow},
		"the workspace":            {"cwd: ['.']", at("/ws", ""), policy.Allow},
		"not below it":             {"cwd: ['.']", at("/ws/src", ""), policy.Deny},
		"a folder and all below":   {"cwd: ['src/**']", at("/ws/src", ""), policy.Allow},
		"below":                    {"cwd: ['src/**']", at("/ws/src/a", "/ws/src/a"), policy.Allow},
		"beside":                   {"cwd: ['src/**']", at("/ws/srcs", ""), policy.Deny},
		"a link that leads away":   {"cwd: ['src/**']", at("/ws/src/link", "/etc"), policy.Deny},
		"an absolute one":          {"cwd: [/opt/app]", at("/opt/app", "/opt/app"), policy.Allow},
		"an uncertain folder":      {"cwd: ['**']", at("", ""), policy.Deny},
		"none":                     {"cwd: []", at("/ws", ""), policy.Deny},
		"undetermined elsewhere":   {"cwd: ['src/**']", tool.Action{Kind: tool.Command, Dir: "/ws", Unknown: "x"}, policy.Deny},
		"undetermined there: asks": {"cwd: ['src/**']", tool.Action{Kind: tool.Command, Dir: "/ws/src", Unknown: "x"}, policy.Ask},
	} {
		d := chain(t, "commands: {allow: ['**'], "+tc.cwd+"}").DecideAction(tc.action)
		if d.Effect != tc.want || tc.want == policy.Deny && d.Rule.Name != "commands.cwd" {
			t.Errorf("%s: %v by %s (%s), want %v", name, d.Effect, d.Rule, d.Reason, tc.want)
		}
	}
}

func TestValuesOfVariables(t *testing.T) {
	l := chain(t, "commands: {allow: ['**'], env: ['MODE=test', LANG]}", "rest: inherit\ncommands: {allow: ['**'], env: []}").Limits()
	if l.Values["MODE"] != "test" || strings.Join(l.Env, " ") != "MODE" {
		t.Errorf("%v %v, want the value of the outer policy to stay", l.Values, l.Env)
	}
	for name, tc := range map[string]struct {
		links []string
		a     tool.Action
		rule  string
	}{
		"another value": {[]string{"commands: {allow: ['**'], env: [A, 'MODE=test']}"}, tool.Action{Kind: tool.Command, Variable: "MODE", Unknown: "x"}, `commands.env[1] "MODE=test"`},
		"two values":    {[]string{"commands: {allow: ['**'], env: ['MODE=a']}", "commands: {allow: ['**'], env: ['MODE=b']}"}, run("ls"), "default"},
		"not listed":    {[]string{"commands: {allow: ['**'], env: [A]}", "commands: {allow: ['**'], env: ['MODE=b']}"}, run("ls"), "default"},
		"a loader's":    {[]string{"commands: {allow: ['**'], env: [LD_PRELOAD]}", "commands: {allow: ['**'], env: ['LD_PRELOAD=x']}"}, run("ls"), "default"},
	} {
		if d := chain(t, tc.links...).DecideAction(tc.a); d.Effect != policy.Deny || d.Rule.String() != tc.rule {
			t.Errorf("%s: %v by %s (%s)", name, d.Effect, d.Rule, d.Reason)
		}
	}
	for _, bad := range []string{"PATH=/x", "HOME=/", "A=\"x\\ny\"", "1=2", "A=1, A=2"} {
		if _, err := policy.Parse("p", []byte("version: 1\ncommands: {env: ["+strings.ReplaceAll("\""+bad+"\"", ", ", "\", \"")+"]}")); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestRelistKeepsThePartedKeys(t *testing.T) {
	c := chain(t, "files: {write: {allow: ['**'], deny: ['x']}}", "rest: inherit\nfiles: {delete: {allow: ['tmp/**']}}\ncommands: {allow: [ls], cwd: ['.'], env: ['M=1']}")
	p, err := c.Relist("p", []byte("version: 1\nfiles: {write: {allow: ['a', 'x']}}\ncommands: {allow: [ls]}"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	again := policy.Chain{r}
	if d := again.DecideAction(remove("a")); d.Effect != policy.Deny {
		t.Errorf("what may be written may be deleted, by %s", d.Rule)
	}
	if d := again.DecideAction(tool.Action{Kind: tool.Command, Argv: []string{"ls"}, Dir: "/ws/a"}); d.Effect != policy.Deny || again.Limits().Values["M"] != "1" {
		t.Errorf("commands.cwd and values are lost:\n%s", p.Print())
	}
}
