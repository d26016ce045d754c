package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/remitrun/remit/internal/base/diff"
)

// ToolChange tells how a tool differs from the accepted one.
type ToolChange struct {
	Tool    string      `json:"tool"`
	Changed bool        `json:"changed"`
	Diff    string      `json:"diff,omitempty" doc:"Unified: the accepted tool and the present one"`
	Hunks   []diff.Hunk `json:"hunks,omitempty" nullable:"false" doc:"The same, line by line"`
	Digest  string      `json:"digest,omitempty" doc:"Of the present one, to accept it"`
}

// ToolPath has the ID of a tool.
type ToolPath struct {
	ID string `path:"tool_id" maxLength:"300" example:"time.now"`
}

func (s *Server) toolChanges() {
	type one struct {
		asked
		ToolPath
	}
	route(s, operation{
		id: "getToolChange", method: http.MethodGet, path: "/v1/tools/{tool_id}/change", tag: "tools", action: "tools.read", summary: "Show how a tool changed",
		text: "Since a person accepted it: a changed tool cannot be called. Needs a grant that was issued to a person.", errors: []int{404}, answer: map[string]any{"tool": "mcp:files/read", "changed": true, "diff": "--- accepted\n", "digest": "sha256:…"},
	}, func(ctx context.Context, in *one) (*struct{ Body ToolChange }, error) {
		if err := person(in.who); err != nil { // a delegate's look counts for nobody
			return nil, err
		}
		c, err := s.o.Tools.Change(ctx, cmp.Or(in.who.Self, in.who.Name), in.ID)
		return &struct{ Body ToolChange }{c}, err
	})
	type accept struct {
		asked
		ToolPath
		Body struct {
			Digest string `json:"digest" minLength:"1" maxLength:"100" doc:"Of the change that the person was shown: another one is refused"`
		} `nameHint:"AcceptTool"`
	}
	route(s, operation{
		id: "acceptTool", method: http.MethodPost, path: "/v1/tools/{tool_id}/accept", tag: "tools", action: "tools.accept", summary: "Accept a changed tool",
		text: "It can be called again. The person must have seen its change first (getToolChange): the look of another person does not count. Needs a grant that was issued to a person.", errors: []int{404, 409}, request: map[string]any{"digest": "sha256:…"}, answer: map[string]any{"tool": "mcp:files/read", "changed": false},
	}, func(ctx context.Context, in *accept) (*struct{ Body ToolChange }, error) {
		if err := person(in.who); err != nil {
			return nil, err
		}
		c, err := s.o.Tools.Accept(ctx, cmp.Or(in.who.Self, in.who.Name), in.ID, in.Body.Digest)
		return &struct{ Body ToolChange }{c}, err
	})
}
