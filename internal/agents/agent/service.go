package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// Record is what a Service needs of the ledger.
type Record interface {
	store.Sessions
	store.Files
	// Calls gives a run's calls in the order of their Index.
	Calls(ctx context.Context, run ledger.Seq) iter.Seq2[ledger.Call, error]
	// Load gives a part's bytes, wherever they are.
	Load(ctx context.Context, p ledger.Part) ([]byte, error)
	// Recover closes what dead processes left open.
	Recover(ctx context.Context) (int, error)
}

// House makes grants and runs: a Service decides nothing and runs nothing itself.
type House interface {
	// Grant makes the grant of a session as today's policies, and the caller's
	// grant as it is now, have it. What the ledger keeps of it is its name, its
	// standing and what it spent: never what it allows.
	Grant(ctx context.Context, q GrantRequest) (Granted, error)
	// Begin starts a run of a session and records it.
	Begin(ctx context.Context, q RunRequest) (Run, error)
	// Revoke ends the grant of a session that has ended for good.
	Revoke(ctx context.Context, id uuid.UUID, by, why string) error
}

// GrantRequest asks for a session's grant.
type GrantRequest struct {
	ID        uuid.UUID // of the grant; the session keeps it
	New       bool      // the ledger does not have it yet
	Session   uuid.UUID
	Agent     Agent
	By        Caller
	Under     string   // the grant that the session was begun under; "": the policies that hold
	Parent    *Granted // of a sub-agent's: its parent's; nil: none
	Policy    string   // that narrows a sub-agent's grant; "": none
	Workspace string   // "": the house's own
}

// Granted is a session's grant, and where its policies come from.
type Granted struct {
	Grant     grant.Grant
	Sources   []ledger.PolicySource
	Under     string // the ID of the grant that the caller presented; "": none
	Workspace string
	House     any // what else the house wants to know of it in Begin
}

// RunRequest asks for a run of a session.
type RunRequest struct {
	Session uuid.UUID
	Name    string
	Granted Granted
	Tools   []runner.Tool // that the session has besides the catalog's
	Inputs  map[string]any
	// Waits is called when a call of the run waits for a person; over when it does
	// no more.
	Waits func(question string, c runner.Call) (over func())
}

// Run is a session's run. It is safe for concurrent use.
type Run interface {
	caller
	ID() uuid.UUID
	Seq() ledger.Seq
	// Timed: the run's time is limited, so that it should not wait for messages.
	Timed() bool
	// End records the run's end.
	End(ctx context.Context) error
}

// Options is what a Service is made of. All of them but Files, Match, Secret and
// Defaults are required.
type Options struct {
	Record       Record
	House        House
	Capabilities *capability.Registry
	Models       *model.Registry
	Chat         func(ChatRequest) runner.Tool            // makes a session's tool model.chat
	Lookup       func(id tool.ID) (runner.Entry, error)   // finds a tool of the catalog
	Match        func(pattern string) []tool.ID           // as capability.Session.Match
	Files        func(session uuid.UUID) capability.Files // nil: sessions have none
	Quota        store.Quota                              // of each session's files
	Defaults     Limits                                   // where an agent says nothing
	// Secret reports whether a text holds the value of a secret, which may not get
	// into a conversation; nil: none does.
	Secret func(text string) (bool, error)
	// Idle is how long a session that does nothing keeps its run; 0: five minutes.
	Idle time.Duration
	Now  func() time.Time // nil: time.Now
}

const defaultIdle = 5 * time.Minute

// Service keeps agents and sessions and carries their turns out. It is an [API],
// safe for concurrent use, and must be closed. Turns begin in turn.go; what they do
// is in loop.go.
type Service struct {
	o    Options
	boot string // names this process in events' IDs

	mu     sync.Mutex
	live   map[uuid.UUID]*live
	closed bool
	work   sync.WaitGroup // turns and what ends idle runs
}

var _ API = (*Service)(nil)

// New makes a Service. It starts nothing.
func New(o Options) *Service {
	if o.Idle <= 0 {
		o.Idle = defaultIdle
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Models == nil {
		o.Models = &model.Registry{}
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails; a name, and no secret
	return &Service{o: o, boot: hex.EncodeToString(b[:]), live: map[uuid.UUID]*live{}}
}

// errClosing is why turns end when the Service does: they go on with Resume.
var errClosing = fault.New(fault.Interrupted, "Remit is ending; the session can be resumed")

// Close ends the turns that are under way, so that Resume goes on with them, and
// all runs.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	list := make([]*live, 0, len(s.live))
	for _, l := range s.live {
		list = append(list, l)
	}
	s.mu.Unlock()
	for _, l := range list {
		l.stop(errClosing)
	}
	s.work.Wait()
	var errs []error
	for _, l := range list {
		errs = append(errs, l.rest(ctx))
	}
	return errors.Join(errs...)
}

// told refuses a text that holds the value of a secret.
func (s *Service) told(field string, texts ...string) error {
	if s.o.Secret == nil {
		return nil
	}
	for _, t := range texts {
		holds, err := s.o.Secret(t)
		if err != nil {
			return err
		}
		if holds {
			return fault.New(fault.AgentInvalid, "the text holds the value of a secret, which would be recorded and told to the model").In(field).
				WithHint("leave it out: where the policy allows it, Remit adds the secret itself")
		}
	}
	return nil
}

// session finds what is kept of a session.
func (s *Service) session(ctx context.Context, id string) (store.SessionRecord, sessionDoc, error) {
	r, err := s.o.Record.Session(ctx, id)
	if err != nil {
		return r, sessionDoc{}, err
	}
	d, err := readSession(r)
	if err == nil && r.Deleted {
		err = fault.New(fault.SessionUnknown, "the session %s was deleted", r.ID)
	}
	return r, d, err
}

// sessionDoc is a session's state as it is kept.
type sessionDoc struct {
	Title     string      `json:"title,omitempty"`
	State     State       `json:"status"`
	Error     *Problem    `json:"error,omitempty"`
	Grant     uuid.UUID   `json:"grant_id"`
	Granted   bool        `json:"granted,omitempty"`   // the ledger has the grant
	Run       string      `json:"run_id,omitempty"`    // its newest run
	Under     string      `json:"under,omitempty"`     // the grant that it was begun under; "": the policies that hold
	Workspace string      `json:"workspace,omitempty"` // that its grant is bound to
	Usage     model.Usage `json:"usage"`
	ForkOf    uuid.UUID   `json:"fork_of,omitzero"`
	Child     *childDoc   `json:"child,omitempty"`
}

// childDoc is what a sub-agent's session has besides.
type childDoc struct {
	Name    string `json:"name"`
	Policy  string `json:"policy,omitempty"`  // that narrows its grant
	Pending bool   `json:"pending,omitempty"` // it has no authority yet
	Task    string `json:"task,omitempty"`    // that waits until it has
}

func readSession(r store.SessionRecord) (sessionDoc, error) {
	var d sessionDoc
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return d, fault.Wrap(fault.StoreCorrupt, err, "the session %s cannot be read", r.ID)
	}
	return d, nil
}

// show is a session as clients see it.
func show(r store.SessionRecord, d sessionDoc) Session {
	out := Session{
		ID: r.ID, Agent: r.Agent, Title: d.Title, State: d.State, Error: d.Error, Run: d.Run, Version: r.Version,
		Last: r.Last, Usage: d.Usage, Created: r.Created, Updated: r.Saved,
	}
	if d.Granted {
		out.Grant = d.Grant.String()
	}
	if r.Parent != uuid.Nil {
		parent := r.Parent
		out.Parent = &parent
	}
	return out
}

func newID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	return id, nil
}
