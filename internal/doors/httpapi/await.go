package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/history"
)

// place is a request's place within limits.requests. It is safe for concurrent use.
type place struct {
	mu      sync.Mutex
	release func() // nil: the request has no place
	ended   bool
}

// free makes the place available to other requests.
func (p *place) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release != nil {
		p.release()
	}
	p.release = nil
}

// end frees the place for good.
func (p *place) end() {
	p.free()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// retake takes a place with take, unless the request has one or has ended. It returns false if none
// is free.
func (p *place) retake(take func() (release func(), ok bool)) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release != nil || p.ended {
		return true
	}
	p.release, ok = take()
	return ok
}

// retakeEvery is the polling interval for a free place.
const retakeEvery = 10 * time.Millisecond

// returnToPlace waits until the request has a place again, so that it goes on within the limit.
func (s *Server) returnToPlace(ctx context.Context, x *exchange) error {
	t := time.NewTicker(retakeEvery)
	defer t.Stop()
	for !x.place.retake(func() (func(), bool) { return s.places.Take(x.who.Person) }) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
	return nil
}

// moveToStreams takes a stream seat and frees the request's place.
func (s *Server) moveToStreams(ctx context.Context, x *exchange) (release func(), err error) {
	release, err = s.seat(ctx, x.who)
	if err == nil {
		x.place.free()
	}
	return release, err
}

func (s *Server) getApproval() {
	type one struct {
		asked
		ApprovalPath
		Wait int `query:"wait" minimum:"0" maximum:"600" doc:"Seconds to wait until the question is answered or closed"`
	}
	route(s, operation{
		id: "getApproval", method: http.MethodGet, path: "/v1/approvals/{approval_id}", tag: "approvals", action: "approvals.read", summary: "Get a question",
		text:   "With wait, the response comes once the question is answered or closed, or after that time: look at state. It also comes when the service stops.",
		errors: []int{404}, answer: exampleApproval,
	}, func(ctx context.Context, in *one) (*struct{ Body store.Approval }, error) {
		q, err := s.question(ctx, &in.asked, in.ID)
		if err == nil && in.Wait > 0 && q.State == store.Waiting {
			q, err = s.awaitAnswer(ctx, &in.asked, q, time.Duration(in.Wait)*time.Second)
		}
		return &struct{ Body store.Approval }{q}, err
	})
}

// lookEvery is the polling interval for questions without an event.
const lookEvery = 2 * time.Second

// awaitAnswer waits until a question is answered or closed, at most for a time, while the caller may
// see it.
func (s *Server) awaitAnswer(ctx context.Context, in *asked, q store.Approval, most time.Duration) (store.Approval, error) {
	release, err := s.moveToStreams(ctx, in.x)
	if err != nil {
		return q, err
	}
	defer release()
	ctx, refuse := callers.Watch(ctx, s.o.Gate, in.who, callers.CheckEvery)
	defer refuse()
	over := time.NewTimer(most)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	changed, stop := s.watchQuestion(ctx, q.ID.String())
	defer stop()
	for {
		select {
		case <-ctx.Done():
			if why := context.Cause(ctx); fault.CodeOf(why) != fault.Internal {
				return q, unauthenticated(why)
			}
			return q, nil // the client has left
		case <-over.C:
			return q, nil
		case <-s.draining:
			return q, nil
		case <-changed:
		case <-look.C:
		}
		now, err := s.question(ctx, in, q.ID.String())
		if ctx.Err() != nil || fault.Passing(err) {
			continue
		}
		if q = now; err != nil || q.State != store.Waiting {
			return q, err
		}
	}
}

// watchQuestion signals each event of a question, until stop is called.
func (s *Server) watchQuestion(ctx context.Context, id string) (changed <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		if s.o.Audit == nil {
			return
		}
		_ = s.o.Audit.Follow(ctx, nil, func(b *history.Batch) error { // the question is read again at an interval, too
			if slices.ContainsFunc(b.Events, func(e history.AuditEvent) bool { return e.Approval == id }) {
				select {
				case ch <- struct{}{}:
				default: // told already
				}
			}
			return nil
		})
	}()
	return ch, func() { cancel(); <-done }
}
