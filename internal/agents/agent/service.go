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
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// Record is the part of the ledger that a Service needs.
type Record interface {
	store.Sessions
	store.Files
	// Calls gives a run's calls in the order of their Index.
	Calls(ctx context.Context, run ledger.Seq) iter.Seq2[ledger.Call, error]
	// CallsFrom is Calls from the call with this Index on.
	CallsFrom(ctx context.Context, run ledger.Seq, index int) iter.Seq2[ledger.Call, error]
	// LastCall gives the highest Index of a run's calls; 0 if it has none.
	LastCall(ctx context.Context, run ledger.Seq) (int, error)
	// Load gives a part's bytes, wherever they are.
	Load(ctx context.Context, p ledger.Part) ([]byte, error)
	// Recover closes the runs that dead processes left open.
	Recover(ctx context.Context) (int, error)
	RecoverKnown(ctx context.Context) (int, error)
}

// Options are the parts of a Service. All fields are required, except Files, Match, Secret, Turns,
// Adopt, Report, Defaults, Idle and Now.
type Options struct {
	Record       Record
	Grants       GrantSource
	Runs         RunStarter
	Capabilities *capability.Registry
	Models       *model.Registry
	Chat         func(ChatRequest) permit.Tool            // makes a session's tool model.chat
	Lookup       func(id tool.ID) (runner.Entry, error)   // finds a tool of the catalog
	Match        func(pattern string) []tool.ID           // as capability.Session.Match
	Files        func(session uuid.UUID) capability.Files // nil: sessions have no files
	Quota        store.Quota                              // of each session's files
	Defaults     Limits                                   // for agents that set none
	// Secret reports whether a text contains the value of a secret, which must not get
	// into a conversation; nil: no text does.
	Secret func(text string) (bool, error)
	// Turns shares turns with other nodes; nil: the processes of one machine share a file.
	Turns store.Turns
	// Adopt continues the turns of nodes that died, and Report is told of those that cannot
	// be continued; nil: nobody is.
	Adopt  bool
	Report func(session uuid.UUID, err error)
	// Kept keeps the turns that wait for a person, for the next service on this machine to continue.
	// Nil: somebody has to resume them. With Turns it is not used.
	Kept store.Ephemera
	// Ending ends when the process is about to end: a turn whose call waits for a person then ends
	// at once, to be continued. Nil: it never ends.
	Ending context.Context
	// Idle is how long a session without a turn keeps its run open; 0: five minutes.
	Idle time.Duration
	Now  func() time.Time // nil: time.Now
}

const defaultIdle = 5 * time.Minute

// Service keeps agents and sessions and carries out their turns. It is safe for
// concurrent use, and must be closed.
type Service struct {
	o       Options
	process string // names this process in the IDs of events

	stopFollowing context.CancelFunc // nil: no turns of other processes are continued
	following     sync.WaitGroup
	ends          turnEnds

	mu       sync.Mutex // for the fields below; never held while waiting
	sessions map[uuid.UUID]*session
	closed   bool
}

// New makes a Service. With Turns, it follows the requests of other nodes until Close.
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
	_, _ = rand.Read(b[:]) // never fails; the name is not a secret
	s := &Service{o: o, process: hex.EncodeToString(b[:]), sessions: map[uuid.UUID]*session{}}
	if o.Turns != nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stopFollowing = stop
		s.following.Go(func() { s.followTurns(ctx) })
	} else if s.keeps() {
		ctx, stop := context.WithCancel(context.Background())
		s.stopFollowing = stop
		s.following.Go(func() { s.followKept(ctx) })
	}
	return s
}

// errClosing is why turns end when the Service is closed. Resume continues them.
var errClosing = fault.New(fault.Interrupted, "Remit is ending; the session can be resumed")

// Close ends the turns that are under way, so that Resume can continue them, and all
// runs.
func (s *Service) Close(ctx context.Context) error {
	if s.stopFollowing != nil {
		s.stopFollowing()
		s.following.Wait()
	}
	s.mu.Lock()
	s.closed = true
	list := make([]*session, 0, len(s.sessions))
	for _, l := range s.sessions {
		l.users++
		list = append(list, l)
	}
	s.mu.Unlock()
	drained := make([]<-chan struct{}, len(list))
	for i, l := range list {
		drained[i] = l.close()
	}
	errs := make([]error, len(list))
	for i, l := range list {
		<-drained[i]
		l.do(func(o *owner) { errs[i] = o.closeErr })
		s.release(l)
	}
	return errors.Join(errs...)
}

// checkSecrets refuses texts that contain the value of a secret.
func (s *Service) checkSecrets(field string, texts ...string) error {
	if s.o.Secret == nil {
		return nil
	}
	for _, t := range texts {
		found, err := s.o.Secret(t)
		if err != nil {
			return err
		}
		if found {
			return fault.New(fault.AgentInvalid, "the text contains the value of a secret; it would be recorded and sent to the model").In(field).
				WithHint("remove it: where the policy allows it, Remit adds the secret itself")
		}
	}
	return nil
}

// session reads a session's record.
func (s *Service) session(ctx context.Context, id string) (store.SessionRecord, sessionDoc, error) {
	r, err := s.o.Record.Session(ctx, id)
	if err != nil {
		return r, sessionDoc{}, err
	}
	if r.Deleted {
		return r, sessionDoc{}, fault.New(fault.SessionUnknown, "the session %s was deleted", r.ID)
	}
	d, err := readSession(r)
	return r, d, err
}

// sessionDoc is a session's state as it is recorded.
type sessionDoc struct {
	Title     string      `json:"title,omitempty"`
	State     State       `json:"status"`
	Error     *Problem    `json:"error,omitempty"`
	Grant     uuid.UUID   `json:"grant_id"`
	Granted   bool        `json:"granted,omitempty"`   // the ledger has the grant
	Run       string      `json:"run_id,omitempty"`    // its newest run
	Under     string      `json:"under,omitempty"`     // the grant that it was started under; "": the policies in force
	Workspace string      `json:"workspace,omitempty"` // that its grant is bound to
	Usage     model.Usage `json:"usage"`
	ForkOf    uuid.UUID   `json:"fork_of,omitzero"`
	Mode      modeDoc     `json:"mode,omitzero"`
	Labels    []string    `json:"labels,omitempty"` // that slash commands added, sorted
	Child     *childDoc   `json:"child,omitempty"`
}

// childDoc holds the additional settings of a sub-agent's session.
type childDoc struct {
	Name    string `json:"name"`
	Policy  string `json:"policy,omitempty"`  // that narrows its grant
	Pending bool   `json:"pending,omitempty"` // it has no authority yet
	Task    string `json:"task,omitempty"`    // to be sent once it has authority
	// Quarantine: its context is its own, and only values of the schema Answer come back.
	Quarantine bool            `json:"quarantine,omitempty"`
	Answer     json.RawMessage `json:"answer,omitempty"`
	// Commitments must hold, besides the agent's, before a turn counts as done.
	Commitments []commitment.Commitment `json:"commitments,omitempty"`
}

func readSession(r store.SessionRecord) (sessionDoc, error) {
	var d sessionDoc
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return d, fault.Wrap(fault.StoreCorrupt, err, "the session %s cannot be read", r.ID)
	}
	return d, nil
}

// sessionOf is a session as clients see it.
func sessionOf(r store.SessionRecord, d sessionDoc) Session {
	out := Session{
		ID: r.ID, Agent: r.Agent, Title: d.Title, State: d.State, Error: d.Error, Run: d.Run, Version: r.Version,
		Last: r.Last, Mode: d.Mode.name(), Usage: d.Usage, Created: r.Created, Updated: r.Saved,
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
		return id, fault.Wrap(fault.Internal, err, "the system gives no random numbers")
	}
	return id, nil
}
