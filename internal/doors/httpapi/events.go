package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/service/callers"
)

func (s *Server) events() {
	type follow struct {
		asked
		SessionPath
		Last string `header:"Last-Event-ID" maxLength:"200" doc:"The ID of the last event that was seen: later ones are sent first"`
	}
	route(s, operation{
		id: "followSession", method: http.MethodGet, path: "/v1/sessions/{session_id}/events", tag: "sessions", action: "sessions.read", stream: true,
		summary: "Follow a session", text: "Server-sent events: the events of the session from now on, or after the one in Last-Event-ID. " +
			"Nothing is left out; pieces of text that are past come as the message that they became. A comment line comes every few seconds; " +
			"`end` says that the service ends the stream: connect again.",
		errors: []int{404}, more: map[int]reply{200: {text: "The session's events", kind: "text/event-stream"}},
	}, func(ctx context.Context, in *follow) (*Streamed, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		release, err := s.seat(ctx, in.who)
		if err != nil {
			return nil, err
		}
		return &Streamed{func(huma.Context) {
			defer release()
			s.follow(ctx, in.x, in.who, func(ctx context.Context, st *stream) error {
				return s.o.Conversations.Events(ctx, in.ID, in.Last, st.send)
			})
		}}, nil
	})
}

// seated marks the context of requests that a stream makes which has a seat already.
type seated struct{}

// Seated marks requests within this process that belong to a stream with a seat, as those of a
// browser's pages: a browser takes one seat.
func Seated(ctx context.Context) context.Context { return context.WithValue(ctx, seated{}, true) }

// seat takes an event stream of the caller's person.
func (s *Server) seat(ctx context.Context, who *Caller) (func(), error) {
	if ctx.Value(seated{}) != nil {
		return func() {}, nil
	}
	release, err := takeSeat(s.seats, who, "too many event streams and waiting requests are open", "close one, or try again later")
	if err != nil {
		return nil, err
	}
	s.met.streams.Add(1)
	return func() {
		release()
		s.met.streams.Add(-1)
	}, nil
}

// takeSeat takes a seat of the caller's person, or refuses the request with a time to try again.
func takeSeat(seats *admission.Seats, who *Caller, detail, hint string) (release func(), err error) {
	release, ok := seats.Take(who.Person)
	if ok {
		return release, nil
	}
	p := bad(http.StatusServiceUnavailable, fault.LimitReached, detail, hint)
	p.retry = "5"
	return nil, p
}

// stream is an open event stream. It is safe for concurrent use.
type stream struct {
	x  *exchange
	rc *http.ResponseController

	mu    sync.Mutex
	begun bool
	err   error
}

// open makes a stream. The response starts with the first event: until then it can be an
// error.
func (s *Server) open(x *exchange) *stream {
	return &stream{x: x, rc: http.NewResponseController(x.ResponseWriter)}
}

// begin starts the response. The caller holds the lock.
func (st *stream) begin() string {
	st.begun = true
	h := st.x.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	st.x.WriteHeader(http.StatusOK)
	return ": remit\nretry: 1000\n\n"
}

// raw writes and flushes. A client that does not read in time is disconnected.
func (st *stream) raw(text []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return st.err
	}
	if !st.begun {
		if _, st.err = st.x.ResponseWriter.Write([]byte(st.begin())); st.err != nil {
			return st.err
		}
	}
	if _, st.err = st.x.ResponseWriter.Write(text); st.err == nil {
		if err := st.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			st.err = err
		}
	}
	return st.err
}

// send writes one event of a session.
func (st *stream) send(e agent.Event) error {
	text, err := appendEvent(nil, e.ID, string(e.Type), e)
	if err != nil {
		return err
	}
	return st.raw(text)
}

// appendEvent appends one event of a stream to a text.
func appendEvent(to []byte, id, kind string, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if id != "" && !strings.ContainsAny(id, "\r\n\x00") {
		to = append(to, "id: "+id+"\n"...)
	}
	to = append(to, "event: "+kind+"\ndata: "...)
	to = append(to, b...) // JSON has no line breaks
	return append(to, "\n\n"...), nil
}

// end tells the client that the stream is over, and why.
func (st *stream) end(why *agent.Problem) {
	_ = st.send(agent.Event{Type: "end", At: time.Now().UTC(), Error: why}) // the client may have gone
}

// follow sends the events that run writes, until the client disconnects.
func (s *Server) follow(ctx context.Context, x *exchange, who *Caller, run func(ctx context.Context, st *stream) error) {
	st := s.open(x)
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	var told sync.Once
	ended := func(why *agent.Problem) { told.Do(func() { st.end(why) }) }
	beats.Go(func() {
		defer cancel()
		s.beat(ctx, st, who, ended)
	})
	err := run(ctx, st)
	gone := ctx.Err() != nil
	cancel()
	beats.Wait()
	begun, failed := st.state()
	switch {
	case err != nil && !gone && !begun: // nothing was sent, so that the response can be an error
		s.fail(x, problem(err))
		return
	case err != nil && !gone && failed == nil:
		p := problem(err)
		ended(&agent.Problem{Code: p.Code, Message: p.Detail, Hint: p.Hint})
	}
	ended(nil)
}

func (st *stream) state() (begun bool, failed error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.begun, st.err
}

// beat keeps a stream open, and ends it when the service stops or the caller's grant is no
// longer valid.
func (s *Server) beat(ctx context.Context, st *stream, who *Caller, ended func(*agent.Problem)) {
	t := time.NewTicker(s.limits.Heartbeat)
	defer t.Stop()
	watched, stop := callers.Watch(ctx, s.o.Gate, who, min(s.limits.Heartbeat, callers.CheckEvery))
	defer stop()
	first := time.NewTimer(quiet)
	defer first.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-first.C:
			if st.raw(nil) != nil {
				return
			}
		case <-s.draining:
			ended(&agent.Problem{Code: fault.SessionBusy.Error(), Message: "the service is stopping", Hint: "connect again when it is back"})
			return
		case <-watched.Done():
			if ctx.Err() == nil {
				ended(turnFailed(context.Cause(watched)))
			}
			return
		case <-t.C:
			if st.raw([]byte(": beat\n\n")) != nil {
				return
			}
		}
	}
}

// quiet is how long a stream waits for its first event before the response starts without
// one.
const quiet = 50 * time.Millisecond

// waitingEvents is how many events wait for a slow client.
const waitingEvents = 512

// streamTurn carries out a turn and sends its events. A client that is too slow is
// disconnected, and the turn goes on.
func (s *Server) streamTurn(x *exchange, by agent.Caller, in agent.Session, text string) (*Streamed, error) {
	release, err := s.seat(x.asked.Context(), x.who)
	if err != nil {
		return nil, err
	}
	queue := make(chan agent.Event, waitingEvents)
	slow := make(chan struct{})
	var once sync.Once
	b, err := s.begin(x, by, in, text, func(e agent.Event) {
		select {
		case queue <- e:
		default:
			if e.Type != agent.TextDelta && e.Type != agent.CallProgress { // the others come again as part of a message
				once.Do(func() { close(slow) })
			}
		}
	})
	if err != nil {
		release()
		return nil, err
	}
	// An error before the first event is a response of its own.
	select {
	case e := <-queue:
		return &Streamed{func(huma.Context) {
			defer release()
			s.sendTurn(x, b, e, queue, slow)
		}}, nil
	case <-b.done:
	}
	select {
	case e := <-queue:
		return &Streamed{func(huma.Context) {
			defer release()
			s.sendTurn(x, b, e, queue, slow)
		}}, nil
	default:
	}
	release()
	if b.err == nil {
		return written(x, http.StatusCreated, turnOf(b.turn), nil)
	}
	return nil, b.err
}

// sendTurn sends a turn's events until it is over.
func (s *Server) sendTurn(x *exchange, b *begun, first agent.Event, queue <-chan agent.Event, slow <-chan struct{}) {
	st := s.open(x)
	beat := time.NewTicker(s.limits.Heartbeat)
	defer beat.Stop()
	watched, stop := callers.Watch(x.asked.Context(), s.o.Gate, x.who, min(s.limits.Heartbeat, callers.CheckEvery))
	defer stop()
	err := st.send(first)
	for err == nil {
		select {
		case e := <-queue:
			err = st.send(e)
			continue
		default:
		}
		select {
		case e := <-queue:
			err = st.send(e)
		case <-beat.C:
			err = st.raw([]byte(": beat\n\n"))
		case <-watched.Done(): // the turn goes on under its own authority
			st.end(turnFailed(context.Cause(watched)))
			return
		case <-slow:
			st.end(&agent.Problem{Code: fault.LimitReached.Error(), Message: "the client reads too slowly", Hint: "follow the session's events instead"})
			return
		case <-b.done:
			if len(queue) > 0 {
				continue
			}
			st.end(turnFailed(b.err))
			return
		}
	}
}

func turnFailed(err error) *agent.Problem {
	if err == nil {
		return nil
	}
	p := problem(err)
	return &agent.Problem{Code: p.Code, Message: p.Detail, Hint: p.Hint}
}
