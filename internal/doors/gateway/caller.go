package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/tool"
)

// caller gives a tool access to the client while the call runs. Whether an MCP server may
// ask the client is decided by the policy, where the call is carried out.
func (k *call) caller(ctx context.Context, id tool.ID) tool.Caller {
	server := serverOf(id)
	if server == "" {
		return tool.Caller{} // Remit's own tools do not ask
	}
	out := tool.Caller{Level: k.level}
	if k.level != "" {
		out.Log = func(level, logger string, data json.RawMessage) {
			// A log that cannot be sent is lost: the call goes on.
			_ = k.session.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(level), Logger: strings.TrimSuffix(server+"/"+logger, "/"), Data: data})
		}
	}
	if k.put == nil {
		return out
	}
	caps, can := k.ClientCapabilities(), map[string]any{}
	if caps.Elicitation != nil {
		can["elicitation"] = caps.Elicitation
	}
	if caps.Sampling != nil {
		can["sampling"] = caps.Sampling
	}
	if caps.RootsV2 != nil {
		can["roots"] = caps.RootsV2
	}
	raw, err := json.Marshal(can)
	if err != nil {
		return out
	}
	out.Can = raw
	out.Ask = func(asking context.Context, qs map[string]tool.Question) (map[string]json.RawMessage, error) {
		// The questions end with the client's request, and with the call that asks.
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(asking, stop)()
		return k.ask(ctx, server, qs)
	}
	return out
}

// ask asks the client the questions of a server.
func (k *call) ask(ctx context.Context, server string, qs map[string]tool.Question) (map[string]json.RawMessage, error) {
	type wire struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	all := make(map[string]wire, len(qs))
	for name, q := range qs {
		if len(q.Params) == 0 {
			q.Params = json.RawMessage("{}")
		}
		all[name] = wire(q)
	}
	raw, err := json.Marshal(all)
	wanted := mcp.InputRequestMap{}
	if err == nil {
		err = json.Unmarshal(raw, &wanted)
	}
	if err != nil {
		return nil, fmt.Errorf("the questions cannot be read: %w", err)
	}
	for _, w := range wanted {
		if e, ok := w.(*mcp.ElicitParams); ok { // so that it is not mistaken for a question of Remit
			e.Message = fmt.Sprintf("MCP server %q asks: %s", server, e.Message)
		}
	}
	got, err := k.answersFor(ctx, wanted)
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(got))
	for name := range wanted {
		if a := got[name]; a != nil {
			if out[name], err = json.Marshal(a); err != nil {
				return nil, fmt.Errorf("the answer cannot be written: %w", err)
			}
		}
	}
	return out, nil
}

// answersFor returns the answers that came with the client's request, once, or else its present answers.
func (k *call) answersFor(ctx context.Context, wanted mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	k.mu.Lock()
	brought := k.answers
	k.answers = nil
	k.mu.Unlock()
	for name := range wanted {
		if brought[name] == nil {
			return k.put(ctx, wanted)
		}
	}
	return brought, nil
}

// directly asks questions one by one, as in the revisions with sessions.
func (k *call) directly(ctx context.Context, wanted mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	out := mcp.InputResponseMap{}
	for name, w := range wanted {
		a, err := k.one(ctx, w)
		if err != nil {
			return nil, err
		}
		out[name] = a
	}
	return out, nil
}

func (k *call) one(ctx context.Context, wanted mcp.InputRequest) (mcp.InputResponse, error) {
	switch p := wanted.(type) {
	case *mcp.ElicitParams:
		return k.session.Elicit(ctx, p)
	case *mcp.CreateMessageWithToolsParams:
		if len(p.Tools) > 0 {
			return k.session.CreateMessageWithTools(ctx, p)
		}
		raw, err := json.Marshal(p)
		plain := &mcp.CreateMessageParams{}
		if err == nil {
			err = json.Unmarshal(raw, plain)
		}
		if err != nil {
			return nil, fmt.Errorf("the request to the model cannot be read: %w", err)
		}
		return k.session.CreateMessage(ctx, plain)
	case *mcp.ListRootsParams:
		return k.session.ListRoots(ctx, p)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown question"}
}

// levelOf is the lowest level of logs that the client wants.
func (c *conn) levelOf(r said, meta mcp.Meta) string {
	if r.ProtocolVersion() >= stateless {
		level, _ := meta[mcp.MetaKeyLogLevel].(string)
		return level
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

// serverOf is the MCP server of a tool; "": the tool belongs to none.
func serverOf(id tool.ID) string {
	rest, ok := strings.CutPrefix(string(id), "mcp:")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, ":")
	return name
}
