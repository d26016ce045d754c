package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

// A name that programs follow counts in any folder and case, and is data in a package. What runs by itself must be spelt.
func TestFollowedNames(t *testing.T) {
	c := chain(t, files(`"**"`, ""))
	for _, n := range policy.FollowedNames() {
		for _, p := range []string{n, "a/" + n, strings.ToUpper(n), n + "/below", "a/b/" + n} {
			if !policy.Followed(p) {
				t.Errorf("%q is not followed", p)
			}
		}
		for _, p := range []string{"x" + n, n + "x", "node_modules/p/" + n, ".git/" + n} {
			if policy.Followed(p) {
				t.Errorf("%q is followed", p)
			}
		}
	}
	for _, n := range strings.Fields(`.claude/settings.json .codex/hooks.json .agents/hooks.json .agent/hooks.json .gemini/settings.json .cursor/hooks.json .windsurf/hooks.json .kiro/hooks/x .amazonq/x .roo/mcp.json
		.kilocode/mcp.json .amp/settings.json .factory/hooks.json .augment/settings.json .trae/mcp.json .junie/mcp/mcp.json .goose/x .crush.json crush.json .crush/x opencode.json opencode.jsonc .opencode/plugin/x.js
		.qwen/settings.json .qoder/x .codebuddy/settings.json .openhands/setup.sh .continue/x .mcp.json .clinerules/hooks/x lefthook.yaml .lefthook-local.yml .overcommit.yml .lvimrc mise.local.toml .envrc .vscode/tasks.json`) {
		if d := c.DecideAction(write(n)); d.Effect != policy.Deny {
			t.Errorf("%q runs by itself and may be made", n)
		}
	}
}
