package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// A question to the client of a shared session gets an ID that no other node gives: each node
// numbers its own from 1, and an answer must not count for another node's question. An answer
// that reaches another node waits in a row until the node that asked has seen it.

const (
	kindAnswer = "mcp.answer"
	answerLife = time.Minute
	maxAnswers = 32 // of a session, that wait
	lookEvery  = 100 * time.Millisecond
)

func answerKey(session, id string) [sha256.Size]byte {
	return sha256.Sum256([]byte("remit mcp answer\n" + session + "\n" + id))
}

// message is a message of the protocol.
type message map[string]json.RawMessage

// questioner gives the questions of a response IDs of this node, and waits for their answers.
type questioner struct {
	http.ResponseWriter
	ctx     context.Context //nolint:containedctx // that of the request whose response it is
	st      store.Ephemera
	c       *client
	waiting sync.WaitGroup
}

// Unwrap is for http.ResponseController.
func (q *questioner) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// Write writes one event of the server, which writes each at once.
func (q *questioner) Write(p []byte) (int, error) {
	out := p
	if head, data, ok := bytes.Cut(p, []byte("data: ")); ok {
		if named, id := q.c.name(bytes.TrimRight(data, "\n")); named != nil {
			out = append(append(append(bytes.Clone(head), "data: "...), named...), "\n\n"...)
			ctx, stop := context.WithCancel(q.ctx)
			q.c.asks(id, stop)
			q.waiting.Go(func() {
				defer stop()
				q.c.await(ctx, q.st, id)
			})
		}
	}
	if _, err := q.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// name gives a question its ID for the client; nil: the data is none.
func (c *client) name(data []byte) (named []byte, id string) {
	if !bytes.Contains(data[:min(len(data), 200)], []byte(`"method"`)) {
		return nil, ""
	}
	var m message
	if json.Unmarshal(data, &m) != nil || m["method"] == nil || m["id"] == nil {
		return nil, ""
	}
	id = c.tag + "-" + string(m["id"])
	m["id"] = json.RawMessage(strconv.Quote(id))
	if named, err := json.Marshal(m); err == nil {
		return named, id
	}
	return nil, ""
}

// asks notes a question until it is answered.
func (c *client) asks(id string, stop context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]context.CancelFunc{}
	}
	c.asked[id] = stop
}

// answered ends the wait for an answer; false: this node has not asked.
func (c *client) answered(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	stop := c.asked[id]
	delete(c.asked, id)
	if stop != nil {
		stop()
	}
	return stop != nil
}

// await waits until another node has got the answer to a question, and gives it to the server.
func (c *client) await(ctx context.Context, st store.Ephemera, id string) {
	defer c.answered(id)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e, there, err := st.Ephemeral(ctx, kindAnswer, answerKey(c.key, id))
		if err != nil || !there { // the database may answer later
			continue
		}
		if dropped, err := st.DropEphemeral(ctx, e); err == nil && dropped && c.answered(id) {
			c.post(context.WithoutCancel(ctx), e.Data, c.key)
			return
		}
	}
}

// receive takes the answers out of a request that are for another node, or for none; left
// reports whether there is something else in it.
func (c *client) receive(r *http.Request, st store.Ephemera) (left bool, status int, err error) {
	body, err := readBody(r)
	if err != nil || !bytes.Contains(body, []byte(`"result"`)) && !bytes.Contains(body, []byte(`"error"`)) {
		return true, 0, nil //nolint:nilerr // the client's server answers what cannot be read
	}
	var all []json.RawMessage
	batch := json.Unmarshal(body, &all) == nil
	if !batch {
		all = []json.RawMessage{body}
	}
	var rest []json.RawMessage
	for _, one := range all {
		var m message
		if json.Unmarshal(one, &m) != nil || m["method"] != nil || m["result"] == nil && m["error"] == nil {
			rest = append(rest, one)
			continue
		}
		own, err := c.answer(r.Context(), st, m)
		if err != nil {
			return false, refusal(err), err
		}
		if own != nil {
			rest = append(rest, own)
		}
	}
	if len(rest) == 0 {
		return false, 0, nil
	}
	out := []byte(rest[0])
	if batch {
		if out, err = json.Marshal(rest); err != nil {
			return false, http.StatusBadRequest, fault.Wrap(fault.Usage, err, "the messages cannot be read")
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return true, 0, nil
}

// answer gives an answer to a question of this node with the ID that its server knows. The one
// for another node is left in a row; nil then.
func (c *client) answer(ctx context.Context, st store.Ephemera, m message) (json.RawMessage, error) {
	var id string
	if json.Unmarshal(m["id"], &id) != nil {
		return nil, nil //nolint:nilerr // no node has asked with such an ID
	}
	tag, number, _ := strings.Cut(id, "-")
	if n, err := strconv.ParseInt(number, 10, 64); err != nil || strconv.FormatInt(n, 10) != number {
		return nil, nil //nolint:nilerr // nor with such a number
	}
	m["id"] = json.RawMessage(number)
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the answer cannot be read")
	}
	if tag == c.tag {
		if c.answered(id) {
			return b, nil
		}
		return nil, nil // it was answered before
	}
	e := store.Ephemeral{Kind: kindAnswer, Key: answerKey(c.key, id), Owner: ownerOf(c.key), Until: time.Now().Add(answerLife), Data: b}
	_, err = st.SaveEphemeral(ctx, e, store.EphemeralBounds{Each: maxAnswers}) // the first counts
	return nil, err
}

// readBody reads a request's body, and leaves it to be read again. A body that is too long is
// read in part.
func readBody(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b), r.Body), r.Body}
	return b, err
}
