package webui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/glyph"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// maxFollowed is how many conversations one browser's stream follows.
const maxFollowed = 8

// piece is text of an answer that is coming in.
type piece struct {
	Session string `json:"session"`
	After   int    `json:"after"` // number of the last message before it
	Text    string `json:"text"`
}

// followSessions sends the text of answers in the conversations that a browser shows, until
// the stream ends. The function that it returns ends it.
func (x *exchange) followSessions(out *changes) (end func()) {
	ctx, cancel := context.WithCancel(httpapi.Seated(x.r.Context()))
	api := x.api
	api.r = x.r.WithContext(ctx)
	var all sync.WaitGroup
	var seen []string
	for _, id := range x.r.URL.Query()["session"] {
		if u, err := uuid.Parse(id); err != nil || u.String() != id || slices.Contains(seen, id) || len(seen) == maxFollowed {
			continue
		}
		seen = append(seen, id)
		f := &feed{api: api, session: id, out: out}
		all.Go(func() {
			_ = api.serve(f, http.MethodGet, "/v1/sessions/"+id+"/events", nil, nil, nil) // without it, answers are shown once they are whole
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// feed reads the event stream of one session. It implements http.ResponseWriter.
type feed struct {
	api     client
	session string
	out     *changes

	header http.Header
	failed bool
	line   []byte // an unfinished line
	after  int    // number of the last message; 0: not known yet
	held   string // the end of the answer's text, which may be a part of an emoji
}

// Header implements http.ResponseWriter.
func (f *feed) Header() http.Header {
	if f.header == nil {
		f.header = http.Header{}
	}
	return f.header
}

// WriteHeader implements http.ResponseWriter.
func (f *feed) WriteHeader(status int) { f.failed = status >= http.StatusBadRequest }

// Write implements http.ResponseWriter.
func (f *feed) Write(b []byte) (int, error) {
	if f.failed {
		return len(b), nil
	}
	f.line = append(f.line, b...)
	for {
		line, rest, whole := bytes.Cut(f.line, []byte("\n"))
		if !whole {
			break
		}
		if data, ok := strings.CutPrefix(string(line), "data: "); ok {
			f.read(data)
		}
		f.line = rest
	}
	if len(f.line) > maxLine {
		return 0, fault.New(fault.Internal, "an event of the API is too long")
	}
	return len(b), nil
}

// read handles one event of the session.
func (f *feed) read(data string) {
	var e agent.Event
	if json.Unmarshal([]byte(data), &e) != nil {
		return
	}
	if f.after == 0 { // the stream is open: later messages come in it
		var s agent.Session
		if f.api.get("/v1/sessions/"+f.session, nil, &s) == nil {
			f.after = s.Last
		}
	}
	switch {
	case e.Type == agent.MessageAdded && e.Message != nil:
		f.after, f.held = max(f.after, e.Message.Number), ""
	case e.Type == agent.TextDelta && e.Text != "":
		text := f.held + e.Text
		n := glyph.Settled(text)
		f.held = text[n:]
		if n > 0 {
			f.out.add(piece{f.session, f.after, redact.ShowLines(text[:n])})
		}
	}
}

// add gathers text of an answer.
func (c *changes) add(p piece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.texts); n > 0 && c.texts[n-1].Session == p.Session && c.texts[n-1].After == p.After {
		c.texts[n-1].Text += p.Text
	} else {
		c.texts = append(c.texts, p)
	}
	if c.pending == nil {
		c.pending = time.AfterFunc(gatherFor, c.sendTopics)
	}
}
