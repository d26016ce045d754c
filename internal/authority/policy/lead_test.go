package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// A file to which settings of Git lead has to be spelled, for writing.
func TestWhatSettingsLeadTo(t *testing.T) {
	tests := []struct {
		allow, path, lead string
		want              policy.Effect
	}{
		{`"**"`, "hooks/pre-commit", "/ws/hooks", policy.Deny},
		{`"**"`, "hooks", "/ws/hooks", policy.Deny},
		{`"**"`, "hooks/a/b", "/ws/hooks", policy.Deny},
		{`"hooks/**"`, "hooks/a/b", "/ws/hooks", policy.Allow},
		{`"**/hooks/*"`, "tools/hooks/pre-commit", "/ws/tools/hooks", policy.Allow},
		{`"tools/**"`, "tools/hooks/pre-commit", "/ws/tools/hooks", policy.Deny},
		{`"tools/*.conf"`, "tools/x.conf", "/ws/tools/x.conf", policy.Deny},
		{`"tools/x.conf"`, "tools/x.conf", "/ws/tools/x.conf", policy.Allow},
		{`"**"`, "ＨＯＯＫＳ/x", "/ws/ＨＯＯＫＳ", policy.Deny},
		{`"hooks/**"`, "hooks/.env", "/ws/hooks", policy.Deny},
		{`"**"`, "hooksx/pre-commit", "/ws/hooks", policy.Allow},
		{`"**"`, "other", "/ws/hooks", policy.Allow},
	}
	for _, tt := range tests {
		c := chain(t, files(tt.allow, ""))
		for _, kind := range []tool.ActionKind{tool.FileWrite, tool.FileDelete, tool.FileRead} {
			a := tool.Action{Kind: kind, Path: abs(tt.path), Real: abs(tt.path), Lead: tt.lead}
			want := tt.want
			if kind == tool.FileRead && !strings.Contains(tt.path, ".env") {
				want = policy.Allow
			}
			if d := c.DecideAction(a); d.Effect != want {
				t.Errorf("allow %s: %s with the lead %s gives %v (%s), want %v", tt.allow, a, tt.lead, d.Effect, d.Reason, want)
			}
		}
	}
	// An earlier policy of the chain that found the path ordinary does not hide it.
	c := chain(t, files(`"hooks/**"`, ""), files(`"**"`, ""))
	if d := c.DecideAction(tool.Action{Kind: tool.FileWrite, Path: "/ws/hooks/x", Real: "/ws/hooks/x", Lead: "/ws/hooks"}); d.Effect != policy.Deny || !strings.Contains(d.Reason, "settings name") {
		t.Errorf("%v: %s", d.Effect, d.Reason)
	}
}
