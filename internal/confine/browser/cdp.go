package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// maxMessage bounds one message of the browser, in bytes: a page can make it large.
const maxMessage = 64 << 20

// conn speaks the Chrome DevTools Protocol with a browser over two pipes: messages in JSON,
// each ended by a NUL byte. What the browser sends is untrusted, since a page may have taken
// it over.
type conn struct {
	w     io.WriteCloser
	event func(method, session string, params json.RawMessage) // called in order; must not wait
	ended chan struct{}                                        // closed when nothing more is read

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

func newConn(r io.Reader, w io.WriteCloser, event func(method, session string, params json.RawMessage)) *conn {
	c := &conn{w: w, event: event, ended: make(chan struct{}), waiting: map[int]chan message{}}
	go c.read(bufio.NewReaderSize(r, 64<<10))
	return c
}

// read hands on messages until the browser ends, or sends what is not a message.
func (c *conn) read(r *bufio.Reader) {
	defer close(c.ended)
	for {
		b, err := nextMessage(r)
		var m message
		if err != nil || json.Unmarshal(b, &m) != nil {
			return
		}
		if m.Method != "" {
			c.event(m.Method, m.Session, m.Params)
			continue
		}
		c.mu.Lock()
		answer := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}

func nextMessage(r *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice(0)
		out = append(out, part...)
		switch {
		case len(out) > maxMessage:
			return nil, fault.New(fault.LimitReached, "the browser sent a message of more than %d bytes", maxMessage)
		case err == nil:
			return out[:len(out)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// send sends a command and returns where its answer arrives.
func (c *conn) send(session, method string, params any) (<-chan message, int, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, 0, fault.Wrap(fault.Internal, err, "a command for the browser cannot be encoded")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	b, err := json.Marshal(message{ID: c.next, Session: session, Method: method, Params: raw})
	if err != nil {
		return nil, 0, fault.Wrap(fault.Internal, err, "a command for the browser cannot be encoded")
	}
	answer := make(chan message, 1)
	c.waiting[c.next] = answer
	if _, err := c.w.Write(append(b, 0)); err != nil {
		delete(c.waiting, c.next)
		return nil, 0, errGone
	}
	return answer, c.next, nil
}

// errGone is the error of all uses of a browser that has ended.
var errGone = fault.New(fault.ToolFailed, "the browser has ended, and its page with it").WithHint("open the page again")

// call sends a command and waits for its result. out is nil where the result does not matter.
func (c *conn) call(ctx context.Context, session, method string, params, out any) error {
	answer, id, err := c.send(session, method, params)
	if err != nil {
		return err
	}
	var m message
	select {
	case m = <-answer:
	case <-c.ended:
		return errGone
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return context.Cause(ctx)
	}
	switch {
	case m.Error != nil:
		return &refusedCommand{method, clip.Text(m.Error.Message, 300)}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(m.Result, out); err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the browser's answer to %s cannot be read", method)
	}
	return nil
}

// tell sends a command whose result does not matter, from where nothing may wait.
func (c *conn) tell(session, method string, params any) {
	go func() { _, _, _ = c.send(session, method, params) }() // the browser may have ended, which others see
}

// refusedCommand is the browser's own error.
type refusedCommand struct{ method, text string }

func (e *refusedCommand) Error() string { return e.method + ": " + e.text }
