package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store"
)

// Values of Problem.Outcome.
const (
	outcomeUnknown = "unknown"
	inProgress     = "in_progress"
)

func otherRequest() *Problem {
	return bad(http.StatusUnprocessableEntity, fault.Conflict, "this Idempotency-Key was used for another request", "use a new key for a new request")
}

// placeOf notes where what a request makes will be, for a repeated one. The ID of a run is chosen
// before it begins.
func (s *Server) placeOf(x *exchange, r *http.Request, body []byte, k *store.RequestRecord) *Problem {
	if x.op.makesRun != nil && x.op.makesRun(body) {
		id, err := uuid.NewV7()
		if err != nil {
			return problem(fault.Wrap(fault.Internal, err, "no random numbers"))
		}
		x.run, k.Place = id, store.RunPlace+id.String()
		return nil
	}
	if x.op.addsTo != nil {
		if run := x.op.addsTo(body); run != uuid.Nil {
			k.Place = store.RunPlace + run.String() + callsPlace
		}
		return nil
	}
	if x.op.stream { // the messages of a session
		k.Place = r.URL.EscapedPath()
	}
	return nil
}

// queues reports whether the body of a request queues what it starts.
func queues(body []byte) bool {
	var b struct {
		Queue json.RawMessage `json:"queue"`
	}
	return json.Unmarshal(body, &b) == nil && b.Queue != nil
}

func always([]byte) bool { return true }

// openRunOf is the open run to which the body of a request adds a call; uuid.Nil if the call gets its
// own run.
func openRunOf(body []byte) uuid.UUID {
	var b struct {
		Run uuid.UUID `json:"run_id"`
	}
	if json.Unmarshal(body, &b) != nil {
		return uuid.Nil
	}
	return b.Run
}

func makesOwnRun(body []byte) bool { return openRunOf(body) == uuid.Nil }

// callsPlace is the path suffix of a run's calls. A Place without an index means that the index is not
// known yet.
const callsPlace = "/calls"

// parsePlace returns the run and call of a recorded Place: uuid.Nil if it is not a run, call 0 if the
// index is unknown.
func parsePlace(place string) (run uuid.UUID, call int) {
	rest, ok := strings.CutPrefix(place, store.RunPlace)
	id, index, inRun := strings.Cut(rest, callsPlace)
	if !ok || !inRun {
		run, _ = uuid.Parse(path.Base(place))
		return run, 1
	}
	run, _ = uuid.Parse(id)
	call, _ = strconv.Atoi(strings.TrimPrefix(index, "/"))
	return run, call
}

// record carries out a request with a key that is new to this process.
func (s *Server) record(x *exchange, r *http.Request, key string, rec *recording, k store.RequestRecord, do func()) {
	keep := false
	defer func() { s.again.end(key, rec, keep) }()
	if s.o.Requests != nil {
		was, state, err := s.o.Requests.BeginRequest(r.Context(), k)
		if err != nil || state != store.RequestClaimed {
			s.repeated(x, r, k, was, state, err)
			return
		}
		k.Owner = was.Owner
	}
	x.tee = rec
	defer func() {
		if x.status == 0 { // it panicked
			s.settle(r.Context(), x, k, http.StatusInternalServerError)
		}
	}()
	do()
	status := x.status
	if x.nothingDone() {
		status = 0
	}
	s.settle(r.Context(), x, k, status)
	failed := store.RequestRecord{Status: status}.Failed()
	if keep = status != 0 && !rec.large && (!failed || s.o.Requests == nil); !keep {
		return
	}
	rec.status, rec.header = x.status, http.Header{}
	for _, name := range []string{"Content-Type", "Etag", "Location", "Preference-Applied"} {
		if v := x.Header().Values(name); len(v) > 0 {
			rec.header[name] = v
		}
	}
}

// nothingDone reports whether a request was refused before it had an effect, and may be accepted
// later: a limit was reached, or a person must answer first.
func (x *exchange) nothingDone() bool {
	if x.untouched || x.status == 0 {
		return true
	}
	later := x.status == http.StatusTooManyRequests || x.failed != nil && x.failed.Code == fault.NeedsApproval.Error()
	return later && !x.op.several
}

// settle records how a request was answered. If that fails, the key stays used: refusing a
// request is better than carrying it out twice. It is tried again until the service stops.
func (s *Server) settle(ctx context.Context, x *exchange, k store.RequestRecord, status int) {
	if s.o.Requests == nil {
		return
	}
	k.Status, k.Place = status, cmp.Or(x.Header().Get("Location"), k.Place)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer stop()
	if x.unsettled = s.o.Requests.EndRequest(ctx, k); x.unsettled != nil {
		s.late.add(s, k)
	}
}

// settleWithin is the time for recording the response to a request.
const settleWithin = 10 * time.Second

// late has the answers that could not be recorded yet.
type late struct {
	mu      sync.Mutex
	all     []store.RequestRecord
	working bool
	tasks   sync.WaitGroup
}

const (
	maxLate   = 4096
	lateEvery = time.Second
)

func (l *late) add(s *Server, k store.RequestRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) >= maxLate { // the key stays used
		return
	}
	if l.all = append(l.all, k); !l.working {
		l.working = true
		l.tasks.Go(func() { l.work(s) })
	}
}

// work records the answers once that is possible. It ends when none is left, or with the service.
func (l *late) work(s *Server) {
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.draining:
			return
		case <-tick.C:
		}
		l.mu.Lock()
		k := l.all[0]
		l.mu.Unlock()
		ctx, stop := context.WithTimeout(s.work, settleWithin)
		err := s.o.Requests.EndRequest(ctx, k)
		stop()
		if err != nil {
			continue
		}
		l.mu.Lock()
		l.all = l.all[1:]
		l.working = len(l.all) > 0
		over := !l.working
		l.mu.Unlock()
		if over {
			return
		}
		tick.Reset(time.Millisecond) // the next one at once
	}
}

// repeated answers a request whose key was used before, from the record.
func (s *Server) repeated(x *exchange, r *http.Request, k, was store.RequestRecord, state store.RequestState, err error) {
	switch {
	case err != nil:
		s.fail(x, problem(err))
		return
	case was.Print != k.Print:
		s.fail(x, otherRequest())
		return
	case state == store.RequestUnderWay:
		s.fail(x, underWayElsewhere(was))
		return
	}
	if was.Place != "" {
		x.Header().Set("Location", was.Place)
	}
	id, call := parsePlace(was.Place)
	if x.op.recall != nil && id != uuid.Nil && call > 0 {
		s.recalled(x, was, id, func() (any, error) { return x.op.recall(r.Context(), id.String(), call) })
		return
	}
	if state == store.RequestBegun || was.Failed() {
		s.fail(x, unknownOutcome(was))
		return
	}
	hint := "look at the present state, and use a new key for a new request"
	if at := x.Header().Get("Location"); at != "" {
		hint = "its result is at " + at
	}
	s.fail(x, bad(http.StatusConflict, fault.Conflict,
		fmt.Sprintf("the request with this Idempotency-Key was made, and answered with %d; the answer is not kept any more", was.Status), hint))
}

// underWayElsewhere refuses a request that another process carries out at the moment.
func underWayElsewhere(was store.RequestRecord) *Problem {
	p := bad(http.StatusConflict, fault.Conflict, "the first request with this Idempotency-Key is still being carried out", "repeat it with the same key in a second")
	p.Outcome, p.retry = inProgress, "1"
	p.Run = runAt(was.Place)
	return p
}

// runAt is the run at a place, for a problem; "": none.
func runAt(place string) string {
	if run, _ := parsePlace(place); run != uuid.Nil && strings.HasPrefix(place, store.RunPlace) {
		return run.String()
	}
	return ""
}

// unknownOutcome refuses a request whose first attempt may have had effects.
func unknownOutcome(was store.RequestRecord) *Problem {
	p := bad(http.StatusConflict, fault.Interrupted, "the outcome of the first request with this Idempotency-Key is unknown: it may have had effects",
		"look at "+cmp.Or(was.Place, "the present state")+", and use a new key for a new request")
	p.Outcome, p.Run = outcomeUnknown, runAt(was.Place)
	return p
}

// recalled answers with the result of a recorded run.
func (s *Server) recalled(x *exchange, was store.RequestRecord, id uuid.UUID, recall func() (any, error)) {
	body, err := recall()
	var own *Problem
	switch {
	case errors.Is(err, fault.RunUnknown):
		s.fail(x, unknownOutcome(was))
		return
	case errors.As(err, &own) && own.Code == fault.Interrupted.Error():
		p := unknownOutcome(was)
		p.Run, p.Call, p.retry = id.String(), own.Call, own.retry
		p.Hint = fmt.Sprintf("look at what the call changed, then record it: remit settle %s %d --happened (or --not-happened)", p.Run, p.Call)
		s.fail(x, p)
		return
	case err != nil:
		x.Header().Set("Idempotency-Replayed", "true")
		s.fail(x, problem(err))
		return
	}
	h := x.Header()
	h.Set("Idempotency-Replayed", "true")
	h.Set("Content-Type", "application/json")
	status := cmp.Or(x.op.status, http.StatusOK)
	if a, ok := body.(*runAnswer); ok {
		status, body = a.Status, a.Body
	}
	x.WriteHeader(status)
	_ = encode(x, body) // the client may have gone
}

// outlives gives a context that ends with the server and not with the request, if the client can
// repeat the request to get its answer.
func (s *Server) outlives(ctx context.Context, x *exchange) (context.Context, context.CancelFunc) {
	if x.tee == nil {
		return ctx, func() {}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := context.AfterFunc(s.work, stop)
	return ctx, func() {
		ended()
		stop()
	}
}

// recallCall gives the answer to invokeTool from the record of its run.
func (s *Server) recallCall(ctx context.Context, run string, call int) (any, error) {
	out, _, err := s.recordedCall(ctx, run, call)
	return out, err
}

// recallCommand gives the answer to runCommand from the record of its run.
func (s *Server) recallCommand(ctx context.Context, run string, call int) (any, error) {
	out, name, err := s.recordedCall(ctx, run, call)
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "/"), " ")
	return CommandResult{Command: name, Call: &out}, err
}

// recordedCall reads a call of a run, and the run's name.
func (s *Server) recordedCall(ctx context.Context, run string, call int) (Invocation, string, error) {
	got, err := s.o.Audit.Result(ctx, run, call)
	if err != nil {
		return Invocation{}, "", err
	}
	c := got.Call
	out := Invocation{Run: run, Call: c.Index, Tool: string(c.Tool), Status: c.Status.String(), Rule: c.Rule, Output: got.Output,
		Duration: float64(c.Duration.Microseconds()) / 1000, At: c.Created.UTC()}
	switch {
	case c.Status == tool.Pending || c.Status == tool.StatusInterrupted:
		p := bad(http.StatusConflict, fault.Interrupted, "the outcome of the call is unknown", "")
		p.Call = c.Index
		if c.Status == tool.Pending { // it may become known
			p.retry = "5"
		}
		return out, got.Run.Name, p
	case c.Status == tool.StatusDenied || slices.Contains(refusals, c.Code):
		return out, got.Run.Name, Refusal(fault.New(c.Code, "%s", got.Error), run, c.Index, c.Rule, "")
	case c.Code != 0:
		out.Error = &agent.Problem{Code: c.Code.Error(), Message: got.Error}
	}
	return out, got.Run.Name, nil
}

// refusals are the codes of calls that failed before the tool was called.
var refusals = []fault.Code{fault.ToolUnknown, fault.ArgsInvalid, fault.ToolDisabled, fault.ToolChanged}

// recallRun gives the answer to startRun from the record of the run, or of the queue.
func (s *Server) recallRun(ctx context.Context, id string, _ int) (any, error) {
	r, err := s.o.Runs.Run(ctx, id)
	if !errors.Is(err, fault.RunUnknown) || s.o.Queue == nil {
		status := http.StatusAccepted
		if r.Plan == (tool.Digest{}) {
			status = http.StatusCreated // it is open, or was
		}
		return &runAnswer{Status: status, Body: r}, err
	}
	q, err := s.o.Queue.Find(ctx, id)
	return &runAnswer{Status: http.StatusAccepted, Body: asRun(q)}, err
}
