package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// flight is one call of the server, under way. Questions of the server in its course go to its
// caller, and to nobody else.
//
// From the revision 2026-07-28 on, a question is the answer to the call that it belongs to. In
// older ones a server asks whenever it likes and does not say for which call: then calls of a
// server that may ask are made one after the other, so that no other caller learns of the question.
// A server's log messages are passed on if exactly one call is under way.
type flight struct {
	live   *live
	over   <-chan struct{} // closed when the call is given up
	caller tool.Caller
	can    map[string]json.RawMessage // the caller's capabilities for questions, by name
}

// waitAlone waits until a call is the only one, where the server may ask and would not
// say for which call.
func (l *live) waitAlone(ctx context.Context) (leave func(), err error) {
	if l.modern() || l.server.cfg.Asks == (policy.MCP{}) {
		return func() {}, nil
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lateLog is how long is waited for what a server elsewhere logged right before its
// answer, which the SDK hands on beside it.
const lateLog = 10 * time.Millisecond

// begin notes a call whose caller may be asked what both allow.
func (l *live) begin(ctx context.Context, callers policy.MCP) (f *flight, end func()) {
	f = &flight{live: l, over: ctx.Done(), caller: tool.CallerOf(ctx), can: map[string]json.RawMessage{}}
	var all map[string]json.RawMessage
	if f.caller.Ask != nil && json.Unmarshal(f.caller.Can, &all) == nil {
		own := l.server.cfg.Asks
		for name, ok := range map[string]bool{
			"elicitation": own.Elicitation && callers.Elicitation,
			"sampling":    own.Sampling && callers.Sampling,
			"roots":       own.Roots && callers.Roots,
		} {
			if c := all[name]; ok && c != nil {
				f.can[name] = c
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights[f] = true
	return f, func() {
		if f.caller.Log != nil && l.link.Remote {
			time.Sleep(lateLog)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.flights, f)
	}
}

// capabilityOf is the client's capability that a question needs.
var capabilityOf = map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

// maxQuestions bounds a server's questions at once, and maxRounds the rounds in one call.
const (
	maxQuestions = 16
	maxRounds    = 16
)

// ask puts the server's questions to the caller.
func (f *flight) ask(ctx context.Context, qs map[string]tool.Question) (map[string]json.RawMessage, error) {
	name := f.live.server.cfg.Name
	if len(qs) > maxQuestions {
		return nil, fault.New(fault.ToolFailed, "the MCP server %q asks %d questions at once; the limit is %d", name, len(qs), maxQuestions)
	}
	for _, q := range qs {
		c := capabilityOf[q.Method]
		if c == "" {
			return nil, fault.New(fault.ToolFailed, "the MCP server %q asks for %.60q, which is not supported", name, q.Method)
		}
		if f.can[c] == nil {
			return nil, f.refused(c)
		}
	}
	return f.caller.Ask(ctx, qs)
}

// refused returns the reason why no person is asked, and what would change that.
func (f *flight) refused(capability string) error {
	what := map[string]string{"elicitation": "a person", "sampling": "a model", "roots": "for the client's folders"}[capability]
	e := fault.New(fault.ToolFailed, "the MCP server %q wants to ask %s before it goes on, which is refused", f.live.server.cfg.Name, what)
	own := f.live.server.cfg.Asks
	switch said := map[string]bool{"elicitation": own.Elicitation, "sampling": own.Sampling, "roots": own.Roots}[capability]; {
	case !said:
		return e.ForOperator("the operator lets a server ask with remit mcp add --asks %s", capability)
	case f.caller.Ask == nil:
		return e.WithHint("only a client of the gateway can be asked")
	}
	return e.WithHint("the caller's policy must say mcp: {%s: ask}, and its client be able to answer", capability)
}

// only is the call under way, if there is exactly one.
func (l *live) only() *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.flights) != 1 {
		return nil
	}
	for f := range l.flights {
		return f
	}
	return nil
}

// one puts a question that names no call.
func (l *live) one(ctx context.Context, method string, params, answer any) error {
	f := l.only()
	if f == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not exactly one call is under way: the caller to be asked is unknown"}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unusable parameters"}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // the question ends with its call
		select {
		case <-f.over:
			stop()
		case <-ctx.Done():
		}
	}()
	got, err := f.ask(ctx, map[string]tool.Question{"q": {Method: method, Params: raw}})
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fault.Message(err)}
	}
	if err := json.Unmarshal(got["q"], answer); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client's answer cannot be read"}
	}
	return nil
}

// answerQuestions answers the questions that a server of an older revision asks by itself, by the caller. The
// SDK's own way is left out: it knows one answer for all callers, and of the schemas of questions
// less than servers do.
func (l *live) answerQuestions(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		switch method {
		case "elicitation/create":
			return answered(l, ctx, method, r, &sdk.ElicitResult{})
		case "sampling/createMessage":
			return answered(l, ctx, method, r, &sdk.CreateMessageWithToolsResult{})
		case "roots/list":
			return answered(l, ctx, method, r, &sdk.ListRootsResult{Roots: []*sdk.Root{}})
		}
		return next(ctx, method, r)
	}
}

func answered[R sdk.Result](l *live, ctx context.Context, method string, r sdk.Request, out R) (sdk.Result, error) { //nolint:revive // the receiver comes first
	if err := l.one(ctx, method, r.GetParams(), out); err != nil {
		return nil, err
	}
	return out, nil
}

// maxLog bounds one log message that is passed on, in bytes.
const maxLog = 64 << 10

// log passes on what the server logs while one call runs.
func (l *live) log(_ context.Context, r *sdk.LoggingMessageRequest) { l.logged(r.Params) }

func (l *live) logged(p *sdk.LoggingMessageParams) {
	f := l.only()
	if f == nil || f.caller.Log == nil {
		return
	}
	if data, err := json.Marshal(p.Data); err == nil && len(data) <= maxLog {
		f.caller.Log(string(p.Level), clip.Text(p.Logger, 100), data)
	}
}

// levels are MCP's levels, the most verbose first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// listen tells a server of an older revision from which level on somebody wants
// its log. It is only ever told to say more: the caller's side leaves out the rest.
func (f *flight) listen(ctx context.Context) {
	want, l := slices.Index(levels, f.caller.Level), f.live
	if res := l.session.InitializeResult(); want < 0 || l.modern() || res == nil || res.Capabilities == nil || res.Capabilities.Logging == nil {
		return
	}
	l.mu.Lock()
	was := slices.Index(levels, l.level)
	l.mu.Unlock()
	if was >= 0 && was <= want {
		return
	}
	// A server that cannot be told logs nothing: the call goes on.
	if l.session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(f.caller.Level)}) == nil {
		l.mu.Lock()
		l.level = f.caller.Level
		l.mu.Unlock()
	}
}

// stateless is the first revision without a handshake.
const stateless = "2026-07-28"

func (l *live) modern() bool {
	r := l.session.InitializeResult()
	return r != nil && r.ProtocolVersion >= stateless
}

// meta is what a request tells of its caller besides what the SDK adds.
func (f *flight) meta() sdk.Meta {
	m := sdk.Meta{}
	if f.live.modern() {
		m[sdk.MetaKeyClientCapabilities] = f.can
		if slices.Contains(levels, f.caller.Level) {
			m[sdk.MetaKeyLogLevel] = f.caller.Level
		}
	}
	return m
}

// round is the result of sending a request once.
type round struct {
	asks  sdk.InputRequestMap // not nil: it wants answers before it goes on
	state string
	more  bool // it is to be sent again
}

// rounds sends a request until the server asks nothing more.
func (f *flight) rounds(ctx context.Context, send func(m sdk.Meta, in sdk.InputResponseMap, state string) (round, error)) error {
	f.listen(ctx)
	var in sdk.InputResponseMap
	state := ""
	for range maxRounds {
		r, err := send(f.meta(), in, state)
		if err != nil || !r.more {
			return err
		}
		deliveryOf(ctx).notePartly()
		if in, err = f.fulfil(ctx, r.asks); err != nil {
			return err
		}
		state = r.state
	}
	return fault.New(fault.ToolFailed, "the MCP server %q asks again and again: %d times in one call", f.live.server.cfg.Name, maxRounds)
}

// fulfil gets answers to a server's questions.
func (f *flight) fulfil(ctx context.Context, asks sdk.InputRequestMap) (sdk.InputResponseMap, error) {
	var qs map[string]tool.Question
	raw, err := json.Marshal(asks)
	if err == nil {
		var wire map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		err = json.Unmarshal(raw, &wire)
		qs = make(map[string]tool.Question, len(wire))
		for name, q := range wire {
			qs[name] = tool.Question{Method: q.Method, Params: q.Params}
		}
	}
	if err != nil {
		return nil, fault.New(fault.ToolFailed, "the MCP server %q asks what cannot be read", f.live.server.cfg.Name)
	}
	got, err := f.ask(ctx, qs)
	if err != nil {
		return nil, err
	}
	out := sdk.InputResponseMap{}
	if raw, err = json.Marshal(got); err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return nil, fault.New(fault.ToolFailed, "the client's answer to the MCP server %q cannot be read: %s", f.live.server.cfg.Name, quoted(err.Error(), 200))
	}
	return out, nil
}
