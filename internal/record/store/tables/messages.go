package tables

import (
	"bytes"
	"context"
	"database/sql"
	"iter"
	"math"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	insertMessage   = "INSERT INTO messages(session, number, run, at, seq, commitment, mac) VALUES(?, ?, ?, ?, ?, ?, ?)"
	selectMessages  = "SELECT m.number, m.run, m.at, m.seq, m.commitment, m.mac, e.salt, e.data FROM messages m JOIN " + EventsAndPayloads + " e ON e.seq = m.seq WHERE m.session = ? AND m.number >= ? ORDER BY m.number LIMIT ?"
	selectBackwards = "SELECT m.number, m.run, m.at, m.seq, m.commitment, m.mac, e.salt, e.data FROM messages m JOIN " + EventsAndPayloads + " e ON e.seq = m.seq WHERE m.session = ? AND m.number <= ? ORDER BY m.number DESC LIMIT ?"
)

// Pages of a conversation grow: the newest few messages need one small page, and
// the whole conversation needs few queries.
const (
	firstMessages = 64
	mostMessages  = 1024
)

// AddMessages implements store.Sessions.
func (s *Store) AddMessages(ctx context.Context, session uuid.UUID, after int, m ...store.MessageRecord) (int, error) {
	if after < 0 || after+len(m) > math.MaxInt32 {
		return 0, fault.New(fault.Internal, "%d messages after message %d", len(m), after)
	}
	entries := make([]ledger.Entry, len(m))
	for i := range m {
		entries[i] = ledger.Entry{Payload: ledger.Payload{ledger.PartDoc: m[i].Doc}, Event: ledger.Event{
			Kind: ledger.MessageAdded, At: moment(m[i].At).UnixMicro(), Run: m[i].Run, Subject: session[:], Number: uint32(after + i + 1),
		}}
	}
	var row sealedRow
	var old []byte
	var req *request
	err := s.changes(ctx, entries, false, func(ctx context.Context, w *writer, r *request) error {
		var err error
		if row, old, err = w.rowMAC(ctx, tableSessions, session[:]); err != nil {
			return err
		}
		req = r
		switch {
		case row == nil:
			return unknownSession(session.String())
		case row.int(sessionGone) == 1:
			return endedSession(session)
		case row.int(sessionLast) != int64(after):
			return fault.New(fault.Stale, "the session %s has %d messages, not %d: messages were added meanwhile", session, row.int(sessionLast), after).WithHint("read them first")
		case len(m) == 0:
			r.apply = nil
		}
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		for i := range req.rows {
			if err := w.addMessage(ctx, first+ledger.Seq(i), req.rows[i].event); err != nil {
				return err
			}
		}
		row[sessionLast] = int64(after + len(m))
		return w.replace(ctx, tableSessions, old, row)
	})
	return after + len(m), err
}

func (w *writer) addMessage(ctx context.Context, seq ledger.Seq, e *ledger.Event) error {
	row := messageRow(seq, e)
	_, err := w.exec(ctx, insertMessage, append(append(make([]any, 0, len(row)+1), row...), w.s.keys.rowMAC(tableMessages.name, row))...)
	return err
}

// messageRow is the row of a message's event.
func messageRow(seq ledger.Seq, e *ledger.Event) sealedRow {
	return sealedRow{messageSession: e.Subject, messageNumber: int64(e.Number), messageRun: int64(e.Run), messageAt: e.At,
		messageSeq: int64(seq), messageCommit: e.Commit}
}

// Messages implements store.Sessions. Fields that the row's MAC covers are not
// read from the event.
func (s *Store) Messages(ctx context.Context, session uuid.UUID, from int, reverse bool) iter.Seq2[store.MessageRecord, error] {
	return func(yield func(store.MessageRecord, error) bool) {
		last, err := s.lastMessage(ctx, session)
		if err != nil {
			yield(store.MessageRecord{}, err)
			return
		}
		step, end := 1, last
		if from = max(from, 0); reverse {
			if step, end = -1, 1; from == 0 || from > last {
				from = last
			}
		} else {
			from = max(from, 1)
		}
		ctx, stop := context.WithCancel(ctx)
		p := pages{s: s, session: session, next: from, step: step, end: end, limit: firstMessages}
		defer p.wait()
		defer stop()
		for p.more() {
			page, err := p.take(ctx)
			if err != nil {
				yield(store.MessageRecord{}, err)
				return
			}
			if len(page) == mostMessages { // a caller that reads this many will read more, so the next page is read ahead
				p.readAhead(ctx)
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

// pages are the unread pages of a conversation, in order.
type pages struct {
	s                      *Store
	session                uuid.UUID
	next, step, end, limit int
	begun                  chan pageRead // receives the next page once it was read; nil: it is not being read
}

type pageRead struct {
	messages []store.MessageRecord
	err      error
}

func (p *pages) more() bool { return p.begun != nil || (p.end-p.next)*p.step >= 0 }

// take returns the next page.
func (p *pages) take(ctx context.Context) ([]store.MessageRecord, error) {
	if p.begun == nil {
		return p.turn()(ctx)
	}
	one := <-p.begun
	p.begun = nil
	return one.messages, one.err
}

// turn advances by one page and returns the function that reads it.
func (p *pages) turn() func(context.Context) ([]store.MessageRecord, error) {
	from, n := p.next, min(p.limit, (p.end-p.next)*p.step+1)
	p.next, p.limit = p.next+p.step*n, min(p.limit*4, mostMessages)
	return func(ctx context.Context) ([]store.MessageRecord, error) {
		return p.s.messagePage(ctx, p.session, from, p.step, n)
	}
}

// readAhead begins to read the next page, if there is one.
func (p *pages) readAhead(ctx context.Context) {
	if !p.more() {
		return
	}
	read, begun := p.turn(), make(chan pageRead, 1)
	p.begun = begun
	go func() {
		messages, err := read(ctx)
		begun <- pageRead{messages, err}
	}()
}

// wait waits for a page that is no longer needed.
func (p *pages) wait() {
	if p.begun != nil {
		<-p.begun
	}
}

// lastMessage returns the number of a session's last message.
func (s *Store) lastMessage(ctx context.Context, session uuid.UUID) (int, error) {
	if s.format < agentsFormat {
		return 0, unknownSession(session.String())
	}
	row, err := s.readSealed(ctx, s.read, tableSessions, session[:])
	if err == nil && row == nil {
		err = unknownSession(session.String())
	}
	if err != nil {
		return 0, s.fault(err, "a conversation cannot be read")
	}
	return int(row.int(sessionLast)), nil
}

// messagePage reads n messages, which must exist.
func (s *Store) messagePage(ctx context.Context, session uuid.UUID, from, step, n int) ([]store.MessageRecord, error) {
	query := selectMessages
	if step < 0 {
		query = selectBackwards
	}
	out := make([]store.MessageRecord, 0, n)
	var apart map[int]ledger.Part
	reader := messageReader{s: s, session: session, macs: s.keys.newRowMACs()}
	err := each(ctx, s.read, query, func(rows *sql.Rows) error {
		m, part, err := reader.scan(rows)
		if err != nil {
			return err
		}
		if want := from + step*len(out); m.Number != want {
			return reader.missing(want)
		}
		if part.Blob != nil {
			if apart == nil {
				apart = map[int]ledger.Part{}
			}
			apart[len(out)] = part
		}
		out = append(out, m)
		return nil
	}, session[:], from, n)
	if err == nil && len(out) < n {
		err = reader.missing(from + step*len(out))
	}
	for i, part := range apart { // now that the connection is free
		if err == nil {
			out[i].Doc, err = s.Load(ctx, part)
		}
	}
	return out, s.fault(err, "a conversation cannot be read")
}

// messageReader reads rows of one session.
type messageReader struct {
	s       *Store
	session uuid.UUID
	macs    *rowMACs
}

func (r *messageReader) scan(rows *sql.Rows) (store.MessageRecord, ledger.Part, error) {
	var number, run, at, seq int64
	var commit, mac, salt, data sql.RawBytes
	if err := rows.Scan(&number, &run, &at, &seq, &commit, &mac, &salt, &data); err != nil {
		return store.MessageRecord{}, ledger.Part{}, err
	}
	m := store.MessageRecord{Number: int(number), Run: ledger.Seq(run), At: ledger.Time(at)}
	r.macs.begin(tableMessages.name)
	r.macs.bytes(r.session[:])
	for _, n := range [...]int64{number, run, at, seq} {
		r.macs.int(n)
	}
	r.macs.bytes(commit)
	if !r.macs.fits(mac) {
		return m, ledger.Part{}, r.changed(number)
	}
	if isMark(salt, data) {
		return m, ledger.Part{}, fault.New(fault.MessageUnknown, "message %d of session %s was erased", number, r.session)
	}
	plain, err := r.s.pack.payload(data)
	if err != nil {
		return m, ledger.Part{}, err
	}
	if c := ledger.Commitment(salt, plain); !bytes.Equal(c[:], commit) {
		return m, ledger.Part{}, r.changed(number)
	}
	part, err := ledger.DecodePart(plain, ledger.PartDoc)
	m.Doc = bytes.Clone(part.Inline)
	return m, part, err
}

func (r *messageReader) changed(number int64) error {
	return fault.New(fault.StoreCorrupt, "message %d of session %s in %q is not as it was recorded", number, r.session, r.s.name).
		ForOperator("remit verify lists the changed records")
}

func (r *messageReader) missing(number int) error {
	return fault.New(fault.StoreCorrupt, "message %d of session %s is missing in %q", number, r.session, r.s.name).
		ForOperator("remit verify lists the changed records")
}
