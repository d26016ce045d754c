package capability_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// TestReadOnlyCapabilities: a call of their tools that could have any effect but reading is
// denied by a rule that names the capability; others are left to the policies before.
func TestReadOnlyCapabilities(t *testing.T) {
	if b := (capability.Offer{}).Bounds(); b != nil {
		t.Fatalf("other capabilities bound their calls: %v", b)
	}
	open, err := policy.Parse("open.yaml", []byte("version: 1\ntools: {allow: ['*']}\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var chain policy.Chain
	for _, p := range append([]*policy.Policy{open}, capability.Offer{ReadOnly: "notes"}.Bounds()...) {
		r, err := p.Bind(policy.Env{Workspace: "/ws"})
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	for _, e := range (^tool.Effects(0)).List() {
		spec := &tool.Spec{ID: "x", Source: "builtin", Effects: tool.EffectSet(e)}
		d := chain.Decide(policy.Call{Tool: spec})
		if want := !spec.Effects.Effectful(); (d.Effect == policy.Allow) != want {
			t.Errorf("%s: %v (%s)", e, d.Effect, d.Reason)
		} else if !want && (!strings.HasPrefix(d.Rule.Name, "side_effects.deny[") || d.Rule.Policy != "notes is_readonly") {
			t.Errorf("%s is denied by %s of %q", e, d.Rule, d.Rule.Policy)
		}
	}
}
