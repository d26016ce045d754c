package tables

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"

	"github.com/remitrun/remit/internal/record/store"
)

// openQuestions are the questions that can still give authority, with their votes: waiting or
// approved questions that were asked after an event. A note keeps their sum for one state of both
// tables, so that a process reads and checks these few rows instead of the whole tables.
type openQuestions struct {
	at    [2 * sha256.Size]byte // the sums of the seals of both tables: the state that it is for
	after int64                 // all questions up to this event are closed, or their time is over
	seal                        // of the rows of open questions and their votes
	of    map[string]*openQuestion
	kept  int // size of of, when questions past their time were left out last
}

// openQuestion is an open question in openQuestions, by its ID.
type openQuestion struct {
	seq, until int64
	mac        [sha256.Size]byte
	votes      map[string][sha256.Size]byte // by person
}

const (
	selectOpen      = " WHERE state IN (1, 2) AND seq > ?"
	selectOpenVotes = "SELECT v.question, v.by, v.yes, v.admin, v.seq, v.mac FROM questions q JOIN votes v ON v.question = q.id WHERE q.state IN (1, 2) AND q.seq > ?"

	openNote = "open questions" // the Kind of the note
)

// isOpen reports whether a question's state can still change.
func isOpen(row sealedRow) bool {
	state := store.QuestionState(row.int(questionState))
	return state == store.Waiting || state == store.Approved
}

// stateOf identifies a state of both tables.
func stateOf(questions, votes *seal) (at [2 * sha256.Size]byte) {
	copy(at[:], questions.sum[:])
	copy(at[sha256.Size:], votes.sum[:])
	return at
}

// row is the note about the open questions. It says nothing about any other state of the tables,
// so an older note that was put back is only useless.
func (o *openQuestions) row() sealedRow {
	data := binary.BigEndian.AppendUint64(o.at[:len(o.at):len(o.at)], uint64(o.after))
	data = append(binary.BigEndian.AppendUint64(data, uint64(o.count)), o.sum[:]...)
	return sealedRow{ephemeralKind: openNote, ephemeralKey: make([]byte, sha256.Size), ephemeralOwner: "", ephemeralVersion: int64(1),
		ephemeralUntil: int64(math.MaxInt64), ephemeralData: data}
}

// noted reads the note about the open questions; nil: none is about this state of the tables.
func (s *Store) noted(ctx context.Context, q Querier, questions, votes *seal) (*openQuestions, error) {
	o := &openQuestions{at: stateOf(questions, votes)}
	if questions.count == 0 && votes.count == 0 {
		return o, nil
	}
	row, err := s.readSealed(ctx, q, tableEphemera, o.row()[:tableEphemera.keys]...)
	if err != nil || row == nil {
		return nil, err
	}
	data := row.bytes(ephemeralData)
	if len(data) != len(o.at)+16+len(o.sum) || [len(o.at)]byte(data) != o.at {
		return nil, nil
	}
	data = data[len(o.at):]
	o.after, o.count = int64(binary.BigEndian.Uint64(data)), int64(binary.BigEndian.Uint64(data[8:]))
	copy(o.sum[:], data[16:])
	return o, nil
}

// readOpen returns the open questions after a comparison with their note, or without one with the
// seals of the whole tables. The oldest ones are left out, if their time was over at a moment.
func (s *Store) readOpen(ctx context.Context, q Querier, questions, votes *seal, over int64, whole bool) (*openQuestions, error) {
	o, err := s.noted(ctx, q, questions, votes)
	if err != nil {
		return nil, err
	}
	if o == nil || whole {
		o, err = s.wholeOpen(ctx, q, questions, votes)
	} else {
		err = s.fewOpen(ctx, q, o)
	}
	if err == nil {
		o.leaveOver(s.keys, over)
	}
	return o, err
}

// fewOpen reads the open questions that a note is about.
func (s *Store) fewOpen(ctx context.Context, q Querier, o *openQuestions) error {
	got := openQuestions{of: map[string]*openQuestion{}}
	read := func(t *sealedTable, query string) error {
		return each(ctx, q, query, func(rows *sql.Rows) error {
			row, mac, err := s.scanSealed(t, rows.Scan)
			if err == nil {
				got.take(s.keys, t, row, mac)
			}
			return err
		}, o.after)
	}
	if err := errors.Join(read(tableQuestions, tableQuestions.all+selectOpen), read(tableVotes, selectOpenVotes)); err != nil {
		return err
	}
	if got.sum != o.sum || got.count != o.count {
		return s.sealBroken(tableQuestions)
	}
	o.of = got.of
	return nil
}

// wholeOpen reads both tables, compares them with their seals, and keeps the open questions.
func (s *Store) wholeOpen(ctx context.Context, q Querier, questions, votes *seal) (*openQuestions, error) {
	o := &openQuestions{at: stateOf(questions, votes), of: map[string]*openQuestion{}}
	err := s.compareWhole(ctx, q, tableQuestions, questions, func(row sealedRow, mac []byte) error {
		if isOpen(row) {
			o.take(s.keys, tableQuestions, row, mac)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, s.compareWhole(ctx, q, tableVotes, votes, func(row sealedRow, mac []byte) error {
		if o.of[keyOf(row[:1])] != nil {
			o.take(s.keys, tableVotes, row, mac)
		}
		return nil
	})
}

// take adds a row of one of the two tables.
func (o *openQuestions) take(k *Keys, t *sealedTable, row sealedRow, mac []byte) {
	o.add(k, mac, 1)
	is, key := o.of[keyOf(row[:1])], keyOf(row[:1])
	if is == nil {
		is = &openQuestion{votes: map[string][sha256.Size]byte{}}
		o.of[key] = is
	}
	if t == tableVotes {
		is.votes[row.text(voteBy)] = [sha256.Size]byte(mac)
		return
	}
	is.seq, is.until, is.mac = row.int(questionSeq), row.int(questionUntil), [sha256.Size]byte(mac)
}

// drop removes a question and its votes.
func (o *openQuestions) drop(k *Keys, key string) {
	is := o.of[key]
	if is == nil {
		return
	}
	o.add(k, is.mac[:], -1)
	for _, mac := range is.votes {
		o.add(k, mac[:], -1)
	}
	delete(o.of, key)
}

// leaveOver drops the oldest questions, up to the first whose time was not over.
func (o *openQuestions) leaveOver(k *Keys, over int64) {
	first, last := int64(math.MaxInt64), o.after
	for _, is := range o.of {
		if last = max(last, is.seq); is.until > over {
			first = min(first, is.seq)
		}
	}
	o.after = min(first-1, last)
	for key, is := range o.of {
		if is.seq <= o.after {
			o.drop(k, key)
		}
	}
	o.kept = len(o.of)
}

// isOne reports whether an open question is one that can decide something at a time: false if its
// time is over. known is false where only the whole tables can tell.
func (o *openQuestions) isOne(s *Store, row sealedRow, mac []byte, at int64) (known bool, err error) {
	is := o.of[keyOf(row[:1])]
	switch {
	case is != nil && hmac.Equal(is.mac[:], mac), is == nil && row.int(questionUntil) <= at:
		return true, nil
	case is != nil || row.int(questionSeq) > o.after:
		return true, s.sealBroken(tableQuestions)
	}
	return false, nil
}

// checkListed fails if a question of a list is missing or not as it was sealed. Closed questions have
// no sum of their own: the first page of a list with them reads the whole tables.
func (s *Store) checkListed(ctx context.Context, f store.QuestionFilter, rows []toldRow) error {
	if len(rows) == 0 && (f.Run != 0 || f.Binding != [32]byte{}) { // nothing is decided then
		return nil
	}
	return s.inSnapshot(ctx, func(conn *sql.Conn) error {
		questions, err := s.readSeal(ctx, conn, tableQuestions.name)
		if err != nil {
			return err
		}
		votes, err := s.readSeal(ctx, conn, tableVotes.name)
		if err != nil {
			return err
		}
		now := s.now()
		o, err := s.readOpen(ctx, conn, &questions, &votes, now, f.Before == 0 && f.State != store.Waiting && f.State != store.Approved)
		for i := 0; err == nil && i < len(rows); i++ {
			row := rows[i].row
			if !isOpen(row) {
				continue
			}
			mac, known := s.keys.rowMAC(tableQuestions.name, row), false
			if err = s.sameRow(ctx, conn, tableQuestions, row[:1], mac); err != nil {
				return err
			}
			if known, err = o.isOne(s, row, mac, now); err == nil && !known {
				if o, err = s.readOpen(ctx, conn, &questions, &votes, now, true); err == nil {
					if known, err = o.isOne(s, row, mac, now); err == nil && !known {
						err = s.sealBroken(tableQuestions)
					}
				}
			}
		}
		return err
	})
}

// errReplaced says that a row was replaced after it was read.
var errReplaced = errors.New("the row was replaced meanwhile")

// sameRow returns errReplaced if a row is another one by now.
func (s *Store) sameRow(ctx context.Context, q Querier, t *sealedTable, key []any, mac []byte) error {
	now, err := s.readSealed(ctx, q, t, key...)
	if err == nil && (now == nil || !hmac.Equal(mac, s.keys.rowMAC(t.name, now))) {
		err = errReplaced
	}
	return err
}

// openQuestions returns the open questions as the writer's transaction sees them.
func (w *writer) openQuestions(ctx context.Context, at int64, whole bool) (*openQuestions, error) {
	questions, votes, err := w.sealsOfQuestions(ctx)
	if err != nil {
		return nil, err
	}
	over := min(at, w.s.now())
	if o := w.open; o != nil && o.of != nil && o.at == stateOf(questions, votes) && !whole {
		if len(o.of) > 2*o.kept+page {
			o.leaveOver(w.s.keys, over)
		}
		return o, nil
	}
	w.open, err = w.s.readOpen(ctx, w.conn, questions, votes, over, whole)
	return w.open, asIO(err)
}

func (w *writer) sealsOfQuestions(ctx context.Context) (questions, votes *seal, err error) {
	if questions, err = w.sealOf(ctx, tableQuestions); err == nil {
		votes, err = w.sealOf(ctx, tableVotes)
	}
	return questions, votes, err
}

// checkOpen fails if a question that waits or is approved is not so in the sealed table. Closed
// ones stay closed, so an older row of one is the present row.
func (w *writer) checkOpen(ctx context.Context, row sealedRow, mac []byte, at int64) error {
	for _, whole := range []bool{false, true} {
		if !isOpen(row) {
			return nil
		}
		o, err := w.openQuestions(ctx, at, whole)
		if err != nil {
			return err
		}
		if known, err := o.isOne(w.s, row, mac, at); known {
			return err
		}
	}
	return w.s.sealBroken(tableQuestions)
}

// openQuestion returns a question by its ID; nil: there is none, which gives no authority.
func (w *writer) openQuestion(ctx context.Context, id []byte, at int64) (sealedRow, error) {
	row, mac, err := w.rowMAC(ctx, tableQuestions, id)
	if err != nil || row == nil {
		return nil, err
	}
	return row, w.checkOpen(ctx, row, mac, at)
}

// putQuestion writes a new state of a question, which openQuestion or questions has checked, or a
// new question. vote is a new answer to it; nil: none.
func (w *writer) putQuestion(ctx context.Context, row, vote sealedRow) error {
	questions, votes, err := w.sealsOfQuestions(ctx)
	if err != nil {
		return err
	}
	if w.open == nil || w.open.at != stateOf(questions, votes) {
		if w.open, err = w.s.noted(ctx, w.conn, questions, votes); err != nil {
			return asIO(err)
		}
	}
	_, old, err := w.rowMAC(ctx, tableQuestions, row[:1]...)
	if err == nil && vote != nil {
		err = w.put(ctx, tableVotes, vote)
	}
	if err == nil {
		err = w.replace(ctx, tableQuestions, old, row)
	}
	o := w.open
	w.open = nil // unless all succeeds
	if err != nil || o == nil || o.of == nil && old != nil {
		return err
	}
	o.change(w.s.keys, row, vote)
	o.at = stateOf(questions, votes)
	if err := w.put(ctx, tableEphemera, o.row()); err != nil {
		return err
	}
	w.open = o
	return nil
}

// change notes a question's new state. While only the sum is known, it must be a new question.
func (o *openQuestions) change(k *Keys, row, vote sealedRow) {
	mac := k.rowMAC(tableQuestions.name, row)
	if o.of == nil {
		if isOpen(row) {
			o.add(k, mac, 1)
		}
		return
	}
	key := keyOf(row[:1])
	if is := o.of[key]; is != nil && isOpen(row) {
		o.add(k, is.mac[:], -1)
		o.take(k, tableQuestions, row, mac)
		if vote != nil {
			o.take(k, tableVotes, vote, k.rowMAC(tableVotes.name, vote))
		}
		return
	}
	if o.drop(k, key); isOpen(row) && row.int(questionSeq) > o.after {
		o.take(k, tableQuestions, row, mac)
	}
}
