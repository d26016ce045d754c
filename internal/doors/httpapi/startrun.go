package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/record/ledger"
)

// NewRun describes a run that a client starts. It has a plan, a frozen plan or both.
type NewRun struct {
	Plan      string                     `json:"plan,omitempty" doc:"The plan's source, YAML or JSON; missing: that of the frozen plan"`
	Inputs    map[string]json.RawMessage `json:"inputs,omitempty" nullable:"false" doc:"Values of the plan's inputs"`
	Changeset bool                       `json:"changeset,omitempty" doc:"Hold writes until they are applied"`
	Queue     *QueueTerms                `json:"queue,omitempty" doc:"Queue the run instead: it starts when it is its turn, under the authority that the caller's grant has then"`
	CallMode
}

// CallMode narrows the calls of a run besides its policies.
type CallMode struct {
	Planning bool            `json:"planning,omitempty" doc:"Refuse calls with side effects (E6014)"`
	Frozen   json.RawMessage `json:"frozen,omitempty" doc:"A frozen plan, as remit plan freeze writes it: other calls are refused (E6015)"`
	Run      uuid.UUID       `json:"-"` // the ID of the run; zero: a new one
}

// mode is the mode of a session's calls.
func (m CallMode) mode() (agent.Mode, error) {
	out := agent.Mode{Planning: m.Planning}
	if m.Frozen == nil {
		return out, nil
	}
	var err error
	out.Frozen, err = frozen.Parse("frozen", m.Frozen)
	return out, err
}

// underWay has the runs that this server carries out. The zero value has none. It is safe for
// concurrent use.
type underWay struct {
	mu  sync.Mutex
	all map[string]*runUnderWay
}

type runUnderWay struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the run has ended
	err    error         // set before done is closed
}

func (u *underWay) add(id string, r *runUnderWay) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]*runUnderWay{}
	}
	u.all[id] = r
}

func (u *underWay) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
}

func (u *underWay) find(id string) *runUnderWay {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all[id]
}

type runAnswer struct {
	Location string `header:"Location"`
	Body     ledger.Run
}

func (s *Server) startRuns() {
	type start struct {
		asked
		Body NewRun
	}
	route(s, operation{
		id: "startRun", method: http.MethodPost, path: "/v1/runs", tag: "runs", action: "tools.invoke", status: http.StatusAccepted, summary: "Start a run of a plan",
		text: "The run is under the caller's grant, in the service's workspace: each step is decided, recorded and confined as any other call. The response comes when the run is recorded; " +
			"the run goes on if the client leaves. followAudit tells its events. Calls that need approval wait for a person's answer. With queue, the response comes when the queued run is recorded; getQueuedRun has its state.",
		errors: []int{404, 409}, request: map[string]any{"plan": "steps: [{tool: time.now}]"}, answer: exampleRun,
		makesRun: always, recall: s.recallRun,
	}, func(ctx context.Context, in *start) (*runAnswer, error) {
		if in.Body.Run = in.x.run; in.Body.Queue != nil {
			return s.queueRun(ctx, in.who, in.Body)
		}
		id, err := s.startRun(in.who, in.Body)
		if err != nil {
			return nil, err
		}
		r, err := s.o.Runs.Run(ctx, id)
		return &runAnswer{Location: "/v1/runs/" + id, Body: r}, err
	})
	route(s, operation{
		id: "cancelRun", method: http.MethodPost, path: "/v1/runs/{run_id}/cancel", tag: "runs", action: "tools.invoke", summary: "Cancel a run",
		text: "Ends a run that startRun started, and its calls. The response comes when the run has ended.", errors: []int{404, 409}, answer: exampleRun,
	}, func(ctx context.Context, in *runIn) (*struct{ Body ledger.Run }, error) {
		if err := s.cancelRun(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		r, err := s.o.Runs.Run(ctx, in.ID)
		return &struct{ Body ledger.Run }{r}, err
	})
}

// startRun starts a run and returns its ID once it is recorded. The run ends with the server
// and not with the request.
func (s *Server) startRun(who *Caller, q NewRun) (string, error) {
	release, ok := s.running.Take(who.Person)
	if !ok {
		p := bad(http.StatusServiceUnavailable, fault.LimitReached, "too many runs are being carried out", "try again when one has ended")
		p.retry = "5"
		return "", p
	}
	if !s.enterTurn() {
		release()
		p := bad(http.StatusServiceUnavailable, fault.SessionBusy, "the service is stopping", "try again when it is back")
		p.retry = "5"
		return "", p
	}
	ctx, cancel := context.WithCancel(s.work)
	r := &runUnderWay{cancel: cancel, done: make(chan struct{})}
	started := make(chan string, 1)
	go func() {
		defer s.turns.Done()
		defer release()
		defer cancel()
		defer close(r.done)
		id := ""
		r.err = s.o.Runs.Start(ctx, who, q, func(run string) {
			id = run
			s.underWay.add(id, r)
			started <- id
		})
		s.underWay.remove(id)
	}()
	select {
	case id := <-started:
		return id, nil
	case <-r.done:
	}
	select {
	case id := <-started: // the run ended at once
		return id, nil
	default:
		return "", r.err
	}
}

// cancelRun cancels a run and waits until it has ended.
func (s *Server) cancelRun(ctx context.Context, in *asked, id string) error {
	r := s.underWay.find(id)
	found, err := s.run(ctx, in, id)
	switch {
	case err != nil:
		return err
	case found.Status != "running":
		return fault.New(fault.Conflict, "the run has ended: it is %s", found.Status)
	case r == nil:
		return fault.New(fault.Conflict, "another process carries out the run").WithHint("a run that was queued: POST /v1/queue/%s/cancel; else end that process, or revoke the run's grant", id)
	}
	r.cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
