package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/tool"
)

func TestFindingsTravelToClients(t *testing.T) {
	spec := &tool.Spec{ID: "mcp:bad:add", Description: "adds", Source: "mcp", Input: []byte(`{"type":"object"}`)}
	found := []Finding{{Kind: "instruction", Where: "description", Why: "it speaks to the model"}}
	one := describe("mcp__bad__add", spec, false, found)
	page, err := json.Marshal(pageOf(&mcp.ListToolsResult{Tools: []*mcp.Tool{one}}))
	if err != nil {
		t.Fatal(err)
	}
	want := `"findings":[{"kind":"instruction","where":"description","why":"it speaks to the model"}]`
	if !strings.Contains(string(page), want) {
		t.Errorf("a client gets %s; want %s in it", page, want)
	}
	clean, err := json.Marshal(describe("mcp__bad__add", spec, false, nil))
	if err != nil || strings.Contains(string(clean), "findings") {
		t.Errorf("without findings a client gets %s, %v", clean, err)
	}
}
