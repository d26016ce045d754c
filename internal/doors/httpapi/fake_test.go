package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/telemetry"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/tools/model"
)

// world is everything that the API serves, in memory, for what the real parts
// cannot be made to do on demand: fail, wait, be slow.
type world struct {
	invoking  func() // called while a tool runs; nil: nothing is
	answering func() // called while a call with wait waits for an answer; nil: none waits

	mu       sync.Mutex
	agents   []agent.Agent
	sessions []agent.Session
	owner    map[string][]string // of sessions: the grants that they are under
	messages map[string][]agent.Message
	events   map[string][]agent.Event
	watch    map[string][]chan struct{}
	files    map[string]map[string]file
	callers  map[string]*httpapi.Caller
	gone     map[string]error // tokens that may not be used any more
	approved map[string]bool

	turn func(ctx context.Context, w *world, id, text string, on func(agent.Event)) error // nil: echoes
	busy error                                                                            // that a message is refused with before it is added
	log  []httpapi.Entry
}

type file struct {
	info    agent.FileInfo
	content []byte
}

func newWorld() *world {
	w := &world{
		owner: map[string][]string{}, messages: map[string][]agent.Message{}, events: map[string][]agent.Event{}, watch: map[string][]chan struct{}{},
		files: map[string]map[string]file{}, callers: map[string]*httpapi.Caller{}, gone: map[string]error{}, approved: map[string]bool{},
	}
	w.caller("admin", "user:ann", "*")
	return w
}

// caller adds a token that may do some actions; "*" is all.
func (w *world) caller(token, name string, actions ...string) {
	leaf := "grant-" + token
	w.callers[token] = &httpapi.Caller{Name: name, Person: name, Token: token, Leaf: leaf, May: func(a string) error {
		if slices.Contains(actions, "*") || slices.Contains(actions, a) {
			return nil
		}
		return fault.New(fault.Denied, "api %s is not allowed", a).WithHint("have the grant's policies allow it")
	}}
}

func (w *world) Check(ctx context.Context, c *httpapi.Caller) (*httpapi.Caller, error) {
	return w.Enter(ctx, callers.Credential{Token: c.Token})
}

func (w *world) Enter(_ context.Context, c callers.Credential) (*httpapi.Caller, error) {
	token := c.Token
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.gone[token]; err != nil {
		return nil, err
	}
	if c := w.callers[token]; c != nil {
		return c, nil
	}
	return nil, fault.New(fault.GrantInvalid, "the token is cut off")
}

func (w *world) revoke(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[token] = fault.New(fault.GrantRevoked, "the grant was revoked")
}

func (w *world) OfSession(_ context.Context, s agent.Session) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owner[s.ID.String()], nil
}

func (w *world) OfRun(context.Context, string) ([]string, error) { return []string{"grant-admin"}, nil }
func (w *world) OfGrant(_ context.Context, id string) ([]string, error) {
	return []string{"grant-admin", id}, nil
}

func (w *world) CreateAgent(_ context.Context, _ agent.Caller, a agent.Agent) (agent.Agent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.ID, a.Version, a.Status, a.Created, a.Updated = uuid.Must(uuid.NewV7()), 1, "active", time.Now().UTC(), time.Now().UTC()
	for _, c := range a.Capabilities {
		if c.Ref != "current_time" && c.Ref != "web_fetch" {
			return a, fault.New(fault.CapabilityUnknown, "no capability has the ID %q", c.Ref).In("capabilities")
		}
	}
	w.agents = append(w.agents, a)
	return a, nil
}

func (w *world) UpdateAgent(_ context.Context, _ agent.Caller, id string, ifVersion int, change func(*agent.Agent) error) (agent.Agent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.agents {
		if a := &w.agents[i]; a.ID.String() == id {
			if ifVersion != 0 && a.Version != ifVersion {
				return *a, fault.New(fault.Stale, "the agent has version %d by now", a.Version)
			}
			a.Version++
			return *a, change(a)
		}
	}
	return agent.Agent{}, fault.New(fault.AgentUnknown, "no agent has the ID %q", id)
}

func (w *world) Agent(_ context.Context, id string) (agent.Agent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.agents {
		if a.ID.String() == id {
			return a, nil
		}
	}
	return agent.Agent{}, fault.New(fault.AgentUnknown, "no agent has the ID %q", id)
}

func (w *world) Agents(_ context.Context, before uuid.UUID, limit int) ([]agent.Agent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return newest(w.agents, func(a agent.Agent) uuid.UUID { return a.ID }, before, limit), nil
}

func newest[T any](list []T, id func(T) uuid.UUID, before uuid.UUID, limit int) []T {
	var out []T
	for _, one := range slices.Backward(list) {
		if before != uuid.Nil && id(one).String() >= before.String() {
			continue
		}
		if len(out) == limit {
			break
		}
		out = append(out, one)
	}
	return out
}

func (w *world) DeleteAgent(ctx context.Context, _ agent.Caller, id string) error {
	_, err := w.Agent(ctx, id)
	return err
}

func (w *world) CreateSession(ctx context.Context, by agent.Caller, id, title string, _ agent.Mode) (agent.Session, error) {
	a, err := w.Agent(ctx, id)
	if err != nil {
		return agent.Session{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := agent.Session{ID: uuid.Must(uuid.NewV7()), Agent: a.ID, Title: title, State: agent.Idle, Version: 1, Created: time.Now().UTC(), Updated: time.Now().UTC()}
	w.sessions = append(w.sessions, s)
	w.owner[s.ID.String()] = []string{"grant-admin", "grant-" + by.Token}
	w.files[s.ID.String()] = map[string]file{}
	return s, nil
}

func (w *world) Session(_ context.Context, id string) (agent.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		if s.ID.String() == id {
			s.Last = len(w.messages[id])
			return s, nil
		}
	}
	return agent.Session{}, fault.New(fault.SessionUnknown, "no session has the ID %q", id)
}

func (w *world) Sessions(_ context.Context, _ agent.SessionFilter, before uuid.UUID, limit int) ([]agent.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return newest(w.sessions, func(s agent.Session) uuid.UUID { return s.ID }, before, limit), nil
}

func (w *world) DeleteSession(ctx context.Context, _ agent.Caller, id string) error {
	_, err := w.Session(ctx, id)
	return err
}

func (w *world) EndRun(ctx context.Context, _ agent.Caller, id string) error {
	_, err := w.Session(ctx, id)
	return err
}

func (w *world) Command(ctx context.Context, _ agent.Caller, _ string, do agent.Carry) error {
	_, err := do(ctx, &runner.Context{})
	return err
}

func (w *world) Fork(ctx context.Context, by agent.Caller, id string, upTo int, _ *agent.Mode) (agent.Session, error) {
	s, err := w.Session(ctx, id)
	if err != nil {
		return s, err
	}
	if upTo > s.Last {
		return s, fault.New(fault.MessageUnknown, "the session has no message %d", upTo)
	}
	return w.CreateSession(ctx, by, s.Agent.String(), s.Title, agent.Mode{})
}

// happen adds an event, and its message if it has one, and tells all who watch.
func (w *world) happen(id string, e agent.Event, on func(agent.Event)) {
	w.mu.Lock()
	e.ID, e.At = strconv.Itoa(len(w.events[id])+1), time.Now().UTC()
	if e.Message != nil {
		e.Message.Number, e.Message.Created = len(w.messages[id])+1, e.At
		w.messages[id] = append(w.messages[id], *e.Message)
	}
	w.events[id] = append(w.events[id], e)
	for _, ch := range w.watch[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	w.mu.Unlock()
	if on != nil {
		on(e)
	}
}

func said(role model.Role, text string) agent.Event {
	return agent.Event{Type: agent.MessageAdded, Message: &agent.Message{Role: role, Text: text}}
}

func (w *world) Send(ctx context.Context, _ agent.Caller, id, text string, on func(agent.Event)) (agent.Turn, error) {
	s, err := w.Session(ctx, id)
	if err != nil {
		return agent.Turn{}, err
	}
	if s.State == agent.Ended {
		return agent.Turn{}, fault.New(fault.SessionEnded, "the session takes no more messages")
	}
	if w.busy != nil {
		return agent.Turn{}, w.busy
	}
	first := s.Last
	w.happen(id, said(model.User, text), on)
	if w.turn != nil {
		err = w.turn(ctx, w, id, text, on)
	} else {
		w.happen(id, agent.Event{Type: agent.TextDelta, Text: "you said: "}, on)
		w.happen(id, said(model.Assistant, "you said: "+text), on)
	}
	w.happen(id, agent.Event{Type: agent.StateChanged, State: agent.Idle}, on)
	s, _ = w.Session(ctx, id)
	w.mu.Lock()
	defer w.mu.Unlock()
	added := slices.Clone(w.messages[id][first:])
	return agent.Turn{Session: s, Messages: added, Reply: added[len(added)-1].Text}, err
}

func (w *world) Start(ctx context.Context, by agent.Caller, id, text string) (agent.Message, error) {
	turn, err := w.Send(ctx, by, id, text, nil)
	if err != nil {
		return agent.Message{}, err
	}
	return turn.Messages[0], nil
}

func (w *world) Messages(_ context.Context, id string, from, limit int) ([]agent.Message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.messages[id]
	from = min(max(from, 1)-1, len(all))
	return slices.Clone(all[from:min(len(all), from+limit)]), nil
}

func (w *world) MessageCalls(_ context.Context, _ string, from, to int) ([]agent.MessageCall, error) {
	out := []agent.MessageCall{}
	for n := from; n <= min(to, from+1); n++ {
		out = append(out, agent.MessageCall{Message: n, CallID: "c", Run: someID, Index: n, Tool: "time.now", Status: "completed"})
	}
	return out, nil
}

func (w *world) Preview(_ context.Context, a agent.Agent) (agent.Effective, error) {
	return agent.Effective{SystemPrompt: a.SystemPrompt, Capabilities: []agent.EffectiveCapability{}, Tools: []agent.EffectiveTool{}}, nil
}

func (w *world) Effective(ctx context.Context, id string) (agent.Effective, error) {
	a, err := w.Agent(ctx, id)
	return agent.Effective{Agent: a.ID.String(), Version: a.Version, SystemPrompt: a.SystemPrompt, Capabilities: []agent.EffectiveCapability{}, Tools: []agent.EffectiveTool{}}, err
}

func (w *world) Events(ctx context.Context, id, last string, on func(agent.Event) error) error {
	w.mu.Lock()
	next := len(w.events[id])
	if last != "" {
		n, err := strconv.Atoi(last)
		if err != nil || n < 0 || n > len(w.events[id]) {
			w.mu.Unlock()
			return fault.New(fault.MessageUnknown, "the session has no event %q", last)
		}
		next = n
	}
	ch := make(chan struct{}, 1)
	w.watch[id] = append(w.watch[id], ch)
	w.mu.Unlock()
	for {
		w.mu.Lock()
		news := slices.Clone(w.events[id][next:])
		w.mu.Unlock()
		for _, e := range news {
			if err := on(e); err != nil {
				return err
			}
			next++
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) steer(ctx context.Context, id string) (agent.Session, error) {
	return w.Session(ctx, id)
}
func (w *world) Cancel(ctx context.Context, _ agent.Caller, id string) (agent.Session, error) {
	return w.steer(ctx, id)
}

func (w *world) Pause(ctx context.Context, _ agent.Caller, id string) (agent.Session, error) {
	return w.steer(ctx, id)
}

func (w *world) Resume(ctx context.Context, _ agent.Caller, id string) (agent.Session, error) {
	return w.steer(ctx, id)
}

func (w *world) Files(_ context.Context, id string) ([]agent.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []agent.FileInfo
	for _, f := range w.files[id] {
		out = append(out, f.info)
	}
	return out, nil
}

func (w *world) ReadFile(_ context.Context, id, path string) ([]byte, agent.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.files[id][path]
	if !ok {
		return nil, f.info, fault.New(fault.NotFound, "there is no file %q", path)
	}
	return f.content, f.info, nil
}

func (w *world) WriteFile(_ context.Context, _ agent.Caller, id, path string, content []byte, ifVersion int) (agent.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.files[id][path]
	if ifVersion != 0 && f.info.Version != ifVersion {
		return f.info, fault.New(fault.Conflict, "the file has version %d by now", f.info.Version)
	}
	f.content = content
	f.info = agent.FileInfo{Path: path, Size: int64(len(content)), Version: f.info.Version + 1, Created: time.Now().UTC(), Modified: time.Now().UTC()}
	w.files[id][path] = f
	return f.info, nil
}

func (w *world) DeleteFile(_ context.Context, _ agent.Caller, id, path string, _ bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.files[id][path]; !ok {
		return fault.New(fault.NotFound, "there is no file %q", path)
	}
	delete(w.files[id], path)
	return nil
}

const someID = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"

// options are those of a server over a world.
func options(w *world) httpapi.Options {
	o := others{w}
	return httpapi.Options{
		Version: "test", Gate: w, Lineage: w, Agents: w, Sessions: w, Conversations: w, Turns: w, Files: w, Capabilities: o, Commands: o, Tools: o, Runs: o, Queue: queued{o}, Grants: o, Approvals: o, Audit: o, Policies: o,
		Changes: o, Parts: o, Labels: o,
		Metrics: telemetry.New(), Limits: httpapi.Limits{Heartbeat: 50 * time.Millisecond, Refused: 1e6, Rate: 1e6},
		Log: func(e httpapi.Entry) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.log = append(w.log, e)
		},
	}
}

// server serves a world.
func server(t testing.TB, w *world, change ...func(*httpapi.Options)) *httpapi.Server {
	t.Helper()
	o := options(w)
	for _, c := range change {
		c(&o)
	}
	s, err := httpapi.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask makes a request without a network.
type ask struct {
	method, path, token, body string
	header                    map[string]string
	host                      *string // nil: loopback's
}

func (a ask) of(s http.Handler) *httptest.ResponseRecorder {
	return a.ofContext(context.Background(), s)
}

// ofContext is of with a context: a client leaves when it ends.
func (a ask) ofContext(ctx context.Context, s http.Handler) *httptest.ResponseRecorder {
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r := httptest.NewRequestWithContext(ctx, a.method, "http://127.0.0.1"+a.path, body)
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	if a.host != nil {
		r.Host = *a.host
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// on is the request to a host.
func (a ask) on(host string) ask {
	host = strings.TrimPrefix(host, "http://")
	a.host = &host
	return a
}

func get(path string) ask        { return ask{method: "GET", path: path, token: "admin"} }
func post(path, body string) ask { return ask{method: "POST", path: path, token: "admin", body: body} }
func (a ask) as(token string) ask {
	a.token = token
	return a
}

func (a ask) with(header ...string) ask {
	a.header = map[string]string{}
	for i := 0; i+1 < len(header); i += 2 {
		a.header[header[i]] = header[i+1]
	}
	return a
}

// decoded is an answer's JSON.
func decoded(t testing.TB, rec *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &m); err != nil {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	return m
}

// wantStatus checks a status, and that errors are problems.
func wantStatus(t testing.TB, rec *httptest.ResponseRecorder, want int) map[string]any {
	t.Helper()
	if rec.Code != want {
		t.Fatalf("status %d, want %d: %s", rec.Code, want, rec.Body)
	}
	if want == http.StatusNoContent {
		return nil
	}
	if want >= 400 {
		checkProblem(t, rec)
	}
	return decoded(t, rec)
}

func checkProblem(t testing.TB, rec *httptest.ResponseRecorder) {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("%d with content type %q: %s", rec.Code, ct, rec.Body)
	}
	p := decoded(t, rec)
	code, _ := p["code"].(string)
	if int(p["status"].(float64)) != rec.Code || len(code) != 5 || p["type"] != "urn:remit:"+code || p["title"] == "" || p["instance"] == nil {
		t.Fatalf("the problem is not whole: %s", rec.Body)
	}
}

// agentAndSession makes both.
func agentAndSession(t testing.TB, s http.Handler, token string, host ...string) (agentID, sessionID string) {
	t.Helper()
	host = append(host, "127.0.0.1")
	a := wantStatus(t, post("/v1/agents", `{"name":"a","system_prompt":"p","capabilities":["current_time"]}`).as("admin").on(host[0]).of(s), 201)
	agentID, _ = a["id"].(string)
	made := wantStatus(t, post("/v1/sessions", `{"agent_id":"`+agentID+`"}`).as(token).on(host[0]).of(s), 201)
	sessionID, _ = made["id"].(string)
	return agentID, sessionID
}
