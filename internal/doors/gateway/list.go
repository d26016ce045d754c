package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
)

// list shows the client the tools that its grant could allow, with resources and prompts,
// as they are now. A grant that cannot be used allows nothing. The client is told if
// something changed.
func (c *conn) list(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, listTime)
	defer stop()
	c.listing.Lock()
	defer c.listing.Unlock()
	chain, tools := c.run().Chain(), c.gateway.opts.Tools(ctx)
	usable := c.run().Usable(ctx) == nil
	if !usable {
		tools = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usable = usable
	now, can, names := map[string]bool{}, map[tool.ID]*tool.Spec{}, newNamer(c.listed)
	for _, t := range tools {
		if !chain.Offers(t) {
			continue
		}
		can[t.ID] = t
		name, ok := c.nameOf(t.ID)
		if ok && c.gateway.opts.Server == "" {
			name = names.name(name, t.ID)
		}
		if was, there := c.listed[name]; !ok || there && was != t.ID {
			continue // two IDs have the same name: the first is kept
		}
		now[name] = true
		if d := t.Digest(); c.shown[name] != d {
			c.server.AddTool(describe(name, t, c.gateway.opts.Server != "", c.findings(t.ID)), c.handle)
			c.listed[name], c.shown[name] = t.ID, d
		}
	}
	var gone []string
	for name := range c.listed {
		if !now[name] {
			gone = append(gone, name)
			delete(c.listed, name)
			delete(c.shown, name)
		}
	}
	if len(gone) > 0 {
		c.server.RemoveTools(gone...)
	}
	c.offer(chain, can)
}

// relist lists again if the grant was revoked, paused or resumed since the last listing.
func (c *conn) relist(ctx context.Context) {
	usable := c.run().Usable(ctx) == nil
	c.mu.Lock()
	changed := usable != c.usable
	c.mu.Unlock()
	if changed {
		c.list(ctx)
	}
}

// touch shows one of a server's tools again, which tells the client that the list changed.
func (c *conn) touch(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, id := range c.listed {
		if serverOf(id) == server {
			delete(c.shown, name)
			return
		}
	}
}

// nameOf is the name of a tool for the client, if the client sees the tool. Of the tools for
// resources and prompts it sees only tools that a model can use, and none of a server that is
// served alone.
func (c *conn) nameOf(id tool.ID) (string, bool) {
	_, kind, _ := strings.Cut(strings.TrimPrefix(string(id), "mcp:"), ":")
	if only := c.gateway.opts.Server; only != "" {
		name, own := strings.CutPrefix(string(id), "mcp:"+only+":")
		return name, own && !slices.Contains([]string{tool.ReadResource, tool.GetPrompt, tool.WatchResource, tool.Complete}, name)
	}
	hidden := strings.HasPrefix(string(id), "mcp:") && (kind == tool.WatchResource || kind == tool.Complete)
	return NameOf(id), !hidden
}

// describe writes a tool in the form of MCP.
func describe(name string, t *tool.Spec, whole bool, findings []Finding) *mcp.Tool {
	about := aboutTool{ID: string(t.ID), Risk: t.Risk.String(), SideEffects: []string{}, Source: t.Source, Findings: findings}
	for _, e := range t.Effects.List() {
		about.SideEffects = append(about.SideEffects, e.String())
	}
	if t.Source == builtin {
		return describeBriefly(name, t, about)
	}
	out := &mcp.Tool{
		Name: name, Title: t.Title, Description: t.Description, InputSchema: schema.Flat(t.Input), Annotations: annotations(t),
		Meta: mcp.Meta{aboutKey: about},
	}
	if whole && objectSchema(t.Input) {
		out.InputSchema = t.Input
	}
	if own := ownSchema(t); objectSchema(own) {
		out.OutputSchema = own
	}
	return out
}

// aboutTool describes a tool in its _meta, under aboutKey.
type aboutTool struct {
	ID          string   `json:"id"`
	Risk        string   `json:"risk"`
	SideEffects []string `json:"side_effects"`
	Source      string   `json:"source"`
	// Findings tells a client that the text of a source instructs the model, or hides
	// something, so that the client can show or refuse the tool.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is a suspicious part of a tool's own text, without the text itself, as a model
// may read what a client gets.
type Finding struct {
	Kind  string `json:"kind"`
	Where string `json:"where"` // as description
	Why   string `json:"why"`
}

func (c *conn) findings(id tool.ID) []Finding {
	if f := c.gateway.opts.Findings; f != nil {
		return f(id)
	}
	return nil
}

const aboutKey = "run.remit/tool"

// page is a response to tools/list in types that are written fast: encoding/json checks
// the output of a Marshaler again, which takes long for a thousand tools.
type page struct {
	*mcp.ListToolsResult
	Tools []pageTool `json:"tools"`
}

type pageTool struct {
	*mcp.Tool
	Meta        pageMeta `json:"_meta"`
	Annotations *hints   `json:"annotations"`
}

type pageMeta struct {
	About aboutTool `json:"run.remit/tool"`
}

// hints are the SDK's annotations without its Marshaler, which writes false for
// idempotentHint: that is the protocol's default.
type hints struct {
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	Title           string `json:"title,omitempty"`
}

// pageOf converts the SDK's response.
func pageOf(res *mcp.ListToolsResult) mcp.Result {
	out := &page{res, make([]pageTool, 0, len(res.Tools))}
	for _, t := range res.Tools {
		about, ok := t.Meta[aboutKey].(aboutTool)
		if !ok || len(t.Meta) != 1 {
			return res
		}
		out.Tools = append(out.Tools, pageTool{t, pageMeta{about}, (*hints)(t.Annotations)})
	}
	return out
}

// annotations gives the risk and the side effects in the terms of MCP.
func annotations(t *tool.Spec) *mcp.ToolAnnotations {
	outside := t.Effects&tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket, tool.CloudKeyRead, tool.CloudKeyWrite,
		tool.CloudResourceCreate, tool.CloudResourceDelete, tool.Payments) != 0
	destroys := t.Effects&tool.EffectSet(tool.FSWrite, tool.FSDelete, tool.DatabaseWrite, tool.DatabaseDelete, tool.CloudResourceDelete,
		tool.CloudKeyWrite, tool.Payments, tool.SystemExec) != 0 || t.Risk >= tool.High
	return &mcp.ToolAnnotations{Title: t.Title, ReadOnlyHint: !t.Effects.Effectful(), DestructiveHint: &destroys, OpenWorldHint: &outside}
}

// relayed reports whether a tool is an MCP server's own: the client gets the server's
// answer unchanged.
func relayed(source string) bool { return source == "mcp" || source == "mcp-remote" }

// ownSchema is the schema of the structured content for the client.
func ownSchema(t *tool.Spec) json.RawMessage {
	if !relayed(t.Source) {
		return t.Output
	}
	var s struct {
		Properties struct {
			Structured json.RawMessage `json:"structured"`
		} `json:"properties"`
	}
	if json.Unmarshal(t.Output, &s) != nil {
		return nil
	}
	return s.Properties.Structured
}

// objectSchema reports whether a schema requires an object, as MCP does for the output of
// tools.
func objectSchema(src json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return len(src) > 0 && json.Unmarshal(src, &s) == nil && s.Type == "object"
}
