package agent_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/tools/model"
)

// table is the turns of a fleet, as its database has them.
type table struct {
	mu      sync.Mutex
	rows    map[uuid.UUID]row
	epoch   int64
	dead    map[string]bool // nodes that were removed
	down    bool            // every request fails
	taken   int             // how often a node took a turn
	refused int             // requests to end or leave a turn that failed
}

type row struct {
	store.AskedTurn

	node string
}

var errDown = fault.New(fault.StoreFailed, "the database is down")

// set changes the table at once for all nodes.
func (b *table) set(change func(b *table)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// is reports whether something holds of the table.
func (b *table) is(what func(b *table) bool) (is bool) {
	b.set(func(b *table) { is = what(b) })
	return is
}

// node is how one node reaches the table.
type node struct {
	*table

	name string
}

// do makes a request.
func (n node) do(request func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down || n.dead[n.name] {
		return errDown
	}
	request()
	return nil
}

func (n node) TakeTurn(_ context.Context, session uuid.UUID, caller []byte) (epoch int64, err error) {
	derr := n.do(func() {
		n.taken++
		if r, there := n.rows[session]; there && r.node != n.name && !n.dead[r.node] {
			err = fault.New(fault.SessionBusy, "node %q works on the session", r.node)
			return
		}
		n.epoch++
		epoch = n.epoch
		n.rows[session] = row{store.AskedTurn{Session: session, Epoch: epoch, Caller: caller}, n.name}
	})
	return epoch, errors.Join(derr, err)
}

// change changes the row of a turn that this node still has.
func (n node) change(session uuid.UUID, epoch int64, do func(r row)) error {
	err := n.do(func() {
		if r := n.rows[session]; r.node == n.name && r.Epoch == epoch {
			do(r)
		}
	})
	if err != nil {
		n.set(func(b *table) { b.refused++ })
	}
	return err
}

func (n node) EndTurn(_ context.Context, session uuid.UUID, epoch int64) error {
	return n.change(session, epoch, func(row) { delete(n.rows, session) })
}

func (n node) LeaveTurn(_ context.Context, session uuid.UUID, epoch int64, q store.TurnRequest) error {
	return n.change(session, epoch, func(r row) {
		r.Request = q
		n.rows[session] = r
	})
}

func (n node) AnswerTurn(_ context.Context, a store.AskedTurn) error {
	return n.change(a.Session, a.Epoch, func(r row) {
		if r.Request == a.Request {
			r.Request = store.NoRequest
			n.rows[a.Session] = r
		}
	})
}

func (n node) AskTurn(_ context.Context, session uuid.UUID, q store.TurnRequest) (elsewhere bool, err error) {
	err = n.do(func() {
		r, there := n.rows[session]
		if elsewhere = there && r.node != n.name && !n.dead[r.node]; elsewhere && q != store.NoRequest {
			r.Request = q
			n.rows[session] = r
		}
	})
	return elsewhere, err
}

func (n node) PollTurns(context.Context) (asked []store.AskedTurn, dead bool, err error) {
	err = n.do(func() {
		for _, r := range n.rows {
			if r.node == n.name && r.Request != store.NoRequest {
				asked = append(asked, r.AskedTurn)
			}
			dead = dead || n.dead[r.node]
		}
	})
	return asked, dead, err
}

func (n node) AdoptTurns(context.Context) error {
	return n.do(func() {
		for id, r := range n.rows {
			if n.dead[r.node] {
				n.epoch++
				r.node, r.Epoch, r.Request = n.name, n.epoch, store.BeginTurn
				n.rows[id] = r
			}
		}
	})
}

// fleet is a node of a fleet, with a session whose model writes once and then is done.
type fleet struct {
	*world

	table *table
	write *probe
	id    string
	last  func() // called before the model's last answer
	fails error  // that the model gives then in place of its answer
}

// newFleet starts a node.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{table: &table{rows: map[uuid.UUID]row{}, dead: map[string]bool{}}, last: func() {}}
	f.write = &probe{id: "probe.write", effects: tool.EffectSet(tool.FSWrite)}
	b := &brain{answer: func(_ int, r model.Request) (model.Response, error) {
		if r.Answers() == 0 {
			return wants(call("a", "write", `{"n":1}`)), nil
		}
		f.last()
		return text("all done"), f.fails
	}}
	f.world = newWorld(t, b, f.write)
	f.turns = node{f.table, "first"}
	f.open()
	f.id = f.session()
	return f
}

// by is the caller whose turns another node may continue.
var by = agent.Caller{Name: "user:ann", Token: "token"}

// ledger makes the ledger refuse, or take again, what is to be recorded.
func (f *fleet) ledger(statement string) {
	db, err := sql.Open("sqlite", filepath.Join(f.home, sqlite.File)+"?_pragma=busy_timeout(60000)")
	if err == nil {
		_, err = db.Exec(statement)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		f.t.Error(err)
	}
}

const (
	refuses = "CREATE TRIGGER down BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'down'); END"
	takes   = "DROP TRIGGER down"
)

// ends waits until no node has the turn, and checks how the session was left.
func (f *fleet) ends(want agent.State) {
	f.t.Helper()
	until(f.t, "the end of the turn", func() bool { return f.table.is(func(b *table) bool { return len(b.rows) == 0 }) })
	if s, err := f.svc.Session(context.Background(), f.id); err != nil || s.State != want {
		f.t.Errorf("the session is %q, want %q: %v", s.State, want, err)
	}
	if n := f.write.ran.Load(); n > 1 {
		f.t.Errorf("the call was made %d times", n)
	}
	sound(f.t, f.messages(f.id), want == agent.Cancelled)
}

// interrupted checks that all runs of the session have ended, and the first one as interrupted.
func (f *fleet) interrupted() {
	f.t.Helper()
	runs, err := f.st.SessionRuns(context.Background(), uuid.MustParse(f.id))
	if err != nil || len(runs) == 0 {
		f.t.Fatalf("%d runs: %v", len(runs), err)
	}
	first := runs[0]
	for _, r := range runs {
		if r.Seq < first.Seq {
			first = r
		}
		if r.Status == ledger.Running {
			f.t.Errorf("run %d is open", r.Seq)
		}
	}
	if first.Status != tool.StatusInterrupted.String() {
		f.t.Errorf("the run whose end could not be recorded is %q", first.Status)
	}
	if rep, err := f.st.Verify(context.Background(), verifyAll); err != nil || !rep.OK {
		f.t.Errorf("Verify: %v, %+v", err, rep.Problems)
	}
}

// The database does not answer when a turn has ended, which is recorded: it is told later, and the
// session is free for other nodes then.
func TestAnEndThatTheDatabaseRefusedIsToldLater(t *testing.T) {
	f := newFleet(t)
	f.last = func() { f.table.set(func(b *table) { b.down = true }) }
	if _, err := f.svc.Send(context.Background(), by, f.id, "go", nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the end is refused", func() bool { return f.table.is(func(b *table) bool { return b.refused > 0 }) })
	f.table.set(func(b *table) { b.down = false })
	f.ends(agent.Idle)
	if _, err := (node{f.table, "second"}).TakeTurn(context.Background(), uuid.MustParse(f.id), nil); err != nil {
		t.Errorf("another node: %v", err)
	}
}

// The ledger fails before the end of a turn is recorded. The node goes on with the turn once the
// ledger is back, under a run of its own; what was done is not done again.
func TestATurnWhoseEndIsNotRecordedGoesOn(t *testing.T) {
	for name, down := range map[string]bool{"the ledger alone": false, "its whole database": true} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.last = func() {
				f.last = func() {}
				f.ledger(refuses)
				f.table.set(func(b *table) { b.down = down })
			}
			if _, err := f.svc.Send(context.Background(), by, f.id, "go", nil); !errors.Is(err, fault.StoreFailed) {
				t.Fatalf("the turn ended with %v", err)
			}
			until(t, "the end is refused, or the turn is begun again in vain", func() bool {
				return f.table.is(func(b *table) bool { return b.refused > 0 || b.taken > 2 })
			})
			f.ledger(takes)
			f.table.set(func(b *table) { b.down = false })
			f.ends(agent.Idle)
			f.interrupted()
			if ms := f.messages(f.id); ms[len(ms)-1].Text != "all done" {
				t.Errorf("it ends with %+v", ms[len(ms)-1])
			}
		})
	}
}

// The node dies before the database is told what is left to do. Another one goes on.
func TestATurnWhoseEndIsNotRecordedGoesOnElsewhere(t *testing.T) {
	f := newFleet(t)
	f.last = func() {
		f.last = func() {}
		f.ledger(refuses)
		f.table.set(func(b *table) { b.down = true })
	}
	if _, err := f.svc.Send(context.Background(), by, f.id, "go", nil); !errors.Is(err, fault.StoreFailed) {
		t.Fatalf("the turn ended with %v", err)
	}
	until(t, "the end is refused", func() bool { return f.table.is(func(b *table) bool { return b.refused > 0 }) })
	f.close()
	f.ledger(takes)
	f.table.set(func(b *table) { b.down, b.dead["first"] = false, true })
	f.turns = node{f.table, "second"}
	f.open()
	f.ends(agent.Idle)
	f.interrupted()
}

// A turn is cancelled while the ledger fails. It is cancelled once the ledger is back, and nothing
// goes on.
func TestATurnThatWasCancelledInAnOutageStaysCancelled(t *testing.T) {
	for name, request := range map[string]func(s *agent.Service, id string) error{
		"by its client, which leaves": nil,
		"by a request": func(s *agent.Service, id string) error {
			_, err := s.Cancel(context.Background(), by, id)
			return err
		},
		"with its session": func(s *agent.Service, id string) error { return s.DeleteSession(context.Background(), by, id) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			begun := make(chan struct{})
			f.write.run = func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
				f.ledger(refuses)
				close(begun)
				<-ctx.Done()
				return tool.Result{}, context.Cause(ctx)
			}
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			sent := make(chan error)
			go func() {
				_, err := f.svc.Send(ctx, by, f.id, "go", nil)
				sent <- err
			}()
			<-begun
			if request == nil {
				leave()
			} else if err := request(f.svc, f.id); !errors.Is(err, fault.StoreFailed) {
				t.Errorf("the request is answered with %v", err)
			}
			if err := <-sent; !errors.Is(err, fault.ToolCancelled) || !errors.Is(err, fault.StoreFailed) {
				t.Errorf("the turn ended with %v", err)
			}
			until(t, "the cancellation is tried again", func() bool { return f.table.is(func(b *table) bool { return b.taken > 2 }) })
			f.ledger(takes)
			f.ends(agent.Cancelled)
			f.interrupted()
			for _, m := range f.messages(f.id) {
				if m.Text == "all done" {
					t.Error("the turn went on")
				}
			}
		})
	}
}

// A node works on after another one has taken the turn over, and its turn ends, or fails. The session stays in the state that the
// other node has recorded.
func TestAnEndAfterAnotherNodeIsNotRecorded(t *testing.T) {
	for name, broken := range map[string]error{"the turn ends": nil, "the turn fails": errors.New("the model is away")} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.fails = broken
			f.last = func() {
				r, err := f.st.Session(context.Background(), f.id)
				var doc map[string]any
				if err == nil {
					err = json.Unmarshal(r.Doc, &doc)
				}
				if err == nil {
					doc["run_id"] = uuid.NewString()
					r.Doc, err = json.Marshal(doc)
				}
				if err == nil {
					_, err = f.st.SaveSession(context.Background(), r)
				}
				if err != nil {
					t.Error(err)
				}
			}
			if _, err := f.svc.Send(context.Background(), by, f.id, "go", nil); (err == nil) != (broken == nil) {
				t.Errorf("the turn ended with %v", err)
			}
			var doc struct{ Status agent.State }
			r, err := f.st.Session(context.Background(), f.id)
			if err == nil {
				err = json.Unmarshal(r.Doc, &doc)
			}
			if err != nil || doc.Status != agent.Working {
				t.Errorf("the recorded state is %q: %v", doc.Status, err)
			}
		})
	}
}
