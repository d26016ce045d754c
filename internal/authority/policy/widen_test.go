package policy_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestAWidenedPolicyKeepsWhatIsDenied(t *testing.T) {
	src := "version: 1\nname: p\nfiles: {read: {allow: [src/**], deny: ['**/*.bak']}, write: {deny: [src/**], max_bytes: 1KiB}}\n" +
		"network: {allow: [a.test], deny: [c.test]}\ncommands: {memory: 64MiB}\n"
	p, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	before := string(p.Print())
	wide, err := p.Widened(policy.Wide{Files: true, Hold: true, System: "standard", Network: []string{"GET https://b.test/x"}, Ask: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := wide.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	c := policy.Chain{r}
	if l := c.Limits(); !l.Hold || l.WriteBytes != 1024 || l.Memory != 64<<20 || !c.StandardSystem() || wide.Name() != "p" {
		t.Errorf("limits %+v", l)
	}
	for path, want := range map[string][2]policy.Effect{
		"/w/a": {policy.Allow, policy.Allow}, "/w/src/a": {policy.Allow, policy.Deny}, "/w/x.bak": {policy.Deny, policy.Allow},
		"/w/.env": {policy.Deny, policy.Deny}, "/etc/passwd": {policy.Deny, policy.Deny},
	} {
		for i, kind := range []tool.ActionKind{tool.FileRead, tool.FileWrite} {
			if got := c.DecideAction(tool.Action{Kind: kind, Path: path, Real: path}).Effect; got != want[i] {
				t.Errorf("%s %s: %s, want %s", kind, path, got, want[i])
			}
		}
	}
	for url, want := range map[string]policy.Effect{
		"https://a.test/": policy.Ask, "https://b.test/y": policy.Ask, "http://d.test/": policy.Ask,
		"https://c.test/": policy.Deny, "http://127.0.0.1/": policy.Deny, "https://d.test:8443/": policy.Deny,
	} {
		to, err := target.Parse("GET", url)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.DecideAction(tool.Action{Kind: tool.Network, Target: to}).Effect; got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	quiet, err := p.Widened(policy.Wide{Network: []string{"GET https://b.test/x"}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = quiet.Bind(policy.Env{Workspace: "/w"}); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]policy.Effect{"https://a.test/": policy.Allow, "https://b.test/x": policy.Allow, "https://b.test/y": policy.Deny} {
		to, err := target.Parse("GET", url)
		if err != nil {
			t.Fatal(err)
		}
		if got := (policy.Chain{r}).DecideAction(tool.Action{Kind: tool.Network, Target: to}).Effect; got != want {
			t.Errorf("without asking, %s: %s, want %s", url, got, want)
		}
	}
	if string(p.Print()) != before {
		t.Error("the policy itself was changed")
	}
	if _, err := p.Widened(policy.Wide{Network: []string{"https://"}}); err == nil {
		t.Error("an entry that is none was taken")
	}
}
