package webui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/memo"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/history"
)

const (
	// gatherFor is how long changes are gathered before the browser is told of them.
	gatherFor = 40 * time.Millisecond
	maxLine   = 1 << 20 // bytes of an event of the API
	maxRead   = 4 << 20 // bytes of events whose topics are kept for other browsers
)

// events tells a browser which topics changed. It follows the event stream of the API, which bounds
// the streams of each person.
func (s *Server) events(x *exchange) {
	out := &changes{w: x.w, rc: http.NewResponseController(x.w), known: s.topics}
	header := http.Header{}
	if id := cmp.Or(x.r.Header.Get("Last-Event-ID"), x.r.URL.Query().Get("after")); id != "" {
		header.Set("Last-Event-ID", id)
	}
	stream := "/v1/events"
	if x.newest() == "" { // the grant may not read the record: only answerable questions are told
		if stream = "/v1/approvals/events"; len(header) == 0 {
			out.note(topicsOf(history.AuditEvent{Event: "question_asked"})) // between the page and the stream there may have been one
		}
	}
	ended := x.followSessions(out)
	err := x.api.serve(out, http.MethodGet, stream, nil, header, nil)
	ended()
	if err != nil {
		s.refused(x, err)
		return
	}
	if out.refused() {
		s.refused(x, out.failed.problem())
		return
	}
	out.end()
}

// changes reads the event stream of the API and writes the topics that its events concern.
// It implements http.ResponseWriter.
type changes struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	known *memo.Memo[[]string]

	failed buffer // an answer that is no stream
	line   []byte // an unfinished line of the API's stream

	mu      sync.Mutex
	topics  []string
	texts   []piece // of answers that are coming in
	id      string
	pending *time.Timer
	began   bool // the header is written: anything written before it would begin another kind of answer
	ended   bool
}

// Header implements http.ResponseWriter.
func (c *changes) Header() http.Header { return c.failed.Header() }

// WriteHeader implements http.ResponseWriter.
func (c *changes) WriteHeader(status int) {
	c.failed.WriteHeader(status)
	if c.refused() {
		return
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.WriteHeader(http.StatusOK)
	if c.began = true; c.pending == nil && len(c.texts)+len(c.topics) > 0 {
		c.pending = time.AfterFunc(gatherFor, c.sendTopics)
	}
}

func (c *changes) refused() bool { return c.failed.status >= http.StatusBadRequest }

// Write implements http.ResponseWriter.
func (c *changes) Write(b []byte) (int, error) {
	if c.failed.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	if c.refused() {
		return c.failed.Write(b)
	}
	c.line = append(c.line, b...)
	for {
		line, rest, whole := bytes.Cut(c.line, []byte("\n"))
		if !whole {
			break
		}
		if err := c.read(string(line)); err != nil {
			return 0, err
		}
		c.line = rest
	}
	if len(c.line) > maxLine {
		return 0, fault.New(fault.Internal, "an event of the API is too long")
	}
	return len(b), nil
}

// read handles one line of the API's stream. Comments keep both streams open.
func (c *changes) read(line string) error {
	switch {
	case strings.HasPrefix(line, ":"), strings.HasPrefix(line, "retry:"):
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.send(line + "\n\n")
	case strings.HasPrefix(line, "data: "):
		c.note(c.topicsIn(strings.TrimPrefix(line, "data: ")))
	case strings.HasPrefix(line, "id: "):
		c.mu.Lock()
		c.id = strings.TrimPrefix(line, "id: ")
		c.mu.Unlock()
	}
	return nil
}

// topicsIn names what an encoded event changes. All browsers get the same events, so each is decoded
// once.
func (c *changes) topicsIn(text string) []string {
	topics, ok := c.known.Get(text)
	if ok {
		return topics
	}
	var e history.AuditEvent
	if err := json.Unmarshal([]byte(text), &e); err == nil && e.Seq != 0 { // the end of the stream is not an event of the record
		topics = topicsOf(e)
	}
	c.known.Put(text, topics, len(text))
	return topics
}

// note gathers what an event concerns.
func (c *changes) note(topics []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range topics {
		if !slices.Contains(c.topics, t) {
			c.topics = append(c.topics, t)
		}
	}
	if c.pending == nil && len(c.topics) > 0 {
		c.pending = time.AfterFunc(gatherFor, c.sendTopics)
	}
}

// sendTopics sends the gathered topics.
func (c *changes) sendTopics() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending = nil; !c.began {
		return
	}
	b, err := json.Marshal(c.topics)
	if err == nil && len(c.topics) > 0 && !c.ended {
		id := ""
		if c.id != "" {
			id = "id: " + c.id + "\n"
		}
		_ = c.send(id + "data: " + string(b) + "\n\n") // a browser that has gone ends the request
	}
	for _, p := range c.texts {
		if b, err := json.Marshal(p); err == nil && !c.ended {
			_ = c.send("event: text\ndata: " + string(b) + "\n\n") // as above
		}
	}
	c.topics, c.texts = nil, nil
}

// send writes to the browser. The caller holds the lock.
func (c *changes) send(text string) error {
	if _, err := c.w.Write([]byte(text)); err != nil {
		return err
	}
	return c.rc.Flush()
}

// end waits for the message under way, and sends nothing more.
func (c *changes) end() {
	c.sendTopics()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// newest gives the number of the newest event of the record, from which on a page is out of
// date; "": the grant may not read the record, so the page is told only of questions.
func (x *exchange) newest() string {
	var list httpapi.AuditList
	if err := x.api.get("/v1/audit", url.Values{"limit": {"1"}}, &list); err != nil {
		return ""
	}
	if len(list.Items) == 0 {
		return "0"
	}
	return strconv.FormatUint(uint64(list.Items[0].Seq), 10)
}

// topicsOf names what an event changes.
func topicsOf(e history.AuditEvent) []string {
	out := []string{"record"}
	switch {
	case strings.HasPrefix(e.Event, "question_"):
		out = append(out, "approvals")
	case strings.HasPrefix(e.Event, "grant_"):
		out = append(out, "grants")
	case strings.HasPrefix(e.Event, "agent_"):
		out = append(out, "agents")
	case e.Event == "queue_paused":
		out = append(out, "runs")
	case strings.HasPrefix(e.Event, "session_"), strings.HasPrefix(e.Event, "message_"), strings.HasPrefix(e.Event, "file_"):
		out = append(out, "sessions")
		if e.Subject != "" {
			out = append(out, "session:"+e.Subject)
		}
	}
	if e.RunID != "" {
		out = append(out, "runs", "run:"+e.RunID)
	}
	return out
}
