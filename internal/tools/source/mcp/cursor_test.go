package mcp_test

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestCursorsThatRepeatEndTheList serves lists whose cursors lead back to a page that was read. Each page
// is read once, whatever the cursors do.
func TestCursorsThatRepeatEndTheList(t *testing.T) {
	for name, next := range map[string]map[string]string{
		"one page":             {"": ""},
		"three pages":          {"": "a", "a": "b", "b": ""},
		"the same for ever":    {"": "a", "a": "a"},
		"back to the second":   {"": "a", "a": "b", "b": "a"},
		"a long way back":      {"": "a", "a": "b", "b": "c", "c": "d", "d": "b"},
		"the third for itself": {"": "a", "a": "b", "b": "b"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := map[string]int{}
			srv := newSDK(nil)
			srv.AddTool(&sdk.Tool{Name: "x", InputSchema: map[string]any{"type": "object"}}, nil)
			srv.AddReceivingMiddleware(func(handle sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					list, ok := r.(*sdk.ListToolsRequest)
					if !ok {
						return handle(ctx, method, r)
					}
					cursor := list.Params.Cursor
					asked[cursor]++
					return &sdk.ListToolsResult{NextCursor: next[cursor], Tools: []*sdk.Tool{{Name: "t" + cursor, InputSchema: map[string]any{"type": "object"}}}}, nil
				}
			})
			tools, err := inProcess(t, srv).Discover(t.Context())
			if err != nil || len(tools) != len(next) || len(asked) != len(next) {
				t.Errorf("got %d tools of the pages %v and %v; want one of each of %d pages", len(tools), asked, err, len(next))
			}
			for cursor, n := range asked {
				if n != 1 {
					t.Errorf("the page %q was read %d times", cursor, n)
				}
			}
		})
	}
}
