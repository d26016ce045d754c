package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of messages, in bytes and in number: a page can make them large.
const (
	maxAnswer  = 16 << 20
	maxPicture = 64 << 20 // of an answer that is a picture or a document
	maxEvent   = 1 << 20  // of one that is no answer; larger ones are passed over
	maxSkipped = 1 << 30  // of any message; after a larger one the browser is not used again
	maxUnsent  = 64       // commands that the browser has not read yet
)

// conn speaks the Chrome DevTools Protocol with a browser over two pipes: messages in JSON,
// each ended by a NUL byte. Messages of the browser are untrusted, since a page may have taken
// it over.
type conn struct {
	event  func(method, session string, params json.RawMessage) // called in order; must not wait
	ended  chan struct{}                                        // closed when nothing more is read or written
	end    func()
	unsent chan command

	most atomic.Int64 // bytes of an answer

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

	large bool // an answer that was passed over
}

// errLarge is the error of an answer that is larger than it may be.
var errLarge = fault.New(fault.LimitReached, "the page's content there is too large")

// command is a command that is to be sent while its call goes on.
type command struct {
	ctx  context.Context
	text []byte
}

func newConn(r io.Reader, w io.Writer, event func(method, session string, params json.RawMessage)) *conn {
	c := &conn{event: event, ended: make(chan struct{}), unsent: make(chan command, maxUnsent), waiting: map[int]chan message{}}
	c.most.Store(maxAnswer)
	c.end = sync.OnceFunc(func() { close(c.ended) })
	go c.read(bufio.NewReaderSize(r, 64<<10))
	go c.write(w)
	return c
}

// write sends the queued messages. A browser that does not read blocks write, but no call. Closing the pipe ends write.
func (c *conn) write(w io.Writer) {
	defer c.end()
	for {
		select {
		case one := <-c.unsent:
			if one.ctx.Err() != nil {
				continue // its call is over
			}
			if _, err := w.Write(one.text); err != nil {
				return
			}
		case <-c.ended:
			return
		}
	}
}

// read hands on messages until the browser ends, or sends an invalid one.
func (c *conn) read(r *bufio.Reader) {
	defer c.end()
	for {
		b, whole, err := nextMessage(r, int(c.most.Load()))
		if err != nil {
			return
		}
		var m message
		switch {
		case !whole:
			if m.ID, m.large = answered(b), true; m.ID == 0 {
				continue // a large event
			}
		case json.Unmarshal(b, &m) != nil:
			return
		}
		switch {
		case m.Method != "" && len(b) > maxEvent:
			continue
		case m.Method != "":
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

// answered returns the number of the command that a message begins to answer; 0: it is none.
// Chromium writes it first.
func answered(b []byte) int {
	rest, ok := strings.CutPrefix(string(b[:min(len(b), 40)]), `{"id":`)
	digits, _, found := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	if !ok || !found || err != nil {
		return 0
	}
	return n
}

// nextMessage reads a message. One of more bytes than most is passed over, and only its
// beginning returned.
func nextMessage(r *bufio.Reader, most int) (out []byte, whole bool, err error) {
	whole = true
	for size := 0; ; {
		part, err := r.ReadSlice(0)
		if size += len(part); size > maxSkipped {
			return nil, false, fault.New(fault.LimitReached, "the browser sent a message of more than %d bytes", maxSkipped)
		}
		if whole && len(out)+len(part) > most {
			whole, out = false, bytes.Clone(out[:min(len(out), 40)])
		}
		if whole {
			out = append(out, part...)
		}
		switch {
		case err == nil && whole:
			return out[:len(out)-1], true, nil
		case err == nil:
			return out, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// encode makes a command. Its answer goes to answer; nil: nobody waits for it.
func (c *conn) encode(session, method string, params any, answer chan message) (text []byte, id int, err error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, 0, fault.Wrap(fault.Internal, err, "a command for the browser cannot be encoded")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	text, err = json.Marshal(message{ID: c.next, Session: session, Method: method, Params: raw})
	if err != nil {
		return nil, 0, fault.Wrap(fault.Internal, err, "a command for the browser cannot be encoded")
	}
	if answer != nil {
		c.waiting[c.next] = answer
	}
	return append(text, 0), c.next, nil
}

// forget removes a call that waits for its answer.
func (c *conn) forget(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// errGone is the error of all uses of a browser that has ended.
var errGone = fault.New(fault.ToolFailed, "the browser has ended, and its page with it").WithHint("open the page again")

// call sends a command and waits for its result. out is nil where the result does not matter.
func (c *conn) call(ctx context.Context, session, method string, params, out any) error {
	answer := make(chan message, 1)
	text, id, err := c.encode(session, method, params, answer)
	if err != nil {
		return err
	}
	defer c.forget(id)
	select {
	case c.unsent <- command{ctx, text}:
	case <-c.ended:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var m message
	select {
	case m = <-answer:
	case <-c.ended:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case m.large:
		return errLarge
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

// tell sends a command whose result does not matter, from where nothing may wait. A browser
// that reads nothing is told nothing more.
func (c *conn) tell(session, method string, params any) {
	text, _, err := c.encode(session, method, params, nil)
	if err != nil {
		return
	}
	select {
	case c.unsent <- command{context.Background(), text}:
	default:
	}
}

// refusedCommand is the browser's own error.
type refusedCommand struct{ method, text string }

func (e *refusedCommand) Error() string { return e.method + ": " + shown(e.text, 300) }

// shown makes the browser's words safe to print on one line.
func shown(s string, most int) string {
	q := strconv.Quote(clip.Text(s, most))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
