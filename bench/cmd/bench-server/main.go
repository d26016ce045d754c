// Command bench-server is the MCP server that the section gateway calls, directly and
// through Remit: its tools answer at once.
//
//	bench-server           serves standard input and output
//	bench-server ADDRESS   serves HTTP
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	for _, name := range []string{"write_note", "read_note"} {
		s.AddTool(&mcp.Tool{Name: name, Description: "Handles a note.", InputSchema: map[string]any{
			"type": "object", "properties": map[string]any{"key": map[string]any{"type": "string"}},
		}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	err := error(nil)
	if len(os.Args) > 1 {
		err = http.ListenAndServe(os.Args[1], mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	} else {
		err = s.Run(context.Background(), &mcp.StdioTransport{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-server:", err)
		os.Exit(1)
	}
}
