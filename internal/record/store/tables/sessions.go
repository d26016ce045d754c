package tables

import (
	"bytes"
	"context"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

var _ store.Sessions = (*Store)(nil)

const (
	eventColumns  = toldColumns + " FROM "
	selectAgent   = "SELECT t.id, t.name, t.version, t.gone, t.created, t.seq, t.leaf, t.mac" + eventColumns + "agents t JOIN " + EventsAndPayloads + " e ON e.seq = t.seq WHERE "
	selectSession = "SELECT t.id, t.agent, t.parent, t.version, t.gone, t.last, t.files, t.bytes, t.runs, t.created, t.seq, t.leaf, t.mac" + eventColumns +
		"sessions t JOIN " + EventsAndPayloads + " e ON e.seq = t.seq WHERE "
	insertSessionRun = "INSERT INTO session_runs(session, run) VALUES(?, ?)"
)

const (
	maxName    = 200
	maxVersion = math.MaxInt32
)

// leafOf returns the hash of an event's Merkle leaf, which the row keeps.
func leafOf(body []byte) []byte {
	h := tlog.RecordHash(body)
	return h[:]
}

// moment returns a time in the form that events hold; the zero time means now.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return ledger.Time(t.UnixMicro())
}

// stale is the error for a change that was based on an old version.
func stale(name string, have, want int64) error {
	return fault.New(fault.Stale, "%s is at version %d, not %d: it was changed meanwhile", name, have, want).WithHint("read it again and repeat the change")
}

// SaveAgent implements store.Sessions.
func (s *Store) SaveAgent(ctx context.Context, a store.AgentRecord) (store.AgentRecord, error) {
	if a.ID == uuid.Nil || a.Version < 0 || a.Version >= maxVersion || a.Name == "" || len(a.Name) > maxName {
		return a, fault.New(fault.Internal, "an agent with ID %s, version %d and a name of %d bytes", a.ID, a.Version, len(a.Name))
	}
	was := int64(a.Version)
	at := moment(a.Saved)
	a.Saved, a.Created, a.Version = at, at, a.Version+1
	e := ledger.Entry{Durable: true, Payload: ledger.Payload{ledger.PartDoc: a.Doc}, Event: ledger.Event{
		Kind: ledger.AgentSaved, At: a.Saved.UnixMicro(), Subject: a.ID[:], Number: uint32(a.Version), Name: a.Name, Principal: a.By, Gone: a.Deleted,
	}}
	var old []byte
	var req *request
	err := s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		row, mac, err := w.rowMAC(ctx, tableAgents, a.ID[:])
		if err != nil {
			return err
		}
		old, req = mac, r
		what := "the agent " + a.ID.String()
		switch {
		case row == nil && was > 0:
			return fault.New(fault.AgentUnknown, "no agent has the ID %q", a.ID)
		case row == nil:
			return nil
		case row.int(agentGone) == 1:
			return fault.New(fault.AgentUnknown, "%s was deleted, and stays so", what).WithHint("make a new one")
		case row.int(agentVersion) != was:
			return stale(what, row.int(agentVersion), was)
		}
		a.Created = ledger.Time(row.int(agentCreated))
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		return w.replace(ctx, tableAgents, old, sealedRow{agentID: a.ID[:], agentName: a.Name, agentVersion: int64(a.Version), agentGone: flag(a.Deleted),
			agentCreated: a.Created.UnixMicro(), agentSeq: int64(first), agentLeaf: leafOf(req.rows[0].body)})
	})
	return a, err
}

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, r store.SessionRecord) (store.SessionRecord, error) {
	if r.ID == uuid.Nil || r.Version < 0 || r.Version >= maxVersion {
		return r, fault.New(fault.Internal, "a session with ID %s and version %d", r.ID, r.Version)
	}
	was := int64(r.Version)
	at := moment(r.Saved)
	r.Saved, r.Created, r.Version = at, at, r.Version+1
	var row sealedRow
	var old []byte
	var req *request
	err := s.change(ctx, sessionEntry(&r), func(ctx context.Context, w *writer, q *request) error {
		var err error
		if row, old, err = w.rowMAC(ctx, tableSessions, r.ID[:]); err != nil {
			return err
		}
		if req = q; row == nil && was == 0 {
			row = sealedRow{sessionID: r.ID[:], sessionAgent: r.Agent[:], sessionParent: r.Parent[:], sessionVersion: int64(0), sessionGone: int64(0),
				sessionLast: int64(0), sessionFiles: int64(0), sessionBytes: int64(0), sessionRuns: int64(0),
				sessionCreated: r.Created.UnixMicro(), sessionSeq: int64(0), sessionLeaf: []byte(nil)}
		}
		return checkSession(row, &r, was)
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		row[sessionVersion], row[sessionGone], row[sessionSeq], row[sessionLeaf] = int64(r.Version), flag(r.Deleted), int64(first), leafOf(req.rows[0].body)
		r.Created, r.Last = ledger.Time(row.int(sessionCreated)), int(row.int(sessionLast))
		return w.replace(ctx, tableSessions, old, row)
	})
	return r, err
}

func sessionEntry(r *store.SessionRecord) ledger.Entry {
	e := ledger.Entry{Durable: r.Version == 1 || r.Deleted, Payload: ledger.Payload{ledger.PartDoc: r.Doc}, Event: ledger.Event{
		Kind: ledger.SessionSaved, At: r.Saved.UnixMicro(), Subject: r.ID[:], Number: uint32(r.Version), Principal: r.By, Gone: r.Deleted,
	}}
	if r.Agent != uuid.Nil {
		e.Event.Agent = r.Agent[:]
	}
	if r.Parent != uuid.Nil {
		e.Event.Parent = r.Parent[:]
	}
	return e
}

// checkSession refuses a change that cannot follow a session's row.
func checkSession(row sealedRow, r *store.SessionRecord, was int64) error {
	switch {
	case row == nil:
		return unknownSession(r.ID.String())
	case row.int(sessionGone) == 1:
		return endedSession(r.ID)
	case row.int(sessionVersion) != was:
		return stale("the session "+r.ID.String(), row.int(sessionVersion), was)
	case !bytes.Equal(row.bytes(sessionAgent), r.Agent[:]) || !bytes.Equal(row.bytes(sessionParent), r.Parent[:]):
		return fault.New(fault.Internal, "the session %s would come to another agent or parent", r.ID)
	}
	return nil
}

func unknownSession(id string) error {
	return fault.New(fault.SessionUnknown, "no session has the ID %q", id)
}

func endedSession(id uuid.UUID) error {
	return fault.New(fault.SessionEnded, "the session %s was deleted", id).WithHint("begin a new one")
}

// Agent implements store.Sessions.
func (s *Store) Agent(ctx context.Context, id string) (store.AgentRecord, error) {
	if whole, err := uuid.Parse(id); err == nil && len(id) == 36 {
		if found, err := s.selectAgents(ctx, "t.id = ?", whole[:]); err != nil || len(found) == 1 {
			return one(found), err
		}
	}
	where, args := "t.gone = 0 AND t.name = ?", []any{id}
	if lo, hi, err := prefix(id); err == nil {
		where, args = "t.gone = 0 AND (t.name = ? OR t.id BETWEEN ? AND ?)", append(args, lo, hi)
	}
	found, err := s.selectAgents(ctx, where+" ORDER BY t.id DESC LIMIT 3", args...)
	switch {
	case err != nil:
		return store.AgentRecord{}, err
	case len(found) == 0:
		return store.AgentRecord{}, fault.New(fault.AgentUnknown, "no agent has the ID or the name %q", id).ForOperator("list them with remit agents")
	case len(found) > 1:
		return store.AgentRecord{}, fault.New(fault.AgentUnknown, "several agents have the name %q, or an ID that begins with it", id).
			WithHint("write one's whole ID: %s, %s, ...", found[0].ID, found[1].ID)
	}
	return found[0], nil
}

func one[T any](found []T) (t T) {
	if len(found) > 0 {
		t = found[0]
	}
	return t
}

// Agents implements store.Sessions.
func (s *Store) Agents(ctx context.Context, f store.PageFilter) ([]store.AgentRecord, error) {
	where, args := pageOf(f, "t.gone = 0", nil)
	return s.selectAgents(ctx, where, args...)
}

// Session implements store.Sessions.
func (s *Store) Session(ctx context.Context, id string) (store.SessionRecord, error) {
	if whole, err := uuid.Parse(id); err == nil && len(id) == 36 {
		found, err := s.selectSessions(ctx, "t.id = ?", whole[:])
		if err == nil && len(found) == 0 {
			err = unknownSession(id)
		}
		return one(found), err
	}
	lo, hi, err := prefix(id)
	if err != nil {
		return store.SessionRecord{}, fault.New(fault.SessionUnknown, "%q is not a session ID; expected at least its first 4 characters", id).ForOperator("list them with remit sessions")
	}
	found, err := s.selectSessions(ctx, "t.gone = 0 AND t.id BETWEEN ? AND ? ORDER BY t.id DESC LIMIT 3", lo, hi)
	switch {
	case err != nil:
		return store.SessionRecord{}, err
	case len(found) == 0:
		return store.SessionRecord{}, unknownSession(id)
	case len(found) > 1:
		return store.SessionRecord{}, fault.New(fault.SessionUnknown, "several sessions have an ID that begins with %q", id).
			WithHint("write more of it: %s, %s, ...", found[0].ID, found[1].ID)
	}
	return found[0], nil
}

// Sessions implements store.Sessions.
func (s *Store) Sessions(ctx context.Context, f store.SessionFilter) ([]store.SessionRecord, error) {
	cond, args := []string{"t.gone <= ?"}, []any{flag(f.Deleted)}
	if f.Agent != uuid.Nil {
		cond, args = append(cond, "t.agent = ?"), append(args, f.Agent[:])
	}
	if f.Parent != uuid.Nil {
		cond, args = append(cond, "t.parent = ?"), append(args, f.Parent[:])
	}
	where, args := pageOf(f.PageFilter, strings.Join(cond, " AND "), args)
	return s.selectSessions(ctx, where, args...)
}

// pageOf adds a page's condition, order and limit to a condition.
func pageOf(f store.PageFilter, where string, args []any) (string, []any) {
	if f.Before != uuid.Nil {
		where, args = where+" AND t.id < ?", append(args, f.Before[:])
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 20
	}
	return where + " ORDER BY t.id DESC LIMIT ?", append(args, limit)
}

// selectAgents reads agents with the events that saved them.
func (s *Store) selectAgents(ctx context.Context, rest string, args ...any) ([]store.AgentRecord, error) {
	if s.format < agentsFormat {
		return nil, nil
	}
	all, err := s.present(ctx, &s.agents, func() ([]toldRow, error) {
		return s.readTold(ctx, tableAgents, agentSeq, selectAgent+rest, args...)
	})
	out := make([]store.AgentRecord, len(all))
	for i := range all {
		if err != nil {
			break
		}
		a, row := &out[i], all[i].row
		var st ledger.Stored
		if st, a.Doc, err = s.savedDoc(ctx, &all[i], ledger.AgentSaved, agentLeaf); err != nil {
			break
		}
		a.Name, a.Version, a.Deleted = row.text(agentName), int(row.int(agentVersion)), row.int(agentGone) == 1
		a.By, a.Created, a.Saved = st.Event.Principal, ledger.Time(row.int(agentCreated)), ledger.Time(st.Event.At)
		copy(a.ID[:], row.bytes(agentID))
	}
	if err != nil {
		return nil, s.fault(err, "agents cannot be read")
	}
	return out, nil
}

// selectSessions reads sessions with the events that saved them.
func (s *Store) selectSessions(ctx context.Context, rest string, args ...any) ([]store.SessionRecord, error) {
	if s.format < agentsFormat {
		return nil, nil
	}
	all, err := s.readTold(ctx, tableSessions, sessionSeq, selectSession+rest, args...)
	out := make([]store.SessionRecord, len(all))
	for i := range all {
		if err != nil {
			break
		}
		r, row := &out[i], all[i].row
		var st ledger.Stored
		if st, r.Doc, err = s.savedDoc(ctx, &all[i], ledger.SessionSaved, sessionLeaf); err != nil {
			break
		}
		r.Version, r.Deleted, r.Last = int(row.int(sessionVersion)), row.int(sessionGone) == 1, int(row.int(sessionLast))
		r.By, r.Created, r.Saved = st.Event.Principal, ledger.Time(row.int(sessionCreated)), ledger.Time(st.Event.At)
		copy(r.ID[:], row.bytes(sessionID))
		copy(r.Agent[:], row.bytes(sessionAgent))
		copy(r.Parent[:], row.bytes(sessionParent))
	}
	if err != nil {
		return nil, s.fault(err, "sessions cannot be read")
	}
	return out, nil
}

// savedDoc returns the event of a row and its document. The row must have been
// made from that event.
func (s *Store) savedDoc(ctx context.Context, t *toldRow, kind ledger.Kind, leaf int) (ledger.Stored, []byte, error) {
	st, err := s.toldEvent(t, kind, leaf)
	if err != nil {
		return st, nil, err
	}
	doc, err := s.Load(ctx, st.Parts[ledger.PartDoc])
	return st, doc, err
}

// toldEvent returns the event of a row. The row must have been made from that
// event.
func (s *Store) toldEvent(t *toldRow, kind ledger.Kind, leaf int) (ledger.Stored, error) {
	if !bytes.Equal(leafOf(t.raw.body), t.row.bytes(leaf)) {
		return ledger.Stored{}, fault.New(fault.StoreCorrupt, "event %d in %q is not the one that was listed", t.raw.seq, s.name).
			ForOperator("remit verify lists the changed records")
	}
	st, err := s.decode(&t.raw)
	if err == nil && (st.Event.Kind != kind || !bytes.Equal(st.Event.Subject, t.row.bytes(rowID))) {
		err = fault.New(fault.StoreCorrupt, "event %d in %q does not contain the details for lists", t.raw.seq, s.name)
	}
	return st, err
}

// SessionRuns implements store.Sessions.
func (s *Store) SessionRuns(ctx context.Context, session uuid.UUID) ([]ledger.Run, error) {
	if s.format < agentsFormat {
		return nil, unknownSession(session.String())
	}
	row, err := s.readSealed(ctx, s.read, tableSessions, session[:])
	if err == nil && row == nil {
		err = unknownSession(session.String())
	}
	if err != nil {
		return nil, s.fault(err, "the runs of a session cannot be read")
	}
	runs, err := s.selectRuns(ctx, s.runColumns()+" JOIN session_runs sr ON sr.run = r.seq WHERE sr.session = ? ORDER BY r.seq", session[:])
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if r.Session != session {
			return nil, fault.New(fault.StoreCorrupt, "run %s is listed with the session %s in %q, to which it does not belong", r.ID, session, s.name).
				ForOperator("remit verify lists the changed records")
		}
	}
	if int64(len(runs)) < row.int(sessionRuns) {
		return nil, fault.New(fault.StoreCorrupt, "%d of the %d runs of session %s are missing in %q", row.int(sessionRuns)-int64(len(runs)), row.int(sessionRuns), session, s.name).
			ForOperator("remit verify lists the changed records")
	}
	return runs, nil
}

// admitSession refuses a run of a session that does not exist.
func (w *writer) admitSession(ctx context.Context, e *ledger.Event) error {
	if len(e.Subject) == 0 {
		return nil
	}
	row, err := w.row(ctx, tableSessions, e.Subject)
	if err == nil && row == nil {
		err = unknownSession(runID(e.Subject))
	}
	return err
}

// projectSession lists a run with its session.
func (w *writer) projectSession(ctx context.Context, seq ledger.Seq, e *ledger.Event) error {
	if len(e.Subject) == 0 {
		return nil
	}
	row, old, err := w.rowMAC(ctx, tableSessions, e.Subject)
	if err != nil {
		return err
	}
	row[sessionRuns] = row.int(sessionRuns) + 1
	if _, err := w.exec(ctx, insertSessionRun, e.Subject, int64(seq)); err != nil {
		return err
	}
	return w.replace(ctx, tableSessions, old, row)
}
