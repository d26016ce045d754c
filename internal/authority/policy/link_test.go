package policy_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// A refusal says which policy of the chain it is of, by whatever rule.
func TestARefusalNamesItsLink(t *testing.T) {
	env := policy.Env{Workspace: "/ws"}
	var chain policy.Chain
	for _, src := range []string{"version: 1\nname: first\nfiles: {read: {allow: ['**']}}\n", "version: 1\nname: second\nrest: inherit\nfiles: {read: {allow: ['a'], deny: ['b']}}\n"} {
		p, err := policy.Parse("p", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	for path, want := range map[string]int{"/ws/b": 1, "/ws/c": 1, "/etc/x": 0} {
		d := chain.DecideAction(tool.Action{Kind: tool.FileRead, Path: path, Real: path})
		if d.Effect != policy.Deny || d.Link != want || d.Rule.Policy != []string{"first", "second"}[want] {
			t.Errorf("%s: %s by %s of link %d, %s", path, d.Effect, d.Rule, d.Link, d.Rule.Policy)
		}
	}
}
