package tables

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// eraseAtOnce is how many events one transaction erases: others wait to write meanwhile.
const eraseAtOnce = 500

// erasedHead begins the mark that stands in the place of an erased payload. No payload
// begins with it.
const erasedHead = 0xf6

// erasedMark stands in the place of an event's erased payload: only the ledger can write it.
func (k *Keys) erasedMark(seq ledger.Seq, body []byte) []byte {
	m := hmac.New(sha256.New, k.row)
	m.Write([]byte("erased payload\n"))
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(seq)))
	m.Write(body)
	return append([]byte{erasedHead}, m.Sum(nil)[:16]...)
}

// isErased reports whether an event's payload was erased.
func (s *Store) isErased(r *rawEvent, e *ledger.Event) bool {
	return s.isDropped(r, e) || r.salt == nil && len(r.data) == 17 && r.data[0] == erasedHead && hmac.Equal(r.data, s.keys.erasedMark(r.seq, r.body))
}

// eraseUnit holds events that are erased in one transaction if they are of a session; events of a
// run can be erased in parts.
type eraseUnit struct {
	session uuid.UUID // zero: a run
	seqs    []ledger.Seq
	parts   []Part // of seqs, until they are chosen
}

// erasing is an erasure on its way.
type erasing struct {
	s *Store
	e store.Erasure

	runs     map[ledger.Seq]*eraseUnit
	byID     map[uuid.UUID]*eraseUnit // the same runs
	sessions map[uuid.UUID]*eraseUnit
	order    []*eraseUnit
	chosen   map[ledger.Seq]Part
	parts    map[Part]*partState   // in a database with parts
	large    map[ledger.Seq]bool   // chosen events that refer to blobs
	last     ledger.Seq            // the last event that was read
	blobs    map[[32]byte]blobUse  // of chosen events; seq is the last event that refers to it
	kept     map[[32]byte]struct{} // to which other events refer
	out      store.Erased
}

// Erase implements store.Erasing.
func (s *Store) Erase(ctx context.Context, e store.Erasure, dry bool) (store.Erased, error) {
	if s.readOnly && !dry {
		return store.Erased{}, s.ErrReadOnly()
	}
	p := &erasing{s: s, e: e, runs: map[ledger.Seq]*eraseUnit{}, byID: map[uuid.UUID]*eraseUnit{}, sessions: map[uuid.UUID]*eraseUnit{}, chosen: map[ledger.Seq]Part{},
		parts: map[Part]*partState{}, large: map[ledger.Seq]bool{}, blobs: map[[32]byte]blobUse{}, kept: map[[32]byte]struct{}{}}
	for _, step := range []func(context.Context) error{p.chooseRuns, p.chooseSessions, p.chooseEvents, p.dropPending, p.findBlobs} {
		if err := step(ctx); err != nil {
			return store.Erased{}, s.fault(err, "payloads cannot be erased")
		}
	}
	if dry || p.out.Payloads == 0 {
		return p.out, nil
	}
	whole, err := p.wholeParts(ctx)
	if err == nil {
		err = p.eraseChunks(ctx)
	}
	for _, d := range whole {
		if err == nil {
			err = p.dropPart(ctx, d)
		}
	}
	if err != nil {
		return p.out, s.fault(err, "payloads cannot be erased")
	}
	p.out.Left, err = s.db.Scrub(ctx)
	return p.out, s.fault(err, "erased data may still be in the database's files")
}

// eraseChunks overwrites the payloads that remain to be erased.
func (p *erasing) eraseChunks(ctx context.Context) error {
	for {
		chunk := p.nextChunk()
		if chunk == nil {
			return nil
		}
		if err := p.eraseChunk(ctx, chunk); err != nil {
			return err
		}
	}
}

// chooseRuns finds the runs that are erased.
func (p *erasing) chooseRuns(ctx context.Context) error {
	return each(ctx, p.s.read, "SELECT r.seq, r.status, r.ended, e.body FROM runs r JOIN events e ON e.seq = r.seq ORDER BY r.seq", func(rows *sql.Rows) error {
		var seq ledger.Seq
		var status tool.Status
		var ended int64
		var body []byte
		if err := rows.Scan(&seq, &status, &ended, &body); err != nil {
			return err
		}
		e, err := ledger.Decode(body)
		if err != nil {
			return err
		}
		wanted := seq == p.e.Run || p.e.Holder != "" && e.Principal == p.e.Holder ||
			p.e.Session != uuid.Nil && bytes.Equal(e.Subject, p.e.Session[:]) ||
			p.e.Runs && status != tool.Pending && ended < p.e.Before.UnixMicro()
		switch {
		case !wanted:
		case status == tool.Pending:
			p.out.Open++
		default:
			id, err := uuid.FromBytes(e.ID)
			if err != nil {
				return err
			}
			p.runs[seq] = &eraseUnit{}
			p.byID[id] = p.runs[seq]
			p.out.RunIDs = append(p.out.RunIDs, id)
		}
		return nil
	})
}

// chooseSessions finds the sessions that are erased: deleted ones only.
func (p *erasing) chooseSessions(ctx context.Context) error {
	return each(ctx, p.s.read, "SELECT s.id, s.gone, e.body FROM sessions s JOIN events e ON e.seq = s.seq ORDER BY s.seq", func(rows *sql.Rows) error {
		var raw, body []byte
		var gone int
		if err := rows.Scan(&raw, &gone, &body); err != nil {
			return err
		}
		id, ierr := uuid.FromBytes(raw)
		e, err := ledger.Decode(body)
		if err = errors.Join(ierr, err); err != nil {
			return err
		}
		wanted := id == p.e.Session || p.e.Holder != "" && e.Principal == p.e.Holder || p.e.Sessions && gone == 1 && e.At < p.e.Before.UnixMicro()
		switch {
		case wanted && gone == 1:
			p.sessions[id] = &eraseUnit{session: id}
		case wanted:
			p.out.Live++
		}
		return nil
	})
}

// chooseEvents finds the events that are erased.
func (p *erasing) chooseEvents(ctx context.Context) error {
	return each(ctx, p.s.read, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e ORDER BY seq", func(rows *sql.Rows) error {
		var r rawEvent
		if err := rows.Scan(&r.seq, &r.run, &r.call, &r.body, &r.salt, &r.data); err != nil {
			return err
		}
		p.last = r.seq
		e, err := ledger.Decode(r.body)
		if err != nil || e.Commit == nil {
			return err
		}
		part := PartOf(&e)
		if p.s.isErased(&r, &e) {
			p.part(part).erased++
			return nil
		}
		unit := p.unitOf(r.seq, &e)
		if unit == nil {
			p.part(part).keep(r.seq)
			return nil
		}
		if len(unit.seqs) == 0 {
			p.order = append(p.order, unit)
		}
		unit.seqs, unit.parts = append(unit.seqs, r.seq), append(unit.parts, part)
		p.out.Bytes += int64(len(r.data) + len(r.salt))
		return nil
	})
}

// unitOf gives the unit that an event is erased with; nil: it is not.
func (p *erasing) unitOf(seq ledger.Seq, e *ledger.Event) *eraseUnit {
	class := classOf(e)
	switch {
	case class == SessionPayloads:
		return p.sessions[idOf(e.Subject)]
	case class != RunPayloads:
		return nil
	case e.Kind == ledger.RunStarted:
		return p.runs[seq]
	case e.Kind == ledger.RunQueued || e.Kind == ledger.QueueChanged:
		return p.byID[idOf(e.ID)]
	}
	return p.runs[e.Run]
}

// idOf reads an ID; zero: it is none.
func idOf(b []byte) uuid.UUID {
	id, _ := uuid.FromBytes(b) // zero with an error
	return id
}

// dropPending leaves out the runs whose changes are not applied or discarded yet: that needs
// their payloads.
func (p *erasing) dropPending(ctx context.Context) error {
	var pending []ledger.Seq
	for run, unit := range p.runs {
		state := ledger.Change(0)
		err := each(ctx, p.s.read, "SELECT body FROM events WHERE run = ? AND call = 0 ORDER BY seq", func(rows *sql.Rows) error {
			var body []byte
			if err := rows.Scan(&body); err != nil {
				return err
			}
			if e, err := ledger.Decode(body); err != nil {
				return err
			} else if e.Kind == ledger.Changeset && e.Change != ledger.ChangesFailed {
				state = e.Change
			}
			return nil
		}, int64(run))
		if err != nil {
			return err
		}
		if state == ledger.ChangesHeld || state == ledger.ChangesReview || state == ledger.ChangesApplying || state == ledger.ChangesUndoing {
			pending = append(pending, run)
			for i, seq := range unit.seqs {
				p.part(unit.parts[i]).keep(seq)
			}
			unit.seqs = nil
		}
	}
	for _, run := range pending {
		delete(p.runs, run)
		p.out.Open++
	}
	p.order = slices.DeleteFunc(p.order, func(u *eraseUnit) bool { return len(u.seqs) == 0 })
	for _, u := range p.order {
		for i, seq := range u.seqs {
			p.chosen[seq] = u.parts[i]
		}
		slices.Sort(u.seqs)
		p.out.Payloads += len(u.seqs)
		if u.session != uuid.Nil {
			p.out.Sessions++
		} else {
			p.out.Runs++
		}
	}
	return nil
}

// findBlobs finds the blobs to which only chosen events refer.
func (p *erasing) findBlobs(ctx context.Context) error {
	if len(p.chosen) == 0 {
		return nil
	}
	// place says when an event is erased: blobs go with the last event that refers to them.
	place, n := map[ledger.Seq]ledger.Seq{}, ledger.Seq(0)
	for _, u := range p.order {
		for _, seq := range u.seqs {
			n++
			place[seq] = n
		}
	}
	err := p.references(ctx, p.s.read, 0, func(seq ledger.Seq, ref *ledger.BlobRef) {
		if _, chosen := p.chosen[seq]; !chosen {
			p.kept[ref.Address] = struct{}{}
			return
		}
		p.large[seq] = true
		if use, known := p.blobs[ref.Address]; !known || place[seq] > place[use.seq] {
			p.blobs[ref.Address] = blobUse{ref.Size, seq}
		}
	})
	for a, use := range p.blobs {
		if _, kept := p.kept[a]; kept {
			p.out.Shared++
			delete(p.blobs, a)
			continue
		}
		p.out.Blobs++
		p.out.Bytes += use.size
	}
	return err
}

// references calls f for each blob to which an event after one refers.
func (p *erasing) references(ctx context.Context, q Querier, after ledger.Seq, f func(ledger.Seq, *ledger.BlobRef)) error {
	return each(ctx, q, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq > ? AND data IS NOT NULL ORDER BY seq", func(rows *sql.Rows) error {
		var r rawEvent
		if err := rows.Scan(&r.seq, &r.run, &r.call, &r.body, &r.salt, &r.data); err != nil {
			return err
		}
		st, err := p.s.decode(&r)
		for _, part := range st.Parts {
			if part.Blob != nil {
				f(r.seq, part.Blob)
			}
		}
		return err
	}, int64(after))
}

// nextChunk takes the events of the next transaction; nil: all were taken.
func (p *erasing) nextChunk() []*eraseUnit {
	var out []*eraseUnit
	for n := 0; len(p.order) > 0 && n < eraseAtOnce; {
		u := p.order[0]
		if room := eraseAtOnce - n; u.session == uuid.Nil && len(u.seqs) > room {
			out = append(out, &eraseUnit{seqs: u.seqs[:room]})
			u.seqs = u.seqs[room:]
			break
		}
		out, p.order = append(out, u), p.order[1:]
		n += len(u.seqs)
	}
	return out
}

// eraseChunk erases events in one transaction, with the event that says so.
func (p *erasing) eraseChunk(ctx context.Context, units []*eraseUnit) error {
	var seqs []ledger.Seq
	for _, u := range units {
		seqs = append(seqs, u.seqs...)
	}
	slices.Sort(seqs)
	entry, err := p.entry(seqs)
	if err != nil {
		return err
	}
	none := func(context.Context, *writer, *request) error { return nil }
	return p.s.changes(ctx, []ledger.Entry{entry}, true, none, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		if _, err := w.exec(ctx, "INSERT INTO erasing(id) VALUES(1)"); err != nil {
			return err
		}
		for _, u := range units {
			if err := p.eraseFiles(ctx, w, u.session); err != nil {
				return err
			}
		}
		for _, seq := range seqs {
			if err := p.eraseEvent(ctx, w, seq); err != nil {
				return err
			}
		}
		if err := p.eraseBlobs(ctx, w, seqs); err != nil {
			return err
		}
		_, err := w.exec(ctx, "DELETE FROM erasing")
		return err
	})
}

// entry is the event that tells of an erasure.
func (p *erasing) entry(seqs []ledger.Seq) (ledger.Entry, error) {
	doc, err := json.Marshal(ledger.OperatorAction{Target: p.e.Scope, Events: ledger.FormatSeqs(seqs)})
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "an erasure cannot be encoded")
	}
	return ledger.Entry{Payload: ledger.Payload{ledger.PartDoc: doc}, Durable: true, Event: ledger.Event{
		Kind: ledger.Operated, At: time.Now().UnixMicro(), Name: ledger.EraseAction, Principal: p.e.By, Total: uint32(len(seqs)),
	}}, nil
}

// eraseEvent overwrites an event's payload and salt.
func (p *erasing) eraseEvent(ctx context.Context, w *writer, seq ledger.Seq) error {
	st, err := w.stmt(ctx, "SELECT body FROM events WHERE seq = ?")
	if err != nil {
		return err
	}
	var body []byte
	if err := st.QueryRowContext(ctx, int64(seq)).Scan(&body); err != nil {
		return err
	}
	mark := p.s.keys.erasedMark(seq, body)
	_, err = w.exec(ctx, cmp.Or(p.s.dialect.EraseEvent, eraseEvent), w.tags.tag(p.s.tagged(seq), body, nil, mark), mark, int64(seq))
	return err
}

// eraseFiles removes the rows of a session's files: they have the paths.
func (p *erasing) eraseFiles(ctx context.Context, w *writer, session uuid.UUID) error {
	if session == uuid.Nil {
		return nil
	}
	var paths []string
	err := each(ctx, w.conn, "SELECT path FROM files WHERE session = ?", func(rows *sql.Rows) error {
		var path string
		err := rows.Scan(&path)
		paths = append(paths, path)
		return err
	}, session[:])
	for _, path := range paths {
		if err == nil {
			err = w.remove(ctx, tableFiles, session[:], path)
		}
	}
	return err
}

// eraseBlobs removes the blobs whose last reference was erased. No other process can append
// meanwhile; events that were appended since the blobs were chosen are read.
func (p *erasing) eraseBlobs(ctx context.Context, w *writer, seqs []ledger.Seq) error {
	var due [][32]byte
	now := make(map[ledger.Seq]bool, len(seqs))
	for _, seq := range seqs {
		now[seq] = true
	}
	for a, use := range p.blobs {
		if now[use.seq] {
			due = append(due, a)
			delete(p.blobs, a)
		}
	}
	if len(due) == 0 {
		return nil
	}
	fresh := map[[32]byte]struct{}{}
	if err := p.references(ctx, w.conn, p.last, func(_ ledger.Seq, ref *ledger.BlobRef) { fresh[ref.Address] = struct{}{} }); err != nil {
		return err
	}
	for _, a := range due {
		if _, used := fresh[a]; used {
			p.out.Blobs--
			p.out.Shared++
			continue
		}
		if _, err := w.exec(ctx, "DELETE FROM blobs WHERE address = ?", a[:]); err != nil {
			return err
		}
	}
	return nil
}
