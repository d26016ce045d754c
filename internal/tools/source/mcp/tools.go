package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Tool is one tool of a server.
type Tool struct {
	server *Server
	name   string // as the server knows it
	spec   tool.Spec
	hints  infer.Hints
}

const (
	maxPages       = 100
	maxTools       = 5000
	maxDescription = 16 << 10
)

// Discover lists the server's tools as it describes them.
func (s *Server) Discover(ctx context.Context) ([]*Tool, error) {
	var out []*Tool
	err := s.inSession(ctx, func(ctx context.Context, l *live) (err error) {
		out, err = s.discover(ctx, l)
		return err
	})
	return out, err
}

func (s *Server) discover(ctx context.Context, l *live) ([]*Tool, error) {
	version := ""
	if r := l.session.InitializeResult(); r != nil && r.ServerInfo != nil {
		version = clip.Text(r.ServerInfo.Version, 100)
	}
	if s.cfg.Pin != "" {
		version += " (" + s.cfg.Pin + ")"
	}
	out, err := s.tools(ctx, l, version)
	if err != nil {
		return nil, err
	}
	l.ok()
	return append(out, s.offer(ctx, l)...), nil
}

// tools lists the tools themselves.
func (s *Server) tools(ctx context.Context, l *live, version string) ([]*Tool, error) {
	if r := l.session.InitializeResult(); r != nil && r.Capabilities != nil && r.Capabilities.Tools == nil && (r.Capabilities.Resources != nil || r.Capabilities.Prompts != nil) {
		return nil, nil // it has only other things
	}
	var out []*Tool
	params, asked := &sdk.ListToolsParams{}, map[string]bool{}
	for range maxPages {
		asked[params.Cursor] = true
		res, err := l.session.ListTools(ctx, params)
		if err != nil {
			return nil, s.wrong(ctx, l, time.Now(), err)
		}
		for _, t := range res.Tools {
			if t != nil {
				out = append(out, s.tool(t, version))
			}
		}
		if len(out) > maxTools {
			return nil, fault.New(fault.ToolFailed, "the MCP server %q lists more than %d tools", s.cfg.Name, maxTools)
		}
		if asked[res.NextCursor] { // also "", which is the first page's and ends a list
			l.mu.Lock()
			l.toolsOf = true
			l.mu.Unlock()
			return out, nil
		}
		params.Cursor = res.NextCursor
	}
	return nil, fault.New(fault.ToolFailed, "the MCP server %q lists its tools on more than %d pages", s.cfg.Name, maxPages)
}

// tool makes a tool of a server's description.
func (s *Server) tool(t *sdk.Tool, version string) *Tool {
	out := &Tool{server: s, name: t.Name, hints: infer.Hints{Cannot: s.cfg.Cannot}}
	out.spec = tool.Spec{
		ID: tool.ID("mcp:" + s.cfg.Name + ":" + t.Name), Title: clip.Text(t.Title, 200), Description: clip.Text(t.Description, maxDescription),
		Version: version, Source: s.cfg.Source, Input: schema(t.InputSchema), Output: outputSchema(t.OutputSchema),
	}
	if a := t.Annotations; a != nil {
		if out.spec.Title == "" {
			out.spec.Title = clip.Text(a.Title, 200)
		}
		out.hints.Destructive, out.hints.OpenWorld = a.DestructiveHint, a.OpenWorldHint
		if a.ReadOnlyHint { // false is also the value of a missing hint
			out.hints.ReadOnly = &a.ReadOnlyHint
		}
		if a.IdempotentHint {
			out.hints.Idempotent = &a.IdempotentHint
		}
	}
	if out.spec.Title == "" {
		out.spec.Title = clip.Text(t.Name, 200)
	}
	return out
}

// schema writes a schema with its keys in order, so that its digest is that of its meaning.
func schema(v any) json.RawMessage {
	if b, err := json.Marshal(v); err == nil && v != nil {
		return b
	}
	return json.RawMessage(`{"type":"object"}`)
}

// outputSchema is the schema of the result of [Tool.Run]: the server's blocks of content, and its
// structured content, in the server's own schema.
func outputSchema(structured any) json.RawMessage {
	out := map[string]any{"type": "object", "properties": map[string]any{"content": map[string]any{"type": "array"}}}
	if structured != nil {
		out["properties"].(map[string]any)["structured"] = structured
	}
	return schema(out)
}

// Spec is the server's description of the tool. Nothing in it is trusted.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Hints are the server's annotations.
func (t *Tool) Hints() infer.Hints { return t.hints }

// Prepare returns the actions that the operator declared for the tool's arguments.
func (t *Tool) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	return permit.Prepared{Actions: t.actions(args), Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
		return t.run(ctx, p, args)
	}}, nil
}

// run has the server carry the call out.
func (t *Tool) run(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error) {
	if !p.Live() {
		return tool.Result{}, fault.New(fault.HandleRefused, "the call is over, or was never allowed")
	}
	var res tool.Result
	err := t.server.inSession(ctx, func(ctx context.Context, l *live) (err error) {
		res, err = t.runOn(ctx, l, p, args)
		return err
	})
	return res, err
}

// runOn has the server carry the call out, on one connection.
func (t *Tool) runOn(ctx context.Context, l *live, p permit.Permit, args tool.Args) (tool.Result, error) {
	s := t.server
	s.mu.Lock()
	s.called = time.Now()
	s.mu.Unlock()
	leave, err := l.waitAlone(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer leave()
	f, end := l.begin(ctx, p.Chain().MCP())
	defer end()
	begun := time.Now()
	res, err := t.use(ctx, f, args)
	if err != nil {
		if coded := (*fault.Error)(nil); errors.As(err, &coded) {
			return res, err
		}
		res.Output = errorDetails(err)
		return res, s.wrong(ctx, l, begun, err)
	}
	l.ok()
	return res, nil
}

// use sends the tool's request to the server.
func (t *Tool) use(ctx context.Context, f *flight, args tool.Args) (tool.Result, error) {
	switch t.name {
	case tool.ReadResource:
		return f.readResource(ctx, args)
	case tool.WatchResource:
		uri, _ := args["uri"].(string)
		return tool.Result{Output: map[string]any{}}, t.server.watch(ctx, f.live, uri)
	case tool.GetPrompt:
		return f.getPrompt(ctx, args)
	case tool.Complete:
		return f.complete(ctx, args)
	}
	return f.callTool(ctx, t.name, args)
}

// callTool calls a tool of the server.
func (f *flight) callTool(ctx context.Context, name string, args tool.Args) (tool.Result, error) {
	l := f.live
	if err := l.learn(ctx); err != nil {
		return tool.Result{}, err
	}
	var progress any
	if tool.WantsProgress(ctx) {
		token, stop := l.follow(func(p tool.Progress) { tool.TellProgress(ctx, p) })
		defer stop()
		progress = token
	}
	if args == nil {
		args = tool.Args{}
	}
	var res *sdk.CallToolResult
	err := f.rounds(ctx, func(m sdk.Meta, in sdk.InputResponseMap, state string) (round, error) {
		params := &sdk.CallToolParams{Meta: m, Name: name, Arguments: map[string]any(args), InputResponses: in, RequestState: state}
		if progress != nil {
			params.SetProgressToken(progress)
		}
		var err error
		if res, err = l.session.CallTool(ctx, params); err != nil {
			return round{}, err
		}
		return round{res.InputRequests, res.RequestState, res.NeedsInput()}, nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	return result(l.server.cfg.Name, res)
}

// learn lists the tools of a server elsewhere once on each connection: some of a
// tool's arguments may have to be repeated in headers, which the SDK does for tools
// that it knows.
func (l *live) learn(ctx context.Context) error {
	l.mu.Lock()
	known := l.toolsOf
	l.mu.Unlock()
	if known || !l.link.Remote {
		return nil
	}
	_, err := l.server.tools(ctx, l, "")
	return err
}

// result reads a server's answer.
func result(server string, res *sdk.CallToolResult) (tool.Result, error) {
	raw, err := json.Marshal(struct {
		Content    []sdk.Content `json:"content"`
		Structured any           `json:"structured,omitempty"`
		Meta       sdk.Meta      `json:"_meta,omitempty"`
	}{res.Content, res.StructuredContent, ownMeta(res.Meta)})
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.OutputInvalid, err, "the MCP server %q answered with what cannot be written as JSON", server)
	}
	out, err := object(server, raw)
	if err != nil {
		return tool.Result{}, err
	}
	if out["content"] == nil {
		out["content"] = []any{}
	}
	if res.IsError {
		return tool.Result{Output: out}, fault.New(fault.ToolFailed, "the tool failed: %s", quoted(contentText(res.Content), 1000))
	}
	return tool.Result{Output: out}, nil
}

// ownMeta returns the _meta of a result without the keys that the protocol reserves: they are about
// this connection.
func ownMeta(m sdk.Meta) sdk.Meta {
	out := sdk.Meta{}
	for key, v := range m {
		prefix, _, _ := strings.Cut(key, "/")
		labels := strings.Split(prefix, ".")
		if prefix == key || !slices.Contains(labels, "modelcontextprotocol") && !slices.Contains(labels, "mcp") {
			out[key] = v
		}
	}
	return out
}

// object reads JSON that is recorded.
func object(server string, raw []byte) (map[string]any, error) {
	v, err := canon.Decode(raw)
	out, _ := v.(map[string]any)
	if err != nil || out == nil {
		return nil, fault.New(fault.OutputInvalid, "the MCP server %q answered with unusable JSON: %v", server, err)
	}
	return out, nil
}

// contentText is the text of blocks of content.
func contentText(blocks []sdk.Content) string {
	var all []string
	for _, b := range blocks {
		if t, ok := b.(*sdk.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	if len(all) == 0 {
		return "the server does not say why"
	}
	return strings.Join(all, " ")
}

// wrong words why a call came to nothing, and gives up a server that is stuck.
func (s *Server) wrong(ctx context.Context, l *live, begun time.Time, err error) error {
	if ctx.Err() != nil {
		if !l.link.Remote && errors.Is(ctx.Err(), context.DeadlineExceeded) && l.heard.Load() < begun.UnixNano() {
			s.abandon(l, fault.New(fault.ToolTimeout, "it said nothing for %s", time.Since(begun).Round(time.Millisecond)))
		}
		return context.Cause(ctx)
	}
	if coded := loginNeeded(err); coded != nil {
		return coded
	}
	if werr := (*jsonrpc.Error)(nil); errors.As(err, &werr) && !l.hasEnded() {
		code := fault.ToolFailed
		if werr.Code == notFound || werr.Code == jsonrpc.CodeInvalidParams && werr.Data != nil && bytes.Contains(werr.Data, []byte(`"uri"`)) {
			code = fault.NotFound
		}
		return fault.Wrap(code, werr, "the MCP server %q refused the call (%d): %s", s.cfg.Name, werr.Code, quoted(werr.Message, 500))
	}
	return l.explain(err, "did not answer the call")
}

// maxErrorData is how many bytes of an error's data are kept.
const maxErrorData = 16 << 10

// errorDetails returns the code and the data of a server's error as an output; nil: it has no data.
func errorDetails(err error) map[string]any {
	werr := (*jsonrpc.Error)(nil)
	if !errors.As(err, &werr) || !has(werr.Data) {
		return nil
	}
	data, err := canon.Decode(werr.Data)
	if err != nil || len(werr.Data) > maxErrorData {
		data = clip.Text(strings.ToValidUTF8(string(werr.Data), "\uFFFD"), maxErrorData)
	}
	return map[string]any{"error": map[string]any{"code": json.Number(strconv.FormatInt(werr.Code, 10)), "data": data}}
}

// notFound is the code for resources that there are not, in older revisions.
const notFound = -32002
