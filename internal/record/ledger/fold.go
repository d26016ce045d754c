package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Run is a run as its events tell it.
type Run struct {
	Seq       Seq           `json:"-"`
	ID        uuid.UUID     `json:"run_id" format:"uuid"`
	Name      string        `json:"name"`
	Mode      Mode          `json:"mode" enum:"run,replay"`
	Status    string        `json:"status" doc:"running, or how it ended; of a queued run waiting or scheduled"` // Running until a RunFinished event; then a tool.Status
	Principal string        `json:"principal"`
	Workspace string        `json:"workspace"`
	Owner     uuid.UUID     `json:"-"`
	Client    string        `json:"client,omitempty" doc:"The program that carries out the calls itself; Remit only decides them"`
	ReplayOf  uuid.UUID     `json:"replay_of,omitzero" format:"uuid"` // zero unless Mode is Replay
	Plan      tool.Digest   `json:"-"`
	Policies  []tool.Digest `json:"-"`
	Grant     uuid.UUID     `json:"grant_id,omitzero" format:"uuid"` // zero: the ledger does not keep it
	Session   uuid.UUID     `json:"session_id,omitzero" format:"uuid" doc:"The session that it belongs to"`
	Started   time.Time     `json:"started_at,omitzero" doc:"Missing while it is queued"`
	Ended     time.Time     `json:"ended_at,omitzero"` // zero while running
	Total     int           `json:"total"`
	Completed int           `json:"completed"`
	Denied    int           `json:"denied"`
	Failed    int           `json:"failed"`
	Refused   int           `json:"refused" doc:"Refused attempts of its calls while they ran"`
	Labels    []string      `json:"labels,omitempty" doc:"The labels of data that its context began with"`
	// Unverified says that the ledger's list of runs and the run's events differ.
	Unverified bool            `json:"unverified,omitempty" doc:"The list of runs was changed: it differs from the run's events, which are shown. remit verify names the changed records"`
	Parts      map[string]Part `json:"-"` // of the RunStarted event: plan, policy, inputs
}

// Call is a call as its one or two events tell it.
type Call struct {
	Run      Seq
	Index    int // from 1
	Step     string
	Tool     tool.ID
	Digest   tool.Digest
	Status   tool.Status // Pending: an intent without an outcome so far
	Code     fault.Code
	Effect   policy.Effect
	Rule     string
	Link     int
	Line     int // of the rule in its policy's file; 0 for a default
	Approved bool
	Risk     tool.Risk
	Declared tool.Effects
	Happened tool.Effects
	Refused  int // how often it was refused something while it ran
	Created  time.Time
	Timeline []int64 // see State
	Duration time.Duration
	Intent   Seq // 0 if the call has one event only
	Outcome  Seq // 0 while pending
	Parts    map[string]Part
	Erased   bool
	Client   string   // carries out the call itself; "": Remit does
	Labels   []string // that it added to its context
	Reported bool     // the outcome is the client's word
}

// Running is the status of a run that no RunFinished event has ended.
const Running = "running"

// Tally counts a run's calls by how they ended. An intent without an outcome
// is not counted.
type Tally struct {
	Total     int // every call that ended, skipped ones too
	Completed int
	Denied    int
	Failed    int // failed, timeout, cancelled and interrupted
	Refused   int // refused attempts while calls ran; refused calls are not counted here
}

// Add counts one call.
func (t *Tally) Add(s tool.Status) {
	t.Total++
	switch s {
	case tool.Completed:
		t.Completed++
	case tool.StatusDenied:
		t.Denied++
	case tool.Failed, tool.TimedOut, tool.Cancelled, tool.StatusInterrupted:
		t.Failed++
	}
}

// Tally returns the counts of a RunFinished event.
func (e *Event) Tally() Tally {
	return Tally{Total: int(e.Total), Completed: int(e.Completed), Denied: int(e.Denied), Failed: int(e.Failed), Refused: int(e.Refused)}
}

// Time is a moment as events hold it, in UTC.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// NewRun is the run that a RunStarted event began. Its counts are those of
// steps planned (Total) and zero.
func NewRun(s Stored) Run {
	e := &s.Event
	r := Run{
		Seq: s.Seq, Name: e.Name, Mode: e.Mode, Status: Running, Principal: e.Principal, Workspace: e.Workspace, Client: e.Client,
		Started: Time(e.At), Total: int(e.Total), Labels: e.Labels, Parts: s.Parts,
	}
	copy(r.ID[:], e.ID)
	copy(r.Owner[:], e.Owner)
	copy(r.ReplayOf[:], e.ReplayOf)
	copy(r.Plan[:], e.Plan)
	copy(r.Grant[:], e.Grant)
	copy(r.Session[:], e.Subject)
	for _, p := range e.Policies {
		r.Policies = append(r.Policies, digest(p))
	}
	return r
}

func digest(b []byte) tool.Digest {
	var d tool.Digest
	copy(d[:], b)
	return d
}

// NewCall makes the call of a CallIntent or CallDone event.
func NewCall(s Stored) Call {
	e := &s.Event
	c := Call{
		Run: e.Run, Index: int(e.Call), Step: e.Step, Tool: e.Tool, Digest: digest(e.Digest), Effect: e.Effect,
		Rule: e.Rule, Link: int(e.Link), Line: int(e.Line), Approved: e.Approved, Risk: e.Risk, Created: Time(e.At),
		Timeline: e.Timeline, Labels: e.Labels, Parts: s.Parts, Erased: s.Erased,
	}
	if e.Kind == CallIntent {
		c.Declared, c.Intent, c.Client = e.Effects, s.Seq, e.Client
		return c
	}
	c.end(s)
	return c
}

// Close adds the outcome of a CallOutcome event. Parts of both events are joined.
func (c *Call) Close(s Stored) {
	c.end(s)
	c.Erased = c.Erased || s.Erased
	if len(s.Parts) == 0 {
		return
	}
	parts := make(map[string]Part, len(c.Parts)+len(s.Parts))
	maps.Copy(parts, c.Parts)
	maps.Copy(parts, s.Parts)
	c.Parts = parts
}

func (c *Call) end(s Stored) {
	e := &s.Event
	c.Status, c.Code, c.Happened, c.Outcome, c.Refused = e.Status, e.Code, e.Effects, s.Seq, int(e.Refused)
	c.Reported = e.Client != ""
	c.Duration = max(0, Time(e.At).Sub(c.Created))
	if len(e.Timeline) > 0 {
		c.Timeline = e.Timeline
		c.Duration = time.Duration(max(0, slices.Max(e.Timeline))) * time.Microsecond
	}
	if e.Approved {
		c.Approved = true
	}
}

// Fold makes a run and its calls, in the order of their Index, of the run's
// events in the order of their Seq. It refuses events that do not make sense
// together, as [Progress.Add] does.
func Fold(events []Stored) (Run, []Call, error) {
	if len(events) == 0 || events[0].Event.Kind != RunStarted {
		return Run{}, nil, fault.New(fault.StoreCorrupt, "a run does not begin with its start")
	}
	run := NewRun(events[0])
	p := NewProgress(run.Seq)
	calls := map[uint32]*Call{}
	for _, s := range events[1:] {
		if err := p.Add(s.Seq, &s.Event); err != nil {
			return run, nil, err
		}
		switch s.Event.Kind {
		case CallIntent, CallDone:
			c := NewCall(s)
			calls[s.Event.Call] = &c
		case CallOutcome:
			calls[s.Event.Call].Close(s)
		}
	}
	p.Tell(&run)
	out := make([]Call, 0, len(calls))
	for _, i := range slices.Sorted(maps.Keys(calls)) {
		out = append(out, *calls[i])
	}
	return run, out, nil
}

// Progress follows one run through its events and refuses impossible ones: an outcome
// without an intent, a call number used twice, an event of its calls after the end.
type Progress struct {
	Tally
	Run    Seq
	Status tool.Status // Pending until the run finished
	Ended  int64       // At of its RunFinished event
	Tools  map[tool.ID]bool
	calls  map[uint32]bool // true while open
	open   int
	past   PastCall // nil: calls has all
}

// PastCall reports whether a call has been recorded, and whether it is still open.
type PastCall func(call uint32) (open, seen bool, err error)

// NewProgress follows the run that began with event run.
func NewProgress(run Seq) *Progress {
	return &Progress{Run: run, Tools: map[tool.ID]bool{}, calls: map[uint32]bool{}}
}

// ResumeProgress follows a run from its middle without all its events: p has its status
// and its tally but for the total, and past answers for its calls. It cannot tell how many
// calls are open or ended, so the run's own RunFinished event needs NewProgress.
func ResumeProgress(run Seq, p Progress, past PastCall) *Progress {
	p.Run, p.Tools, p.calls, p.past = run, map[tool.ID]bool{}, map[uint32]bool{}, past
	return &p
}

// Resumed reports whether ResumeProgress made p.
func (p *Progress) Resumed() bool { return p.past != nil }

// Add takes the run's next event after RunStarted. It changes nothing if it
// returns an error.
func (p *Progress) Add(seq Seq, e *Event) error {
	refuse := func(why string) error {
		return fault.New(fault.StoreCorrupt, "event %d (%s) of run %d, call %d: %s", seq, e.Kind, p.Run, e.Call, why)
	}
	open, seen := p.calls[e.Call]
	if ofCall := e.Kind == CallIntent || e.Kind == CallOutcome || e.Kind == CallDone; ofCall && !seen && p.past != nil {
		var err error
		if open, seen, err = p.past(e.Call); err != nil {
			return err
		}
	}
	switch {
	case e.Run != p.Run:
		return refuse("it is another run's")
	case e.Kind == Changeset || e.Kind.OfAuthority() || e.Kind.OfAgents() || e.Kind == FilesLabelled: // not about a call; also possible after the run's end
		return nil
	case p.Status != tool.Pending:
		return refuse("the run had ended")
	case e.Kind == CallOutcome && !seen:
		return refuse("no intent of this call was recorded")
	case e.Kind == CallOutcome && !open:
		return refuse("the call had ended")
	case (e.Kind == CallIntent || e.Kind == CallDone) && seen:
		return refuse("the call's number was used before")
	case e.Kind == RunFinished && p.open > 0:
		return refuse(fmt.Sprintf("%d calls have an intent and no outcome", p.open))
	}
	p.take(e)
	return nil
}

func (p *Progress) take(e *Event) {
	switch e.Kind {
	case CallIntent:
		p.calls[e.Call] = true
		p.open++
	case CallOutcome:
		p.calls[e.Call] = false
		p.open--
	case CallDone:
		p.calls[e.Call] = false
	case RunFinished:
		p.Status, p.Ended, p.calls = e.Status, e.At, nil
		return
	}
	if e.Tool != "" {
		p.Tools[e.Tool] = true
	}
	if e.Status != tool.Pending {
		p.Tally.Add(e.Status)
		p.Tally.Refused = min(p.Tally.Refused+int(e.Refused), math.MaxUint32) // the maximum of an event
	}
}

// Open gives the calls that have an intent and no outcome, in order.
func (p *Progress) Open() []uint32 {
	var out []uint32
	for c, open := range p.calls {
		if open {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return out
}

// Tell fills in the fields of the run that later events set. Total stays the number
// of planned steps until the run has ended.
func (p *Progress) Tell(r *Run) {
	r.Completed, r.Denied, r.Failed, r.Refused = p.Completed, p.Denied, p.Failed, p.Refused
	if p.Status != tool.Pending {
		r.Status, r.Ended, r.Total = p.Status.String(), Time(p.Ended), p.Total
	}
}
