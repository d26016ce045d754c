package settings

import (
	"fmt"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/tool"
)

// Search is what agents search the web with: a service, or a tool of the catalog.
type Search struct {
	Kind string // "searxng", "brave" or "tavily"; "": no service
	URL  string // of the service's search; "": the kind's usual one
	Key  string // "secret:NAME"; "": the service needs none
	Tool tool.ID
}

func (r *reader) search(n *document.Node, path string, s *Search) {
	r.Mapping(n, path, document.Fields{
		"kind": r.OneOf(&s.Kind, "searxng", "brave", "tavily"),
		"url":  func(n *document.Node, path string) { s.URL = r.baseURL(n, path) },
		"key":  func(n *document.Node, path string) { s.Key = r.stored(n, path) },
		"tool": r.Accept(func(text string) (err error) {
			if s.Tool, err = tool.ParseID(text); err != nil {
				return fmt.Errorf("%q is not a valid tool ID; expected one such as mcp:kagi:search", clip.Text(text, 60))
			}
			return nil
		}),
	})
	switch {
	case s.Kind != "" && s.Tool != "", s.Kind == "" && s.Tool == "" && (len(n.Pairs) == 0 || n.Lookup("url") != nil || n.Lookup("key") != nil):
		r.Fail(n, path, "needs kind or tool, and not both")
	case s.Tool != "" && (s.URL != "" || s.Key != ""):
		r.Fail(n, path, "url and key belong to a kind, not to a tool")
	case s.Kind == "searxng" && s.URL == "":
		r.Fail(n, path+".url", "is missing; expected the URL of the service's search, as https://search.example/search")
	case (s.Kind == "brave" || s.Kind == "tavily") && n.Lookup("key") == nil:
		r.Fail(n, path+".key", "is missing; expected secret:NAME").Hint = "keep the key with remit secret set NAME"
	}
	if at := n.Lookup("url"); at != nil && s.Key != "" && !keepsKeys(s.URL) {
		r.Fail(at, path+".url", "the key would be sent unencrypted").Hint = "use https; plain http is for services of this machine, or without a key"
	}
}
