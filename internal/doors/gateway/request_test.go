package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/app"
)

// A client requests the approval of a call by the names that it knows, and then makes the call
// without another question.
func TestAClientRequestsAuthority(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		var asked atomic.Int32
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(policy), Elicit: true}, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked.Add(1)
			if !strings.Contains(r.Params.Message, "the note is needed") {
				t.Errorf("the question does not have the caller's reason:\n%s", r.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, nil
		}})
		args := map[string]any{"path": "ask/a.txt", "content": "x"}
		res := call(t, cs, "authority_request", map[string]any{"tool": "fs_write", "args": args, "reason": "the note is needed"})
		if res.IsError || !strings.Contains(text(res), `"approved"`) {
			t.Fatalf("error %v: %s", res.IsError, text(res))
		}
		if _, err := os.Stat(filepath.Join(w.workspace, "ask/a.txt")); err == nil {
			t.Error("the request made the call")
		}
		if res := call(t, cs, "fs_write", args); res.IsError {
			t.Errorf("the approved call: %s", text(res))
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}
