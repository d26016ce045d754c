package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// call is a client's call under way.
type call struct {
	request
	put  puts // asks the client; nil: it cannot be asked
	stop context.CancelFunc

	mu sync.Mutex // guards request.answers
}

// puts asks the client several questions at once.
type puts func(ctx context.Context, wanted mcp.InputRequestMap) (mcp.InputResponseMap, error)

// request is a request of the client that becomes a call, of any kind.
type request struct {
	said
	session *mcp.ServerSession
	key     string // identifies the client's request, so that a repetition is recognized
	token   any    // for progress; nil: the client wants none
	level   string // lowest level of logs that the client wants
	state   string // of a call that the client repeats with answers
	answers mcp.InputResponseMap
}

// said has the client's description in every request.
type said interface {
	ProtocolVersion() string
	ClientCapabilities() *mcp.ClientCapabilities
	ClientInfo() *mcp.Implementation
}

// unlisted handles requests for things that were not listed, as the client may know a name
// from elsewhere: they are decided and recorded too. Such a client is asked no questions.
func (c *conn) unlisted(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.CallToolRequest:
			c.mu.Lock()
			_, listed := c.listed[r.Params.Name]
			c.mu.Unlock()
			var res mcp.Result
			var err error
			if listed {
				res, err = next(ctx, method, req)
			} else {
				res, err = notNil(c.use(ctx, r, false))
			}
			return contentFirst(res), err
		case *mcp.ReadResourceRequest:
			reached := false
			res, err := next(context.WithValue(ctx, reachedKey{}, &reached), method, req)
			if reached {
				return res, err
			}
			return notNil(c.read(ctx, r, false))
		case *mcp.GetPromptRequest:
			if _, listed := c.promptOf(r.Params.Name); !listed {
				return notNil(c.prompt(ctx, r, false))
			}
		case *mcp.ListResourcesRequest, *mcp.ListResourceTemplatesRequest, *mcp.ListPromptsRequest:
			c.relist(ctx)
		case *mcp.ListToolsRequest:
			c.relist(ctx)
			res, err := next(ctx, method, req)
			if list, ok := res.(*mcp.ListToolsResult); ok && err == nil {
				return pageOf(list), nil
			}
			return res, err
		case *mcp.ServerRequest[*mcp.SetLoggingLevelParams]:
			c.mu.Lock()
			c.level = string(r.Params.Level)
			c.mu.Unlock()
		}
		return next(ctx, method, req)
	}
}

type reachedKey struct{}

// notNil gives an untyped nil for a nil result.
func notNil[R mcp.Result](res R, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	return res, nil
}

// idOf gives the ID of the tool that a client names.
func (c *conn) idOf(name string) tool.ID {
	c.mu.Lock()
	id, ok := c.listed[name]
	c.mu.Unlock()
	if ok {
		return id
	}
	if only := c.gateway.opts.Server; only != "" {
		return tool.ID("mcp:" + only + ":" + name)
	}
	if id, ok = IDOf(name); ok {
		return id
	}
	return tool.ID(name) // the catalog does not know it
}

// handle serves tools/call.
func (c *conn) handle(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return c.use(ctx, req, true)
}

// use serves tools/call. asking says that the client can be asked meanwhile.
func (c *conn) use(ctx context.Context, req *mcp.CallToolRequest, asking bool) (*mcp.CallToolResult, error) {
	r := request{said: req, session: req.Session, token: req.Params.GetProgressToken(), level: c.levelOf(req, req.Params.Meta),
		key: "tools/call " + req.Params.Name, state: req.Params.RequestState, answers: req.Params.InputResponses}
	o, q, err := c.carry(ctx, r, asking, func() (runner.Call, error) {
		args, err := decodeArgs(req.Params.Arguments)
		call := runner.Call{Tool: c.idOf(req.Params.Name), Args: args}
		if wanted, ok := args["tool"].(string); ok && call.Tool == tool.AuthorityRequest {
			args["tool"] = string(c.idOf(wanted)) // as it is listed to the client
		}
		return call, err
	})
	if q != nil {
		return &mcp.CallToolResult{InputRequests: q.wanted, RequestState: q.state}, nil
	}
	return c.answer(o, err, req.ProtocolVersion())
}

// questions has the questions of a call that waits for answers.
type questions struct {
	wanted mcp.InputRequestMap
	state  string // names the call when the client repeats it
}

// carry carries out a request until its outcome, or until it has questions.
func (c *conn) carry(ctx context.Context, r request, asking bool, read func() (runner.Call, error)) (runner.Outcome, *questions, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return runner.Outcome{}, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many calls are under way; wait for some to end"}
	}
	rc, err := read()
	if r.state != "" {
		return c.resume(ctx, r, rc, err)
	}
	rc.Index = int(c.last.Add(1))
	if err != nil {
		o, fatal := c.refuse(ctx, rc, err)
		return o, nil, fatal
	}
	k := &call{request: r}
	ctx, quiet := progress(ctx, r)
	defer quiet()
	if asking && r.canAsk() {
		if r.multiRound() {
			return c.park(ctx, k, rc)
		}
		k.put = k.directly
	}
	o, fatal := c.make(ctx, k, rc)
	return o, nil, fatal
}

// make makes the call. Its questions go to the client.
func (c *conn) make(ctx context.Context, k *call, rc runner.Call) (runner.Outcome, error) {
	ctx, k.stop = context.WithCancel(tool.WithCaller(ctx, k.caller(ctx, rc.Tool)))
	defer k.stop()
	c.mu.Lock()
	c.calls[rc.Index] = k
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, rc.Index)
		c.mu.Unlock()
	}()
	run, err := c.liveRun(ctx)
	if err != nil {
		return runner.Outcome{}, err
	}
	return run.Call(ctx, rc)
}

// refuse records a call that cannot be made.
func (c *conn) refuse(ctx context.Context, rc runner.Call, why error) (runner.Outcome, error) {
	run, err := c.liveRun(ctx)
	if err != nil {
		return runner.Outcome{}, err
	}
	return run.Refuse(ctx, rc, why)
}

// stopCalls cancels the calls that are under way.
func (c *conn) stopCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		k.stop()
	}
}

// decodeArgs reads arguments as strictly as the record does.
func decodeArgs(raw json.RawMessage) (tool.Args, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return tool.Args{}, nil
	}
	if canon.Values(raw) > canon.MaxValues {
		return nil, fault.New(fault.ArgsInvalid, "the arguments have more than %d values", canon.MaxValues)
	}
	v, err := canon.Decode(raw)
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "the arguments are not valid JSON: %v", err)
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.ArgsInvalid, "the arguments are not a JSON object")
	}
	return args, nil
}

// answer gives the client the outcome of a call. An unknown tool is an error of the
// protocol. All other errors are results of the call, so that the model can react. The revision is
// the client's.
func (c *conn) answer(o runner.Outcome, fatal error, revision string) (*mcp.CallToolResult, error) {
	if fatal != nil {
		return nil, fatalError(fatal)
	}
	if werr := (*jsonrpc.Error)(nil); errors.As(o.Err, &werr) && werr.Code == mcp.CodeMissingRequiredClientCapabilities {
		return nil, werr // the missing capability of the client, as an error of the protocol
	}
	if o.Status != tool.Completed && fault.CodeOf(o.Err) == fault.ToolUnknown {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fault.CodeOf(o.Err).Error() + " " + fault.Message(o.Err)}
	}
	about := map[string]any{"run": c.run().ID().String(), "index": o.Index, "rule": ruleName(o)}
	res := &mcp.CallToolResult{Meta: mcp.Meta{"run.remit/call": about}}
	if o.Waits { // not the output that the tool's schema describes
		about["status"] = "held"
		text, _ := o.Output["message"].(string)
		res.Content = []mcp.Content{&mcp.TextContent{Text: text}}
		return res, nil
	}
	if o.Status == tool.Completed {
		return c.give(res, o, revision), nil
	}
	res.IsError = true
	about["status"] = o.Status.String()
	refusal, rules := c.refusal(o), []string(nil)
	if !o.ShowsKeys { // it can quote a server
		refusal, rules = redact.Keys(refusal)
	}
	defer func() { noteKeys(res, rules) }()
	res.Content = []mcp.Content{&mcp.TextContent{Text: refusal}}
	if o.Output == nil {
		return res, nil
	}
	if text, err := json.Marshal(BriefOutput(o.Tool, o.Output)); err == nil {
		text, more := maskKeys(text, o)
		rules = append(rules, more...)
		if refusal := res.Content; c.relay(res, text, o, revision) {
			res.Content = append(refusal, res.Content...)
		} else {
			res.Content = append(res.Content, &mcp.TextContent{Text: string(text)})
		}
	}
	return res, nil
}

// maskKeys masks known formats of keys in an output as JSON, and returns the rules that matched.
func maskKeys(text []byte, o runner.Outcome) (masked []byte, rules []string) {
	if o.ShowsKeys {
		return text, nil
	}
	if _, rules = redact.Keys(string(text)); rules == nil {
		return text, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out any
	err := d.Decode(&out)
	if err == nil {
		out, rules = redact.KeysIn(out)
		masked, err = json.Marshal(out)
	}
	if err != nil { // cannot be: the text was made from a value
		return []byte(`{}`), rules
	}
	return masked, rules
}

// noteKeys tells the client the rules that masked keys.
func noteKeys(res *mcp.CallToolResult, rules []string) {
	if note := redact.KeyNote(rules, ""); note != "" {
		res.Content = append(res.Content, &mcp.TextContent{Text: note})
	}
}

// fatalError is the error of a call that was not made.
func fatalError(err error) error {
	if werr := (*jsonrpc.Error)(nil); errors.As(err, &werr) {
		return werr
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.CodeOf(err).Error() + " " + fault.Message(err)}
}

// progress sends the progress of the call's tool to the client, if the client wants it and
// until quiet is called.
func progress(ctx context.Context, r request) (_ context.Context, quiet func()) {
	if r.token == nil {
		return ctx, func() {}
	}
	var mu sync.Mutex
	last := -1.0
	var told time.Time
	over := false
	tell := func(p tool.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if over || p.Done <= last || time.Since(told) < progressEvery {
			return
		}
		last, told = p.Done, time.Now()
		// Progress that cannot be sent is lost: the call goes on.
		_ = r.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.token, Progress: p.Done, Total: p.Total, Message: p.Message})
	}
	return tool.WithProgress(ctx, tell), func() {
		mu.Lock()
		over = true
		mu.Unlock()
	}
}

// progressEvery is the shortest time between two messages about progress.
const progressEvery = 20 * time.Millisecond

// unguessable makes a random name.
func unguessable() string { return rand.Text() }
