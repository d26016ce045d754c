package tables

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

var _ store.Approvals = (*Store)(nil)

const (
	selectSame     = " WHERE binding = ? AND state = ? ORDER BY seq"
	selectVotes    = "SELECT question, by, yes, admin, seq, mac FROM votes WHERE question = ? ORDER BY seq"
	selectQuestion = "SELECT q.id, q.binding, q.state, q.run, q.until, q.once, q.needs, q.admin, q.seq, q.mac" + toldColumns + " FROM questions q JOIN " + EventsAndPayloads + " e ON e.seq = q.seq WHERE "
)

// asked is the part of a question that its event's payload keeps.
type asked struct {
	RunID   uuid.UUID       `json:"run_id"`
	Binding []byte          `json:"binding"`
	Needs   int             `json:"needs"`
	Admin   bool            `json:"admin,omitempty"`
	Until   time.Time       `json:"until"`
	GoodFor time.Duration   `json:"good_for"`
	Roles   []string        `json:"roles,omitempty"`
	Person  string          `json:"person,omitempty"`
	AskedAs string          `json:"person_role,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// voted is the part of a vote that its event's payload keeps.
type voted struct {
	Where   string          `json:"where,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Admin   bool            `json:"admin,omitempty"`
	Role    string          `json:"role,omitempty"`
	Session json.RawMessage `json:"session,omitempty"`
}

// Request implements store.Approvals.
func (s *Store) Request(ctx context.Context, q store.Approval) (store.Approval, error) {
	if q.ID == uuid.Nil || q.Needs < 1 || q.Needs > 100 || q.GoodFor <= 0 {
		return q, fault.New(fault.Internal, "a question with ID %s, %d approvers and a yes for %s", q.ID, q.Needs, q.GoodFor)
	}
	e, err := questionEntry(&q)
	if err != nil {
		return q, err
	}
	row := sealedRow{questionID: q.ID[:], questionBinding: q.Binding[:], questionState: int64(store.Waiting), questionRun: int64(q.Run),
		questionUntil: q.Until.UnixMicro(), questionOnce: int64(1), questionNeeds: int64(q.Needs), questionAdmin: flag(q.Admin), questionSeq: int64(0)}
	id := q.ID
	err = s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		for _, state := range []store.QuestionState{store.Waiting, store.Approved} {
			same, err := w.questions(ctx, q.Binding, state, q.Asked)
			if err != nil {
				return err
			}
			for _, other := range same {
				if other.int(questionUntil) > q.Asked.UnixMicro() && other.int(questionOnce) == 1 {
					copy(id[:], other.bytes(questionID))
					r.rows, r.apply = nil, nil
				}
			}
		}
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		row[questionSeq] = int64(first)
		return w.putQuestion(ctx, row, nil)
	})
	if err != nil {
		return q, err
	}
	return s.Question(ctx, id.String())
}

func questionEntry(q *store.Approval) (ledger.Entry, error) {
	b, err := json.Marshal(asked{RunID: q.RunID, Binding: q.Binding[:], Needs: q.Needs, Admin: q.Admin, Until: q.Until.UTC(), GoodFor: q.GoodFor, Body: q.Body, Roles: q.Roles, Person: q.Person, AskedAs: q.AskedAs})
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a question cannot be encoded")
	}
	e := ledger.Event{Kind: ledger.QuestionAsked, At: q.Asked.UnixMicro(), ID: q.ID[:], Run: q.Run, Principal: q.Holder, Question: uint8(store.Waiting)}
	if q.Run != 0 {
		e.Call = q.Call
	}
	if q.Grant != uuid.Nil {
		e.Grant = q.Grant[:]
	}
	return ledger.Entry{Durable: true, Event: e, Payload: ledger.Payload{ledger.PartQuestion: b}}, nil
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// questions returns the questions with a binding and a state, oldest first. An empty result gives
// no authority, so nothing is checked then. Questions from before a restore are left out: their
// approvals may have been used since the backup.
func (w *writer) questions(ctx context.Context, binding [32]byte, state store.QuestionState, at time.Time) (out []sealedRow, err error) {
	var macs [][]byte
	err = each(ctx, w.conn, tableQuestions.all+selectSame, func(rows *sql.Rows) error {
		row, mac, err := w.s.scanSealed(tableQuestions, rows.Scan)
		out, macs = append(out, row), append(macs, mac)
		return err
	}, binding[:], int64(state))
	if err != nil || len(out) == 0 {
		return nil, asIO(err)
	}
	for i, row := range out {
		if err := w.checkOpen(ctx, row, macs[i], at.UnixMicro()); err != nil {
			return nil, err
		}
	}
	mark, err := w.wholeRow(ctx, tableStandings, store.RestoreMark[:])
	return slices.DeleteFunc(out, func(row sealedRow) bool { return mark != nil && row.int(questionSeq) <= mark.int(standingSeq) }), err
}

// Vote implements store.Approvals.
func (s *Store) Vote(ctx context.Context, id uuid.UUID, v store.Vote) (store.Approval, error) {
	if err := s.mayVote(ctx, v); err != nil {
		return store.Approval{}, err
	}
	for {
		q, err := s.Question(ctx, id.String())
		if err != nil {
			return q, err
		}
		if err := mayApprove(q, v); err != nil {
			return q, err
		}
		if err := s.vote(ctx, q, v); err == nil || !errors.Is(err, errMeanwhile) {
			if err != nil {
				return q, err
			}
			return s.Question(ctx, id.String())
		}
	}
}

// errMeanwhile: another answer arrived after the question was read.
var errMeanwhile = errors.New("answered meanwhile")

// vote adds an answer to a question as it was read.
func (s *Store) vote(ctx context.Context, q store.Approval, v store.Vote) error {
	id := q.ID
	var vote, question sealedRow
	b, err := json.Marshal(voted{Where: v.Where, Reason: v.Reason, Admin: v.Admin, Role: v.Role, Session: v.Session})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "an answer cannot be encoded")
	}
	e := ledger.Entry{Durable: true, Payload: ledger.Payload{ledger.PartAnswer: b}, Event: ledger.Event{
		Kind: ledger.QuestionVoted, At: v.At.UnixMicro(), ID: id[:], Run: q.Run, Principal: v.By, Approved: v.Yes, Question: uint8(store.Waiting),
	}}
	if q.Run != 0 {
		e.Event.Call = q.Call
	}
	if v.Grant != uuid.Nil {
		e.Event.Grant = v.Grant[:]
	}
	return s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		var err error
		if question, err = w.openQuestion(ctx, id[:], v.At.UnixMicro()); err != nil {
			return err
		}
		if err = stillWaits(question, id, v.At); err != nil {
			return err
		}
		votes, err := w.votes(ctx, id)
		if err != nil {
			return err
		}
		if len(votes) != len(q.Votes) {
			return fault.Wrap(fault.Conflict, errMeanwhile, "approval %s was answered at the same moment", id)
		}
		if err := w.standsToVote(ctx, v.Grant); err != nil {
			return err
		}
		if votes, err = w.standing(ctx, votes, q.Votes, v); err != nil {
			return err
		}
		if question[questionState], err = tally(question, votes, q.Votes, v); err != nil {
			return err
		}
		if question.int(questionState) == int64(store.Approved) {
			question[questionUntil] = v.At.Add(q.GoodFor).UnixMicro()
			question[questionOnce] = flag(v.Session == nil)
		}
		r.rows[0].event.Question, r.rows[0].body = uint8(question.int(questionState)), nil
		vote = sealedRow{voteQuestion: id[:], voteBy: v.By, voteYes: flag(v.Yes), voteAdmin: flag(v.Admin), voteSeq: int64(0)}
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		vote[voteSeq] = int64(first)
		return w.putQuestion(ctx, question, vote)
	})
}

func stillWaits(row sealedRow, id uuid.UUID, at time.Time) error {
	gone := func(why string) error {
		return fault.New(fault.ApprovalGone, "the question %s %s", id, why).ForOperator("remit approvals lists those that wait")
	}
	switch {
	case row == nil:
		return gone("is not in this ledger")
	case row.int(questionState) != int64(store.Waiting):
		return gone("is " + store.QuestionState(row.int(questionState)).String() + " already")
	case at.UnixMicro() >= row.int(questionUntil):
		return gone("was to be answered until " + ledger.Time(row.int(questionUntil)).Format(time.RFC3339))
	}
	return nil
}

// Claim implements store.Approvals.
func (s *Store) Claim(ctx context.Context, binding [32]byte, at time.Time) (store.Approval, bool, error) {
	var n int
	err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM questions WHERE binding = ? AND state = ?", binding[:], int64(store.Approved)).Scan(&n)
	if err != nil || n == 0 {
		return store.Approval{}, false, s.fault(err, "approvals cannot be read")
	}
	var id uuid.UUID
	var row sealedRow
	e := ledger.Entry{Event: ledger.Event{Kind: ledger.QuestionClosed, At: at.UnixMicro(), ID: binding[:16], Question: uint8(store.Used)}}
	err = s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		row = nil
		found, err := w.questions(ctx, binding, store.Approved, at)
		if err != nil {
			return err
		}
		for _, q := range found {
			if q.int(questionOnce) == 1 && q.int(questionUntil) > at.UnixMicro() && row == nil {
				row = q
			}
		}
		if row == nil {
			r.rows, r.apply = nil, nil
			return nil
		}
		copy(id[:], row.bytes(questionID))
		r.rows[0].event.ID, r.rows[0].body = id[:], nil
		row[questionState] = int64(store.Used)
		return nil
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error { return w.putQuestion(ctx, row, nil) })
	if err != nil || row == nil {
		return store.Approval{}, false, err
	}
	q, err := s.Question(ctx, id.String())
	return q, err == nil, err
}

// CloseQuestion implements store.Approvals. It closes a question that waits, or
// that was approved but not used.
func (s *Store) CloseQuestion(ctx context.Context, id uuid.UUID, c store.Closing) error {
	var row sealedRow
	return s.change(ctx, closing(id[:], c), func(ctx context.Context, w *writer, r *request) error {
		var err error
		if row, err = w.openQuestion(ctx, id[:], c.At.UnixMicro()); err != nil {
			return err
		}
		if row == nil || row.int(questionState) != int64(store.Waiting) && row.int(questionState) != int64(store.Approved) {
			r.rows, r.apply = nil, nil
			return nil
		}
		row[questionState] = int64(store.Lapsed)
		return nil
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error { return w.putQuestion(ctx, row, nil) })
}

// closing is the event that a question lapses.
func closing(id []byte, c store.Closing) ledger.Entry {
	e := ledger.Entry{Event: ledger.Event{Kind: ledger.QuestionClosed, At: c.At.UnixMicro(), ID: id, Principal: c.By, Code: c.Code, Question: uint8(store.Lapsed)}}
	if c.Why != "" {
		e.Payload = ledger.Payload{ledger.PartReason: []byte(c.Why)}
	}
	return e
}

// Question implements store.Approvals.
func (s *Store) Question(ctx context.Context, id string) (store.Approval, error) {
	lo, hi, err := prefix(id)
	if err != nil {
		return store.Approval{}, fault.New(fault.ApprovalGone, "unknown approval ID %q; write at least its first 4 characters", id).
			ForOperator("remit approvals lists those that wait")
	}
	found, _, err := s.selectQuestions(ctx, "q.id BETWEEN ? AND ? ORDER BY q.seq DESC LIMIT 2", lo, hi)
	switch {
	case err != nil:
		return store.Approval{}, err
	case len(found) == 0:
		return store.Approval{}, fault.New(fault.ApprovalGone, "no question has the ID %q", id).ForOperator("remit approvals lists those that wait")
	case len(found) > 1:
		return store.Approval{}, fault.New(fault.ApprovalGone, "several questions have an ID that begins with %q", id).
			WithHint("write more of it: %s, %s", found[0].ID, found[1].ID)
	}
	return found[0], nil
}

// Questions implements store.Approvals.
func (s *Store) Questions(ctx context.Context, f store.QuestionFilter) ([]store.Approval, error) {
	where, args := []string{"1 = 1"}, []any{}
	and := func(cond string, value any) {
		where = append(where, cond)
		args = append(args, value)
	}
	if f.State != 0 {
		and("q.state = ?", int64(f.State))
	}
	if f.Run != 0 {
		and("q.run = ?", int64(f.Run))
	}
	if f.Binding != [32]byte{} {
		and("q.binding = ?", f.Binding[:])
	}
	if f.Before != 0 {
		and("q.seq < ?", int64(f.Before))
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	args = append(args, limit)
	for range maxListed {
		out, rows, err := s.selectQuestions(ctx, strings.Join(where, " AND ")+" ORDER BY q.seq DESC LIMIT ?", args...)
		if err != nil || !f.Sealed || s.format < EphemeraFormat {
			return out, err
		}
		if err = s.checkListed(ctx, f, rows); err == nil || !errors.Is(err, errReplaced) || ctx.Err() != nil {
			return out, s.fault(err, "questions cannot be read")
		}
	}
	return nil, s.sealBroken(tableQuestions) // no writer replaces rows at each of these moments
}

// selectQuestions reads questions with the events that asked them, and their
// votes.
func (s *Store) selectQuestions(ctx context.Context, rest string, args ...any) ([]store.Approval, []toldRow, error) {
	if s.format < SealedFormat {
		return nil, nil, nil
	}
	all, err := s.readTold(ctx, tableQuestions, questionSeq, selectQuestion+rest, args...)
	out := make([]store.Approval, len(all))
	for i := range all {
		if err == nil {
			out[i], err = s.question(ctx, &all[i].raw, all[i].row)
		}
		if err == nil {
			err = s.votesOf(ctx, &out[i])
		}
	}
	return out, all, s.fault(err, "questions cannot be read")
}

// question makes a question from its event. The event must be the one that the
// row names.
func (s *Store) question(ctx context.Context, raw *rawEvent, row sealedRow) (store.Approval, error) {
	st, err := s.decode(raw)
	if err != nil {
		return store.Approval{}, err
	}
	e := &st.Event
	var a asked
	if err := s.loadJSON(ctx, st.Parts[ledger.PartQuestion], &a); err != nil {
		return store.Approval{}, err
	}
	if e.Kind != ledger.QuestionAsked || !bytes.Equal(e.ID, row.bytes(questionID)) || !st.Erased && !bytes.Equal(a.Binding, row.bytes(questionBinding)) {
		return store.Approval{}, fault.New(fault.StoreCorrupt, "event %d in %q did not ask the question that is listed with it", st.Seq, s.name).
			ForOperator("remit verify lists the changed records")
	}
	q := store.Approval{
		RunID: a.RunID, Run: e.Run, Call: e.Call, Holder: e.Principal, Needs: int(row.int(questionNeeds)), Admin: row.int(questionAdmin) == 1,
		Asked: ledger.Time(e.At), Until: ledger.Time(row.int(questionUntil)), GoodFor: a.GoodFor, Body: a.Body, Roles: a.Roles, Person: a.Person, AskedAs: a.AskedAs,
		State: store.QuestionState(row.int(questionState)), Seq: st.Seq,
	}
	copy(q.ID[:], e.ID)
	copy(q.Binding[:], row.bytes(questionBinding))
	copy(q.Grant[:], e.Grant)
	return q, nil
}

// votesOf reads a question's answers.
func (s *Store) votesOf(ctx context.Context, q *store.Approval) error {
	var all []sealedRow
	err := each(ctx, s.read, selectVotes, func(rows *sql.Rows) error {
		row, _, err := s.scanSealed(tableVotes, rows.Scan)
		all = append(all, row)
		return err
	}, q.ID[:])
	for _, row := range all {
		if err != nil {
			return err
		}
		e, parts, verr := s.answer(ctx, q.ID, row.int(voteSeq))
		if verr == nil && (e.Principal != row.text(voteBy) || flag(e.Approved) != row.int(voteYes)) {
			verr = s.notOurs(tableVotes) // it is the event of another person's answer
		}
		if err = verr; err != nil {
			return err
		}
		var d voted
		if err = s.loadJSON(ctx, parts[ledger.PartAnswer], &d); err != nil {
			return err
		}
		v := store.Vote{By: e.Principal, Yes: e.Approved, Where: d.Where, Reason: d.Reason, Admin: d.Admin, Role: d.Role, Session: d.Session, At: ledger.Time(e.At)}
		copy(v.Grant[:], e.Grant)
		q.Votes = append(q.Votes, v)
		if e.Approved && q.State == store.Approved {
			q.Session = d.Session
		}
	}
	return err
}

// answer returns the event that recorded an answer to a question.
func (s *Store) answer(ctx context.Context, question uuid.UUID, seq int64) (*ledger.Event, map[string]ledger.Part, error) {
	var raw *rawEvent
	err := s.eachAuthentic(ctx, "seq = ?", func(r *rawEvent) error { raw = r; return nil }, seq)
	if err != nil {
		return nil, nil, err
	}
	if raw == nil {
		raw = &rawEvent{seq: ledger.Seq(seq)}
	}
	st, err := s.decode(raw)
	if err == nil && (st.Event.Kind != ledger.QuestionVoted || !bytes.Equal(st.Event.ID, question[:])) {
		err = fault.New(fault.StoreCorrupt, "event %d in %q did not record the listed answer", seq, s.name).ForOperator("remit verify lists the changed records")
	}
	return &st.Event, st.Parts, err
}
