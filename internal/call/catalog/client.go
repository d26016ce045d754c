package catalog

import (
	"errors"
	"maps"
	"path"
	"slices"
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

// clientSpecs are the tools of clients that policies allow like built-in ones: they reach nothing outside of the agent
// and its provider.
var clientSpecs = map[tool.ID]tool.Spec{
	tool.ProviderSearch: {Title: "Search the web at the model's provider", Risk: tool.Medium, Effects: tool.EffectSet(tool.NetworkHTTP),
		Description: "The provider of an agent's model searches the web and gives the model the results."},
	tool.AgentRead: {Title: "Read a file of the agent's session", Effects: tool.EffectSet(tool.FSRead),
		Description: "An agent reads a file of its session that it keeps outside of the project."},
	tool.AgentWrite: {Title: "Write a file of the agent's session", Risk: tool.Medium, Effects: tool.EffectSet(tool.FSWrite),
		Description: "An agent writes a scratch file, or a plan, that it keeps outside of the project."},
	tool.AgentRecall: {Title: "Read an earlier plan or note of the agent", Effects: tool.EffectSet(tool.FSRead),
		Description: "An agent reads a plan or a note that it keeps outside of the project, also of an earlier session."},
}

// Unlisted are the tools of clients that policies can name, and that no listing of the catalog has.
func Unlisted() []*tool.Spec {
	var out []*tool.Spec
	for _, id := range slices.Sorted(maps.Keys(clientSpecs)) {
		out = append(out, clientSpec(id))
	}
	return out
}

// clientSpec describes a tool of a client by its name; nil: it is none.
func clientSpec(id tool.ID) *tool.Spec {
	s, own := clientSpecs[id]
	switch {
	case own:
		s.Source = BuiltIn
	case strings.HasPrefix(string(id), "mcp:"):
		s = tool.Spec{Title: string(id), Source: "mcp", Description: "A tool of an MCP server that the agent runs, and Remit does not."}
	case strings.HasPrefix(string(id), tool.AgentTools):
		s = tool.Spec{Title: string(id), Source: "agent", Description: "A tool of the agent itself."}
	default:
		return nil
	}
	s.ID, s.Version, s.Input = id, "1", []byte(`{"type":"object"}`)
	return &s
}

// clientTool is a tool that Remit cannot carry out.
type clientTool struct{ spec *tool.Spec }

// Spec implements permit.Tool.
func (t clientTool) Spec() *tool.Spec { return t.spec }

// Prepare implements permit.Tool. The only actions are those on an agent's own file. The call cannot run.
func (t clientTool) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	kinds := map[tool.ID]tool.ActionKind{tool.AgentRead: tool.FileRead, tool.AgentRecall: tool.FileRead, tool.AgentWrite: tool.FileWrite}
	kind, own := kinds[t.spec.ID]
	if !own {
		return permit.Prepared{}, nil
	}
	file, ok := args["path"].(string)
	if !ok || !path.IsAbs(file) {
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "the path of an agent's own file is not absolute")
	}
	return permit.Prepared{Actions: []tool.Action{{Kind: kind, Path: path.Clean(file), Argument: tool.AgentArgument}}}, nil
}
