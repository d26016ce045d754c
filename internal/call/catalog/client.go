package catalog

import (
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/infer"
)

// ForClient is the catalog for the calls that a client carries out itself: [Catalog.Still], and the client's own tools,
// which are known by their names only and take any arguments: tools of an agent, tools of an MCP server that the agent
// runs, and the search of the model's provider.
func (c *Catalog) ForClient() runner.Catalog { return forClient{still{c}} }

type forClient struct{ still }

func (f forClient) Lookup(id tool.ID) (runner.Entry, error) {
	e, err := f.still.Lookup(id)
	if !errors.Is(err, fault.ToolUnknown) || f.c.feedOf(id) != nil {
		return e, err
	}
	spec := clientSpec(id)
	if spec == nil {
		return e, err
	}
	l := f.c.list("client", clientTool{spec}, spec, infer.Hints{})
	if spec.Source == BuiltIn { // its description is Remit's own
		l.entry.Spec = spec
	}
	return l.described(), nil
}

// clientSpec describes a tool of a client by its name; nil: it is none.
func clientSpec(id tool.ID) *tool.Spec {
	s := &tool.Spec{ID: id, Title: string(id), Version: "1", Input: []byte(`{"type":"object"}`)}
	switch {
	case id == tool.ProviderSearch:
		s.Title, s.Description, s.Source = "Search the web at the model's provider", "The provider of an agent's model searches the web and gives the model what it found.", BuiltIn
		s.Risk, s.Effects = tool.Medium, tool.EffectSet(tool.NetworkHTTP)
	case strings.HasPrefix(string(id), "mcp:"):
		s.Source, s.Description = "mcp", "A tool of an MCP server that the agent runs, and Remit does not."
	case strings.HasPrefix(string(id), tool.AgentTools):
		s.Source, s.Description = "agent", "A tool of the agent itself."
	default:
		return nil
	}
	return s
}

// clientTool is a tool that Remit cannot carry out.
type clientTool struct{ spec *tool.Spec }

// Spec implements permit.Tool.
func (t clientTool) Spec() *tool.Spec { return t.spec }

// Prepare implements permit.Tool. The call has no actions, and cannot run.
func (t clientTool) Prepare(tool.Env, tool.Args) (permit.Prepared, error) {
	return permit.Prepared{}, nil
}
