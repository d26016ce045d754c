package gateway

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
)

// parked is a call whose questions have gone to the client as the call's result. It
// waits until the client makes the call again with the answers.
type parked struct {
	key    string // what the client asked for
	args   string // canonical
	cancel context.CancelFunc
	asked  chan *asking
	shown  *asking // what the client was last asked; of the one request that has the call
	done   chan struct{}

	mu      sync.Mutex
	outcome runner.Outcome
	fatal   error
}

// asking is one set of questions. It has an answer of its own, so that what the
// client says of one question is never taken for another's.
type asking struct {
	wanted mcp.InputRequestMap
	answer chan mcp.InputResponseMap
	gone   chan struct{} // closed once nobody waits for the answer
}

// maxParked bounds the calls of one connection that wait for an answer.
const maxParked = 32

// park makes a call that may have to wait for an answer.
func (c *conn) park(ctx context.Context, k *call, rc runner.Call) (runner.Outcome, *questions, error) {
	args, err := canon.Marshal(map[string]any(rc.Args))
	if err != nil {
		o, fatal := c.session.Refuse(ctx, rc, fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err))
		return o, nil, fatal
	}
	// The call outlives the request that makes it, if there is a question. Until
	// then it ends with the request.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &parked{
		key: k.key, args: string(args), cancel: cancel,
		asked: make(chan *asking), done: make(chan struct{}),
	}
	k.put = p.put
	go func() {
		defer cancel()
		o, fatal := c.make(own, k, rc)
		p.mu.Lock()
		p.outcome, p.fatal = o, fatal
		p.mu.Unlock()
		close(p.done)
	}()
	return c.await(ctx, p)
}

// put hands the questions to the request that waits for the call.
func (p *parked) put(ctx context.Context, wanted mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	q := &asking{wanted: wanted, answer: make(chan mcp.InputResponseMap), gone: make(chan struct{})}
	defer close(q.gone)
	select {
	case p.asked <- q:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// await waits for what comes of a call, which may be questions.
func (c *conn) await(ctx context.Context, p *parked) (runner.Outcome, *questions, error) {
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	select {
	case <-p.done:
		return p.over()
	case p.shown = <-p.asked:
		wanted := p.shown.wanted // from keep on, another request may have the call
		if state, ok := c.keep(p); ok {
			return runner.Outcome{}, &questions{wanted, state}, nil
		}
		p.cancel()
		<-p.done
		return p.over()
	}
}

func (p *parked) over() (runner.Outcome, *questions, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome, nil, p.fatal
}

// keep remembers a parked call under a name that only its client learns.
func (c *conn) keep(p *parked) (string, bool) {
	state := unguessable()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parked) >= maxParked {
		return "", false
	}
	c.parked[state] = p
	go func() { // it lapses, is cancelled, or is answered
		<-p.done
		c.mu.Lock()
		delete(c.parked, state)
		c.mu.Unlock()
	}()
	return state, true
}

// resume goes on with a call whose answers the client brings. It must be the very
// same call.
func (c *conn) resume(ctx context.Context, r request, rc runner.Call, err error) (runner.Outcome, *questions, error) {
	var text []byte
	if err == nil {
		text, err = canon.Marshal(map[string]any(rc.Args))
	}
	c.mu.Lock()
	p := c.parked[r.state]
	same := p != nil && err == nil && p.key == r.key && p.args == string(text)
	if same {
		delete(c.parked, r.state)
	}
	c.mu.Unlock()
	if !same {
		return runner.Outcome{}, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: "no call with these arguments waits for an answer: the question may have lapsed; make the call again without requestState"}
	}
	answers := r.answers
	if answers == nil {
		answers = mcp.InputResponseMap{}
	}
	select {
	case p.shown.answer <- answers:
	case <-p.shown.gone: // answered elsewhere, or lapsed; what the call asks next is asked next
	case <-ctx.Done():
		p.cancel()
		<-p.done
	}
	return c.await(ctx, p)
}
