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

// parked is a call whose questions went to the client as the result of the call. It waits
// until the client repeats the call with the answers.
type parked struct {
	key    string // identifies what the client asked for
	args   string // canonical
	cancel context.CancelFunc
	asked  chan *asking
	shown  *asking // the last questions; belongs to the one request that has the call
	done   chan struct{}

	mu      sync.Mutex
	outcome runner.Outcome
	fatal   error
}

// asking is a set of questions with its own answer, so that an answer never counts for
// other questions.
type asking struct {
	wanted mcp.InputRequestMap
	answer chan mcp.InputResponseMap
	gone   chan struct{} // closed when the answer is no longer needed
}

// maxParked is how many calls of a connection can wait for an answer.
const maxParked = 32

// park makes a call that may have questions.
func (c *conn) park(ctx context.Context, k *call, rc runner.Call) (runner.Outcome, *questions, error) {
	args, err := canon.Marshal(map[string]any(rc.Args))
	if err != nil {
		o, fatal := c.refuse(ctx, rc, fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err))
		return o, nil, fatal
	}
	// With a question, the call outlives the request that makes it. Until then it ends
	// with the request.
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

// put gives the questions to the request that waits for the call.
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

// await waits for the outcome of a call, or for its questions.
func (c *conn) await(ctx context.Context, p *parked) (runner.Outcome, *questions, error) {
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	select {
	case <-p.done:
		return p.over()
	case p.shown = <-p.asked:
		wanted := p.shown.wanted // after keep, another request may have the call
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

// keep stores a parked call under a name that only its client gets.
func (c *conn) keep(p *parked) (string, bool) {
	state := unguessable()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parked) >= maxParked {
		return "", false
	}
	c.parked[state] = p
	go func() { // until it expires, is cancelled, or is answered
		<-p.done
		c.mu.Lock()
		delete(c.parked, state)
		c.mu.Unlock()
	}()
	return state, true
}

// resume continues a call with the client's answers. The repeated call must be the same.
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
	case <-p.shown.gone: // answered elsewhere, or expired; the call may have further questions
	case <-ctx.Done():
		p.cancel()
		<-p.done
	}
	return c.await(ctx, p)
}
