package hook_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/hook"
)

// Each reading of the name of an MCP server's tool is decided, and the name of a server has no colon.
func TestNamesOfMCPServers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-z]([a-z_]{0,6}[a-z])?`)
		server, name := part.Draw(t, "server"), part.Draw(t, "tool")
		want := tool.ID("mcp:" + server + ":" + name)
		for _, agent := range []string{"claude", "codex"} {
			e, err := hook.Parse(agent, []byte(before("mcp__"+server+"__"+name, "{}")))
			if err != nil || e.Refusal == "" && !slices.ContainsFunc(e.Calls, func(c hook.Call) bool { return c.Tool == want }) {
				t.Fatalf("%s: %v %+v", want, err, e)
			}
		}
	})
	for _, event := range []string{before("mcp__toy:evil__run", "{}"), before("ReadMcpResourceTool", `{"server":"toy:evil","uri":"x"}`)} {
		if e, err := hook.Parse("claude", []byte(event)); err != nil || e.Refusal == "" {
			t.Errorf("%s: %v %+v", event, err, e)
		}
	}
}
