package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/telemetry"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/tools/model"
)

// Conversations has the messages of sessions and what happens in them.
type Conversations interface {
	// Send adds a message and carries out the turn; on gets its events.
	Send(ctx context.Context, by agent.Caller, id, text string, on func(agent.Event)) (agent.Turn, error)
	// Command has a slash command carried out and adds its result to the session.
	Command(ctx context.Context, by agent.Caller, id string, do agent.Carry) error
	Messages(ctx context.Context, id string, from, limit int) ([]agent.Message, error)
	// MessageCalls gives the recorded tool calls of messages, in order.
	MessageCalls(ctx context.Context, id string, from, to int) ([]agent.MessageCall, error)
	// Events gives on the events after the one with the ID last ("": from now on), until
	// ctx ends.
	Events(ctx context.Context, id, last string, on func(agent.Event) error) error
}

// Turn is the result of a message so far.
type Turn struct {
	Message  agent.Message   `json:"message" doc:"The message that was posted"`
	Messages []agent.Message `json:"messages" doc:"The messages that were added, the posted one first"`
	Reply    string          `json:"reply,omitempty" doc:"The text of the last answer"`
	Session  *agent.Session  `json:"session,omitempty" doc:"The session after the turn"`
	Status   string          `json:"status,omitempty" doc:"Set while the turn goes on: working, or waiting for a person's answer"`
	Approval string          `json:"approval_id,omitempty" doc:"The ID of the question that it waits for"`
	Queued   *QueuedRun      `json:"queued,omitempty" doc:"The run of a queued message. The message has no number yet"`
}

// QueuedRun is a run that waits in the queue, or has.
type QueuedRun = store.QueuedRun

// MessageList is a page of messages, in order.
type MessageList struct {
	Items []agent.Message `json:"items"`
	Next  string          `json:"next,omitempty"`
}

// Streamed is a response that writes itself.
type Streamed struct {
	Body func(huma.Context)
}

var exampleMessage = map[string]any{"number": 1, "created_at": "2026-11-21T12:00:00Z", "role": "user", "content": "What time is it?"}

func (s *Server) messages() {
	type list struct {
		asked
		SessionPath
		Page
		From int `query:"from" minimum:"1" maximum:"10000000" default:"1" doc:"Number of the first message; not with a cursor"`
	}
	route(s, operation{
		id: "listMessages", method: http.MethodGet, path: "/v1/sessions/{session_id}/messages", tag: "sessions", action: "sessions.read",
		summary: "List messages", text: "In the order of the conversation.", errors: []int{404}, answer: map[string]any{"items": []any{exampleMessage}},
	}, func(ctx context.Context, in *list) (*struct{ Body MessageList }, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		from, err := in.number("messages")
		if err != nil {
			return nil, err
		}
		all, err := s.o.Conversations.Messages(ctx, in.ID, max(in.From, int(from)), in.Limit+1)
		out := MessageList{Items: []agent.Message{}}
		for i, m := range all {
			if i == in.Limit {
				out.Next = cursor("messages", strconv.Itoa(m.Number))
				break
			}
			out.Items = append(out.Items, m)
		}
		return &struct{ Body MessageList }{out}, err
	})
	s.messageCalls()
	s.postMessage()
}

// maxCallRange is how many messages the calls are listed of at once.
const maxCallRange = 500

// MessageCallList has the tool calls of some messages.
type MessageCallList struct {
	Items []agent.MessageCall `json:"items"`
}

func (s *Server) messageCalls() {
	type list struct {
		asked
		SessionPath
		From int `query:"from" minimum:"1" maximum:"10000000" required:"true" doc:"Number of the first message"`
		To   int `query:"to" minimum:"1" maximum:"10000000" required:"true" doc:"Number of the last message; at most 499 more than from"`
	}
	route(s, operation{
		id: "listMessageCalls", method: http.MethodGet, path: "/v1/sessions/{session_id}/calls", tag: "sessions", action: "sessions.read",
		summary: "List the tool calls of messages", text: "In order, each with its run, its place there, the decision and the time that it took.", errors: []int{404},
		answer: map[string]any{"items": []any{map[string]any{"message": 2, "tool_call_id": "call_1", "run_id": sampleSession, "index": 2, "tool": "time.now", "status": "completed", "effect": "allow", "rule": "tools.allow[0]", "duration_ms": 1.2}}},
	}, func(ctx context.Context, in *list) (*struct{ Body MessageCallList }, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		if in.To < in.From || in.To-in.From >= maxCallRange {
			return nil, fault.New(fault.ArgsInvalid, "%d is not a number from %d to %d", in.To, in.From, in.From+maxCallRange-1).In("query.to")
		}
		items, err := s.o.Conversations.MessageCalls(ctx, in.ID, in.From, in.To)
		return &struct{ Body MessageCallList }{MessageCallList{items}}, err
	})
}

func (s *Server) postMessage() {
	type post struct {
		asked
		SessionPath
		Prefer string `header:"Prefer" maxLength:"200" doc:"respond-async: the response comes at once, and the turn goes on"`
		Body   struct {
			Content string      `json:"content" minLength:"1" maxLength:"1000000" example:"What time is it?"`
			Queue   *QueueTerms `json:"queue,omitempty" doc:"Queue the message instead: the turn begins when it is its turn, under the authority that the caller's grant has then"`
		} `nameHint:"NewMessage"`
	}
	route(s, operation{
		id: "postMessage", method: http.MethodPost, path: "/v1/sessions/{session_id}/messages", tag: "sessions", action: "sessions.write", stream: true,
		several: true, makesRun: queues,
		status: http.StatusCreated, summary: "Send a message",
		text: "Adds a message and carries out the turn. The response comes when the turn is over (201), or when it waits for a person's answer (202). " +
			"With `Prefer: respond-async` it comes at once (202). With `Accept: text/event-stream` the turn is told as it goes on; a client that is cut off " +
			"goes on with the session's events. The turn goes on if the client leaves. With `queue` the message waits in the queue (202), where GET /v1/queue/{run_id} follows it.",
		errors:  []int{404, 409, 502, 504, 507},
		request: map[string]any{"content": "What time is it?"},
		answer:  map[string]any{"message": exampleMessage, "messages": []any{exampleMessage}, "reply": "Noon."},
		more: map[int]reply{201: {text: "The turn is over", body: Turn{}}, 202: {text: "The turn goes on", body: Turn{}},
			200: {text: "The turn as it goes on", kind: "text/event-stream"}},
	}, func(ctx context.Context, in *post) (*Streamed, error) {
		found, err := s.session(ctx, &in.asked, in.ID)
		if err != nil {
			return nil, err
		}
		switch {
		case in.Body.Queue != nil:
			return s.queueMessage(ctx, in.x, in.who, found, in.Body.Content, in.Body.Queue)
		case wantsStream(in.r):
			return s.streamTurn(in.x, in.agentCaller(), found, in.Body.Content)
		case prefersAsync(in.Prefer):
			return s.startTurn(in.x, in.agentCaller(), found, in.Body.Content)
		}
		return s.turn(ctx, in.x, in.agentCaller(), found, in.Body.Content)
	})
}

// queueMessage queues a message.
func (s *Server) queueMessage(ctx context.Context, x *exchange, who *Caller, in agent.Session, text string, q *QueueTerms) (*Streamed, error) {
	if s.o.Queue == nil {
		return nil, fault.New(fault.Conflict, "this service has no queue")
	}
	run, _, err := s.o.Queue.SubmitMessage(ctx, queue.Message{ID: x.run, Grant: who.Presented(), Session: in.ID, Name: "message", Text: text, Options: q.options()})
	if err != nil {
		return nil, whenFull(err)
	}
	x.Header().Set("Location", "/v1/queue/"+run.ID.String())
	m := agent.Message{Role: model.User, Text: text}
	return written(x, http.StatusAccepted, Turn{Message: m, Messages: []agent.Message{}, Status: run.Status, Queued: &run}, nil)
}

func wantsStream(r *http.Request) bool {
	for _, h := range r.Header.Values("Accept") {
		if strings.Contains(strings.ToLower(h), "text/event-stream") {
			return true
		}
	}
	return false
}

func prefersAsync(prefer string) bool {
	for p := range strings.SplitSeq(prefer, ",") {
		if strings.EqualFold(strings.TrimSpace(p), "respond-async") {
			return true
		}
	}
	return false
}

// written makes a response in JSON with a status.
func written(x *exchange, status int, v any, err error) (*Streamed, error) {
	if err != nil {
		return nil, err
	}
	return &Streamed{func(huma.Context) {
		x.Header().Set("Content-Type", "application/json")
		x.WriteHeader(status)
		_ = encode(x, v) // the client may have gone
	}}, nil
}

// begun is a turn under way.
type begun struct {
	done chan struct{} // closed when it is over
	turn agent.Turn
	err  error
}

// begin starts a turn. It ends with the server and not with the request: a client that was
// disconnected finds the answer in the session.
func (s *Server) begin(x *exchange, by agent.Caller, in agent.Session, text string, on func(agent.Event)) (*begun, error) {
	if !s.enterTurn() {
		p := bad(http.StatusServiceUnavailable, fault.SessionBusy, "the service is stopping", "try again when it is back")
		p.retry = "5"
		x.untouched = true
		return nil, p
	}
	b := &begun{done: make(chan struct{})}
	span := s.o.Tracer.Start(x.span, "invoke_agent", telemetry.Internal,
		telemetry.Attr{Key: "gen_ai.operation.name", Value: "invoke_agent"}, telemetry.Attr{Key: "gen_ai.agent.id", Value: in.Agent.String()},
		telemetry.Attr{Key: "gen_ai.conversation.id", Value: in.ID.String()})
	go func() {
		defer s.turns.Done()
		defer close(b.done)
		s.met.working.Add(1)
		defer s.met.working.Add(-1)
		leave := s.o.Spans.Enter(in.ID.String(), span)
		defer leave()
		began := time.Now()
		b.turn, b.err = s.o.Conversations.Send(s.work, by, in.ID.String(), text, on)
		s.met.turn(b, time.Since(began))
		if b.err != nil {
			span.Fail(fault.CodeOf(b.err).Error())
		}
		span.Set(telemetry.Attr{Key: "gen_ai.usage.input_tokens", Value: b.turn.Session.Usage.Input - in.Usage.Input},
			telemetry.Attr{Key: "gen_ai.usage.output_tokens", Value: b.turn.Session.Usage.Output - in.Usage.Output})
		span.End()
	}()
	return b, nil
}

// enterTurn counts a turn, for Drain to wait for, unless the service is stopping.
func (s *Server) enterTurn() bool {
	s.entering.Lock()
	defer s.entering.Unlock()
	select {
	case <-s.draining:
		return false
	default:
	}
	s.turns.Add(1)
	return true
}

// startTurn responds when the message is recorded. The turn goes on.
func (s *Server) startTurn(x *exchange, by agent.Caller, in agent.Session, text string) (*Streamed, error) {
	kept := make(chan agent.Message, 1)
	b, err := s.begin(x, by, in, text, func(e agent.Event) {
		if e.Type != agent.MessageAdded || e.Message == nil {
			return
		}
		select {
		case kept <- *e.Message:
		default: // the first event is enough
		}
	})
	if err != nil {
		return nil, err
	}
	var m agent.Message
	select {
	case m = <-kept:
	case <-b.done:
		select {
		case m = <-kept:
		default:
			if b.err != nil || len(b.turn.Messages) == 0 {
				x.untouched = notAdded(b.err)
				return nil, b.err
			}
			m = b.turn.Messages[0]
		}
	}
	x.Header().Set("Preference-Applied", "respond-async")
	return written(x, http.StatusAccepted, Turn{Message: m, Messages: []agent.Message{m}, Status: string(agent.Working)}, nil)
}

// turn waits until a turn is over, or waits for a person.
func (s *Server) turn(ctx context.Context, x *exchange, by agent.Caller, in agent.Session, text string) (*Streamed, error) {
	var mu sync.Mutex
	var so Turn
	held := make(chan struct{}, 1)
	b, err := s.begin(x, by, in, text, func(e agent.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.Type == agent.MessageAdded && e.Message != nil:
			so.Messages = append(so.Messages, *e.Message)
			return
		case e.Type == agent.ApprovalDue:
			so.Status, so.Approval = string(agent.Waiting), e.Question
		case e.Type == agent.StateChanged && e.State == agent.Paused: // that it waits is told before the question is
			so.Status = string(e.State)
		default:
			return
		}
		select {
		case held <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(s.limits.Turn)
	defer t.Stop()
	select {
	case <-b.done:
		if b.err != nil {
			mu.Lock()
			defer mu.Unlock()
			x.untouched = len(so.Messages) == 0 && notAdded(b.err)
			return nil, b.err
		}
		return written(x, http.StatusCreated, turnOf(b.turn), nil)
	case <-held:
	case <-t.C:
	case <-ctx.Done(): // the client has gone
		if x.tee != nil { // a repeated request needs the response
			<-b.done
			return written(x, http.StatusCreated, turnOf(b.turn), b.err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if so.Status == "" {
		so.Status = string(agent.Working)
	}
	if len(so.Messages) > 0 {
		so.Message = so.Messages[0]
	}
	return written(x, http.StatusAccepted, so, nil)
}

// notAdded reports whether a turn that added no message ended before it could: not because the
// record failed, which may have taken the message.
func notAdded(err error) bool { return err != nil && !inside(fault.CodeOf(err)) }

func turnOf(t agent.Turn) Turn {
	out := Turn{Messages: append([]agent.Message{}, t.Messages...), Reply: t.Reply, Session: &t.Session}
	if len(out.Messages) > 0 {
		out.Message = out.Messages[0]
	}
	return out
}
