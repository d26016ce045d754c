package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/record/ledger"
)

// NewRun describes a run that a client starts. It has a plan, a frozen plan or both, or it is open:
// the client adds its calls.
type NewRun struct {
	Plan      string                     `json:"plan,omitempty" doc:"The plan's source, YAML or JSON; missing: that of the frozen plan, or with neither the run is open"`
	Name      string                     `json:"name,omitempty" maxLength:"100" doc:"The name of an open run; a plan has its own"`
	Inputs    map[string]json.RawMessage `json:"inputs,omitempty" nullable:"false" doc:"Values of the plan's inputs"`
	Changeset bool                       `json:"changeset,omitempty" doc:"Hold writes until they are applied"`
	Queue     *QueueTerms                `json:"queue,omitempty" doc:"Queue the run instead: it starts when it is its turn, under the authority that the caller's grant has then"`
	CallMode
}

// CallMode narrows the calls of a run besides its policies.
type CallMode struct {
	Planning bool            `json:"planning,omitempty" doc:"Refuse calls with side effects (E6014)"`
	Frozen   json.RawMessage `json:"frozen,omitempty" doc:"A frozen plan, as remit plan freeze writes it: other calls are refused (E6015)"`
	Run      uuid.UUID       `json:"-"` // the ID that the run gets; zero: a new one
	In       uuid.UUID       `json:"-"` // the open run to which the call is added; zero: none
	AnswerBy time.Time       `json:"-"` // the deadline for a person's answer; zero: the call does not wait
	// Pause is called when the call starts to wait for an answer; resume, before an approved call goes on.
	Pause func() (resume func(context.Context) error) `json:"-"`
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
	Status   int
	Location string `header:"Location"`
	Body     ledger.Run
}

// open reports whether the run has no plan.
func (q *NewRun) open() bool { return q.Plan == "" && q.Frozen == nil && q.Queue == nil }

// check refuses fields that do not fit the kind of run.
func (q *NewRun) check() error {
	switch {
	case q.open() && len(q.Inputs) > 0:
		return fault.New(fault.ArgsInvalid, "a run without a plan has no inputs").In("body.inputs").WithHint("send plan, frozen or both; or leave out inputs")
	case !q.open() && q.Name != "":
		return fault.New(fault.ArgsInvalid, "name can be set only for a run without a plan").In("body.name").WithHint("write name in the plan")
	}
	return nil
}

func (s *Server) startRuns() {
	type start struct {
		asked
		Body NewRun
	}
	route(s, operation{
		id: "startRun", method: http.MethodPost, path: "/v1/runs", tag: "runs", action: "tools.invoke", status: http.StatusAccepted, summary: "Start a run of a plan, or open a run",
		text: "With plan or frozen: the run is under the caller's grant, in the service's workspace: each step is decided, recorded and confined as any other call. The response comes when the run is recorded; " +
			"the run goes on if the client leaves. followAudit tells its events. Calls that need approval wait for a person's answer. With queue, the response comes when the queued run is recorded; getQueuedRun has its state. " +
			"Without plan, frozen and queue: the run is open (201). invokeTool with its run_id adds calls, which share its limits, the labels of its data and its record, until finishRun or cancelRun ends it. " +
			"It also ends with the grant that opened it, and after ten minutes without a call (limits.open_run_idle).",
		errors: []int{404, 409}, request: map[string]any{"plan": "steps: [{tool: time.now}]"}, answer: exampleRun,
		makesRun: always, recall: s.recallRun, more: map[int]reply{http.StatusCreated: {text: "The run is open", body: ledger.Run{}}},
	}, func(ctx context.Context, in *start) (*runAnswer, error) {
		if err := in.Body.check(); err != nil {
			return nil, err
		}
		if in.Body.Run = in.x.run; in.Body.Queue != nil {
			return s.queueRun(ctx, in.who, in.Body)
		}
		status, begin := http.StatusAccepted, s.startRun
		if in.Body.open() {
			status, begin = http.StatusCreated, s.openRun
		}
		id, err := begin(ctx, in.who, in.Body)
		if err != nil {
			return nil, err
		}
		r, err := s.o.Runs.Run(ctx, id)
		return &runAnswer{Status: status, Location: "/v1/runs/" + id, Body: r}, err
	})
	s.endRuns()
}

func (s *Server) endRuns() {
	route(s, operation{
		id: "finishRun", method: http.MethodPost, path: "/v1/runs/{run_id}/finish", tag: "runs", action: "tools.invoke", summary: "Finish an open run",
		text: "The run takes no further calls. The response comes when its calls have ended and its end is recorded: it is denied if a call was, else failed if one did not complete, else completed.", errors: []int{404, 409}, answer: exampleRun,
	}, func(ctx context.Context, in *runIn) (*struct{ Body ledger.Run }, error) {
		if err := s.endRun(ctx, &in.asked, in.ID, false); err != nil {
			return nil, err
		}
		r, err := s.o.Runs.Run(ctx, in.ID)
		return &struct{ Body ledger.Run }{r}, err
	})
	route(s, operation{
		id: "cancelRun", method: http.MethodPost, path: "/v1/runs/{run_id}/cancel", tag: "runs", action: "tools.invoke", summary: "Cancel a run",
		text: "Ends a run that startRun started or opened, and its calls. The response comes when the run has ended.", errors: []int{404, 409}, answer: exampleRun,
	}, func(ctx context.Context, in *runIn) (*struct{ Body ledger.Run }, error) {
		if err := s.endRun(ctx, &in.asked, in.ID, true); err != nil {
			return nil, err
		}
		r, err := s.o.Runs.Run(ctx, in.ID)
		return &struct{ Body ledger.Run }{r}, err
	})
}

// startRun starts a run and returns its ID once it is recorded. The run ends with the server
// and not with the request.
func (s *Server) startRun(_ context.Context, who *Caller, q NewRun) (string, error) {
	release, err := takeSeat(s.running, who, "too many runs are being carried out", "try again when one has ended")
	if err != nil {
		return "", err
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

// openRun opens a run and returns its ID.
func (s *Server) openRun(ctx context.Context, who *Caller, q NewRun) (string, error) {
	release, err := takeSeat(s.opened, who, "too many runs are open", "finish one, or try again later")
	if err != nil {
		return "", err
	}
	id, err := s.o.Runs.Open(ctx, who, q, release)
	if err != nil {
		release()
	}
	return id, err
}

// openFor finds an open run to which the caller adds a call.
func (s *Server) openFor(ctx context.Context, in *asked, id string, mode CallMode) (uuid.UUID, error) {
	if mode.Planning || mode.Frozen != nil {
		return uuid.Nil, fault.New(fault.ArgsInvalid, "planning and frozen cannot be set together with run_id").In("body").WithHint("give planning when the run is opened, or leave out run_id")
	}
	found, err := s.run(ctx, in, id)
	if err != nil {
		return uuid.Nil, err
	}
	if err := checkRunning(found); err != nil {
		return uuid.Nil, err.WithHint("open another run: POST /v1/runs without a plan")
	}
	return found.ID, nil
}

// checkRunning refuses to change a run that has ended.
func checkRunning(r ledger.Run) *fault.Error {
	if r.Status == ledger.Running {
		return nil
	}
	return fault.New(fault.Conflict, "the run has ended: it is %s", r.Status).WithHint("GET /v1/runs/%s has its result", r.ID)
}

// endRun ends a run and waits until it has ended. Only cancel ends the run of a plan.
func (s *Server) endRun(ctx context.Context, in *asked, id string, cancel bool) error {
	r := s.underWay.find(id)
	found, err := s.run(ctx, in, id)
	if err != nil {
		return err
	}
	if err := checkRunning(found); err != nil {
		return err
	}
	if open, err := s.o.Runs.End(ctx, found.ID, cancel); open || err != nil {
		return err
	}
	if r == nil {
		found, err = s.o.Runs.Run(ctx, id) // it may have ended meanwhile
		if ended := checkRunning(found); err == nil && ended != nil {
			err = ended
		}
	}
	switch {
	case err != nil:
		return err
	case r == nil:
		return fault.New(fault.Conflict, "another process carries out the run").WithHint("a run that was queued: POST /v1/queue/%s/cancel; else end that process, or revoke the run's grant", id)
	case !cancel:
		return fault.New(fault.Conflict, "the run carries out a plan, and ends with it").WithHint("POST /v1/runs/%s/cancel ends it before", id)
	}
	r.cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
