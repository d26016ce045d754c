package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// readResource reads a resource.
func (f *flight) readResource(ctx context.Context, args tool.Args) (tool.Result, error) {
	uri, _ := args["uri"].(string)
	var res *sdk.ReadResourceResult
	ctx = context.WithValue(ctx, readKey{}, &res)
	err := f.rounds(ctx, func(m sdk.Meta, in sdk.InputResponseMap, state string) (round, error) {
		_, err := f.live.session.ReadResource(ctx, &sdk.ReadResourceParams{Meta: m, URI: uri, InputResponses: in, RequestState: state})
		if err != nil {
			return round{}, err
		}
		if res == nil {
			return round{}, fault.New(fault.OutputInvalid, "the MCP server %q answered with nothing", f.live.server.cfg.Name)
		}
		return round{res.InputRequests, res.RequestState, res.NeedsInput()}, nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	contents := res.Contents
	if contents == nil {
		contents = []*sdk.ResourceContents{}
	}
	return f.output(map[string]any{"contents": contents})
}

// getPrompt gets a prompt.
func (f *flight) getPrompt(ctx context.Context, args tool.Args) (tool.Result, error) {
	name, _ := args["name"].(string)
	filled := map[string]string{}
	if given, ok := args["arguments"].(map[string]any); ok {
		for k, v := range given {
			filled[k], _ = v.(string)
		}
	}
	var res *sdk.GetPromptResult
	err := f.rounds(ctx, func(m sdk.Meta, in sdk.InputResponseMap, state string) (round, error) {
		var err error
		if res, err = f.live.session.GetPrompt(ctx, &sdk.GetPromptParams{Meta: m, Name: name, Arguments: filled, InputResponses: in, RequestState: state}); err != nil {
			return round{}, err
		}
		return round{res.InputRequests, res.RequestState, res.NeedsInput()}, nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	messages := res.Messages
	if messages == nil {
		messages = []*sdk.PromptMessage{}
	}
	return f.output(map[string]any{"description": clip.Text(res.Description, maxDescription), "messages": messages})
}

// complete has an argument completed.
func (f *flight) complete(ctx context.Context, args tool.Args) (tool.Result, error) {
	raw, err := json.Marshal(args)
	var params sdk.CompleteParams
	if err == nil {
		err = json.Unmarshal(raw, &params)
	}
	if err != nil {
		return tool.Result{}, fault.New(fault.ArgsInvalid, "the argument to complete is not valid: %v", err)
	}
	params.Meta = f.meta()
	res, err := f.live.session.Complete(ctx, &params)
	if err != nil {
		return tool.Result{}, err
	}
	values := res.Completion.Values
	if values == nil {
		values = []string{}
	}
	return f.output(map[string]any{"values": values, "total": res.Completion.Total, "has_more": res.Completion.HasMore})
}

// output is the answer in the form that is recorded.
func (f *flight) output(v map[string]any) (tool.Result, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.OutputInvalid, err, "the MCP server %q answered with what cannot be written as JSON", f.live.server.cfg.Name)
	}
	out, err := object(f.live.server.cfg.Name, raw)
	return tool.Result{Output: out}, err
}
