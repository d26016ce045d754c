package servers_test

import (
	"testing"

	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// TestServersAreNotStartedToRememberTheirTools: the catalog sees that an MCP
// server can recall its tools, so that a replay starts none.
func TestServersAreNotStartedToRememberTheirTools(t *testing.T) {
	if _, ok := catalog.From(mcp.New(mcp.Config{Name: "x"})).(catalog.Recalling); !ok {
		t.Fatal("an MCP server would be started")
	}
}
