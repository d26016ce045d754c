package gateway

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// codeRefused is the JSON-RPC code for resources and prompts that were denied or failed.
// The protocol has no other form for these errors.
const codeRefused = -32000

// handleResource serves resources/read of listed resources.
func (c *conn) handleResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	if reached, ok := ctx.Value(reachedKey{}).(*bool); ok {
		*reached = true
	}
	return c.read(ctx, req, true)
}

// read serves resources/read: it calls the server's tool for it.
func (c *conn) read(ctx context.Context, req *mcp.ReadResourceRequest, asking bool) (*mcp.ReadResourceResult, error) {
	from, ok := c.resourceOf(req.Params.URI)
	if !ok {
		return nil, mcp.ResourceNotFoundError(req.Params.URI) // it names no server, so there is no tool to call
	}
	r := request{said: req, session: req.Session, token: req.Params.GetProgressToken(), level: c.levelOf(req, req.Params.Meta),
		key: "resources/read", state: req.Params.RequestState, answers: req.Params.InputResponses}
	o, q, err := c.carry(ctx, r, asking, func() (runner.Call, error) { return from.call(tool.ReadResource, tool.Args{"uri": from.name}), nil })
	if q != nil {
		return &mcp.ReadResourceResult{InputRequests: q.wanted, RequestState: q.state}, nil
	}
	var out mcp.ReadResourceResult
	if err := c.decodeOutput(o, err, &out); err != nil {
		if fault.CodeOf(o.Err) == fault.NotFound {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		return nil, err
	}
	for _, x := range out.Contents {
		if x.URI != "" {
			x.URI = c.shownURI(from.server, x.URI)
		}
	}
	return &out, nil
}

// handlePrompt serves prompts/get of listed prompts.
func (c *conn) handlePrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return c.prompt(ctx, req, true)
}

// prompt serves prompts/get: it calls the server's tool for it.
func (c *conn) prompt(ctx context.Context, req *mcp.GetPromptRequest, asking bool) (*mcp.GetPromptResult, error) {
	from, _ := c.promptOf(req.Params.Name)
	if from.server == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown prompt"}
	}
	r := request{said: req, session: req.Session, token: req.Params.GetProgressToken(), level: c.levelOf(req, req.Params.Meta),
		key: "prompts/get", state: req.Params.RequestState, answers: req.Params.InputResponses}
	o, q, err := c.carry(ctx, r, asking, func() (runner.Call, error) {
		filled := map[string]any{}
		for k, v := range req.Params.Arguments {
			filled[k] = v
		}
		return from.call(tool.GetPrompt, tool.Args{"name": from.name, "arguments": filled}), nil
	})
	if q != nil {
		return &mcp.GetPromptResult{InputRequests: q.wanted, RequestState: q.state}, nil
	}
	var out mcp.GetPromptResult
	if err := c.decodeOutput(o, err, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// complete serves completion/complete.
func (c *conn) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	ref := map[string]any{"type": req.Params.Ref.Type}
	var from origin
	switch req.Params.Ref.Type {
	case "ref/prompt":
		from, _ = c.promptOf(req.Params.Ref.Name)
		ref["name"] = from.name
	case "ref/resource":
		from, _ = c.resourceOf(req.Params.Ref.URI)
		ref["uri"] = from.name
	}
	if from.server == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is nothing of this name to complete"}
	}
	args := tool.Args{"ref": ref, "argument": map[string]any{"name": req.Params.Argument.Name, "value": req.Params.Argument.Value}}
	if req.Params.Context != nil {
		known := map[string]any{}
		for k, v := range req.Params.Context.Arguments {
			known[k] = v
		}
		args["context"] = map[string]any{"arguments": known}
	}
	o, _, err := c.carry(ctx, request{said: req, session: req.Session, key: "completion/complete"}, false,
		func() (runner.Call, error) { return from.call(tool.Complete, args), nil })
	var out struct {
		Values  []string `json:"values"`
		Total   int      `json:"total"`
		HasMore bool     `json:"has_more"`
	}
	if err := c.decodeOutput(o, err, &out); err != nil {
		return nil, err
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: out.Values, Total: out.Total, HasMore: out.HasMore}}, nil
}

// maxWatched is how many resources a client can watch.
const maxWatched = 1000

// subscribe serves resources/subscribe, and each resource of subscriptions/listen.
func (c *conn) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	from, ok := c.resourceOf(req.Params.URI)
	if !ok {
		return mcp.ResourceNotFoundError(req.Params.URI)
	}
	c.mu.Lock()
	full := len(c.watched) >= maxWatched
	c.mu.Unlock()
	if full {
		return &jsonrpc.Error{Code: codeRefused, Message: "too many resources are watched; unsubscribe from some"}
	}
	o, _, err := c.carry(ctx, request{said: req, session: req.Session, key: "resources/subscribe"}, false,
		func() (runner.Call, error) { return from.call(tool.WatchResource, tool.Args{"uri": from.name}), nil })
	if err := c.decodeOutput(o, err, &struct{}{}); err != nil {
		return err
	}
	c.mu.Lock()
	c.watched[from]++
	c.mu.Unlock()
	return nil
}

// unsubscribe ends a subscription.
func (c *conn) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	from, ok := c.resourceOf(req.Params.URI)
	c.mu.Lock()
	n := c.watched[from]
	if c.watched[from]--; n <= 1 {
		delete(c.watched, from)
	}
	c.mu.Unlock()
	if ok && n > 0 {
		c.gateway.opts.Unwatch(context.WithoutCancel(ctx), from.server, from.name)
	}
	return nil
}

// unwatchAll ends all subscriptions of a client.
func (c *conn) unwatchAll(ctx context.Context) {
	c.mu.Lock()
	all := c.watched
	c.watched = map[origin]int{}
	c.mu.Unlock()
	for from, n := range all {
		for range n {
			c.gateway.opts.Unwatch(context.WithoutCancel(ctx), from.server, from.name)
		}
	}
}

// updated tells the client that a resource changed, if it watches the resource.
func (c *conn) updated(ctx context.Context, o origin) {
	c.mu.Lock()
	n := c.watched[o]
	c.mu.Unlock()
	if n > 0 {
		_ = c.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: c.shownURI(o.server, o.name)}) // the client may have gone
	}
}

// call calls a server's tool for a resource, a prompt or a completion.
func (o origin) call(kind string, args tool.Args) runner.Call {
	return runner.Call{Tool: tool.ID("mcp:" + o.server + ":" + kind), Args: args}
}

// decodeOutput reads the output of a call, or gives its error.
func (c *conn) decodeOutput(o runner.Outcome, fatal error, out any) error {
	if fatal != nil {
		return fatalError(fatal)
	}
	if o.Status != tool.Completed {
		return &jsonrpc.Error{Code: codeRefused, Message: strings.TrimSpace(c.refusal(o))}
	}
	raw, err := json.Marshal(o.Output)
	if err == nil {
		raw, _ = maskKeys(raw, o)
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server's answer cannot be read"}
	}
	return nil
}
