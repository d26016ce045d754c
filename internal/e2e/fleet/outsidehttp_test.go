package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// httpClient is a client of the HTTP API that repeats what fails, at any way to the nodes.
type httpClient struct {
	*crowd
	web *http.Client
	to  func(try int) way // where it makes a request, the first time and again
}

func (c *crowd) httpClient() *httpClient { return &httpClient{c, c.connections(c.token), c.pick} }

// reply is an answer of the API. Without a status there was none.
type reply struct {
	status int
	place  string // its Location
	body   map[string]any
	text   string
}

func (r reply) field(name string) string {
	s, _ := r.body[name].(string)
	return s
}

// failure is what a reader needs of an error of the network, without addresses that differ each time.
func failure(err error) string {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

// brief is what a reader needs of an answer.
func (r reply) brief() string {
	out := fmt.Sprint(r.status)
	for _, name := range []string{"code", "status", "id", "run_id", "detail", "instance"} {
		if v := r.field(name); v != "" {
			out += " " + name + " " + v
		}
	}
	if r.body == nil {
		out += " " + r.text
	}
	return out
}

// once makes one request.
func (h *httpClient) once(i *intent, try int, method, path, body, key string) (reply, bool) {
	to := h.to(try)
	r, err := http.NewRequestWithContext(h.ctx, method, to.url+path, strings.NewReader(body))
	if err != nil {
		i.note(to.name, "%s %s: %v", method, path, err)
		return reply{}, false
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Prefer", "respond-async")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := h.web.Do(r)
	var out reply
	if err == nil {
		var b []byte
		b, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		out = reply{status: res.StatusCode, place: res.Header.Get("Location"), text: string(b)}
		_ = json.Unmarshal(b, &out.body) // HAProxy answers with a page
	}
	if err != nil {
		i.note(to.name, "%s %s: %s", method, path, failure(err))
		return reply{}, false
	}
	i.note(to.name, "%s %s: %s", method, path, out.brief())
	return out, out.status < http.StatusInternalServerError && out.status != http.StatusTooManyRequests && out.field("outcome") != "in_progress"
}

// pursue repeats a request until it has an answer that is not about a passing failure. A request with
// side effects has a key.
func (h *httpClient) pursue(i *intent, method, path, body, key string) reply {
	for try := 0; h.ctx.Err() == nil; try++ {
		if r, ok := h.once(i, try, method, path, body, key); ok {
			return r
		}
		h.pause(20*time.Millisecond, 300*time.Millisecond)
	}
	return reply{}
}

// made gives the ID of the thing that a request made, also where only its place is known.
func (r reply) made(name string) string {
	if r.status < 300 {
		return r.field(name)
	}
	if r.field("code") != fault.Conflict.Error() || r.place == "" {
		return ""
	}
	parts := strings.Split(strings.Trim(r.place, "/"), "/")
	return parts[len(parts)-1]
}

// endingOf is what an answer says of a call.
func endingOf(r reply) ending {
	switch {
	case r.status == http.StatusOK && r.field("status") == "completed":
		return completed
	case r.status == http.StatusConflict, mayHaveHappened(r.text), r.field("status") == "cancelled", r.field("status") == "timeout":
		return unknown
	case r.status >= 400 && r.status < 500:
		return denied
	}
	return refused
}

// mayHaveHappened reports whether a text says that the outcome of a call is unknown.
func mayHaveHappened(text string) bool {
	return strings.Contains(text, "may or may not have taken effect") || strings.Contains(text, "interrupted")
}

// invoke calls a tool with an Idempotency-Key.
func (h *httpClient) invoke(i *intent) ending {
	body := fmt.Sprintf(`{"args":{"method":"POST","url":%q}}`, h.f.world+i.path)
	return endingOf(h.pursue(i, "POST", "/v1/tools/http.request/invoke", body, i.path))
}

// queue queues a run of one call, and follows it to its end.
func (h *httpClient) queue(i *intent) ending {
	plan := fmt.Sprintf("name: outside\nsteps:\n  - {tool: http.request, args: {method: POST, url: %q}}\n", h.f.world+i.path)
	body, err := json.Marshal(map[string]any{"plan": plan, "queue": map[string]any{}})
	if err != nil {
		i.note("client", "%v", err)
		return refused
	}
	r := h.pursue(i, "POST", "/v1/runs", string(body), i.path)
	id := r.made("run_id")
	if id == "" {
		return endingOf(r)
	}
	for h.ctx.Err() == nil {
		switch h.pursue(i, "GET", "/v1/queue/"+id, "", "").field("status") {
		case "completed":
			return completed
		case "waiting", "scheduled", "running", "":
		case "interrupted", "cancelled": // a node that ends cancels what it runs
			return unknown
		default:
			return refused
		}
		h.pause(50*time.Millisecond, 100*time.Millisecond)
	}
	return unknown
}

// turn sends a message to a new session whose agent makes one call, and follows the turn to its end.
func (h *httpClient) turn(i *intent) ending {
	script := fmt.Sprintf("- tool_calls: [{name: act, args: {url: %q}}]\n- {text: Done., repeat: true}\n", h.f.world+i.path)
	name := strings.ReplaceAll(strings.Trim(i.path, "/"), "/", "-") + ".yaml"
	if err := os.WriteFile(filepath.Join(h.f.dir, "work", name), []byte(script), 0o600); err != nil {
		i.note("client", "%v", err)
		return refused
	}
	r := h.pursue(i, "POST", "/v1/agents", fmt.Sprintf(`{"name":"Outside","model":"scripted:%s","capabilities":["world"]}`, name), i.path+"agent")
	agent := r.made("id")
	if agent != "" {
		r = h.pursue(i, "POST", "/v1/sessions", fmt.Sprintf(`{"agent_id":%q}`, agent), i.path+"session")
	}
	session := r.made("id")
	if agent == "" || session == "" {
		return endingOf(r)
	}
	for n := 0; ; n++ {
		r = h.pursue(i, "POST", "/v1/sessions/"+session+"/messages", `{"content":"go"}`, fmt.Sprint(i.path, "message", n))
		if r.status < 300 {
			break
		}
		if r.status != http.StatusConflict {
			return endingOf(r)
		}
		// Look at what is there, says the answer, and use a new key.
		if items, _ := h.pursue(i, "GET", "/v1/sessions/"+session+"/messages", "", "").body["items"].([]any); len(items) > 0 || h.ctx.Err() != nil {
			break
		}
	}
	for h.ctx.Err() == nil {
		s := h.pursue(i, "GET", "/v1/sessions/"+session, "", "")
		switch s.field("status") {
		case "paused":
			if h.f.db == nil { // a single node does not continue a paused turn by itself
				h.pause(time.Second, 2*time.Second)
				h.pursue(i, "POST", "/v1/sessions/"+session+"/resume", "", "")
			}
		case "", "working", "waiting":
		default:
			return h.resultOf(i, session)
		}
		h.pause(50*time.Millisecond, 100*time.Millisecond)
	}
	return unknown
}

// resultOf is what the result of a session's only call says.
func (h *httpClient) resultOf(i *intent, session string) ending {
	items, _ := h.pursue(i, "GET", "/v1/sessions/"+session+"/messages?limit=100", "", "").body["items"].([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		text, _ := m["content"].(string)
		if m["role"] == "tool" {
			i.note("session", "result of the call: %s", text)
		}
		switch {
		case m["role"] != "tool":
		case strings.Contains(text, `"content":"done"`):
			return completed
		case mayHaveHappened(text):
			return unknown
		}
	}
	return refused
}

// answers is a person's client: it approves the questions of outside clients, each after it has waited
// for up to two seconds, until it is told that the answer counts.
func (c *crowd) answers() {
	h := c.httpClient()
	seen, asked := map[string]time.Time{}, map[string]int{}
	c.others.Go(func() {
		for c.ctx.Err() == nil {
			own := &intent{}
			items, _ := h.pursue(own, "GET", "/v1/approvals?limit=100", "", "").body["items"].([]any)
			for _, item := range items {
				q, _ := item.(map[string]any)
				i, id := c.asks(q), fmt.Sprint(q["id"])
				if i == nil {
					continue
				}
				if seen[id].IsZero() {
					seen[id] = time.Now().Add(rand.N(2 * time.Second))
				}
				if time.Now().Before(seen[id]) {
					continue
				}
				asked[id]++ // a question that still waits after an answer is answered again, with a new key
				if r := h.pursue(i, "POST", "/v1/approvals/"+id+"/approve", "{}", fmt.Sprint(id, asked[id])); r.status < 300 && r.status > 0 {
					i.mu.Lock()
					i.answered = time.Now()
					i.mu.Unlock()
				}
			}
			c.pause(100*time.Millisecond, 200*time.Millisecond)
		}
	})
}

// asking is the kind of intents that need an approval.
const asking = "question"

// asks finds the intent of a question; nil: it is not of an outside client.
func (c *crowd) asks(question map[string]any) *intent {
	asks, _ := question["asks"].(map[string]any)
	args, _ := asks["args"].(map[string]any)
	at, _ := args["url"].(string)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.intents {
		if i.kind == asking && at == c.f.world+i.path {
			return i
		}
	}
	return nil
}
