package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// blockSize is how many consecutive events share a row of table blocks for each mark.
// Small blocks are read faster, large ones need fewer rows. It is part of the format.
const blockSize = 256

func blockOf(seq ledger.Seq) int64 { return int64(seq-1) / blockSize }

// inBlock is a row of table blocks: the block has events with the mark.
type inBlock struct {
	mark  store.Mark
	block int64
}

type callOf struct {
	run  ledger.Seq
	call uint32
}

// marker determines the marks of events. It must see them in order. Between
// events it remembers the calls that have not ended.
type marker struct {
	open map[callOf]store.Called
	buf  []store.Mark
}

func newMarker() *marker { return &marker{open: map[callOf]store.Called{}} }

// marks returns the marks of the next event, valid until marks is called again.
// first finds the first event of a call that the marker has not seen.
func (m *marker) marks(e *ledger.Event, bounded bool, first func() (store.Called, error)) ([]store.Mark, error) {
	key, c := callOf{e.Run, e.Call}, store.Called{}
	switch e.Kind {
	case ledger.CallDone:
		c = store.Called{Tool: e.Tool, Bounded: bounded}
	case ledger.CallIntent:
		c = store.Called{Tool: e.Tool, Bounded: bounded}
		m.open[key] = c
	case ledger.CallOutcome:
		var ok bool
		if c, ok = m.open[key]; ok {
			delete(m.open, key)
			break
		}
		var err error
		if c, err = first(); err != nil {
			return nil, err
		}
	}
	m.buf = store.Marks(m.buf[:0], e, c)
	return m.buf, nil
}

const (
	insertBlock  = "INSERT INTO blocks(mark, block) VALUES(?, ?) ON CONFLICT DO NOTHING"
	selectIntent = "SELECT seq, run, call, body, salt, data FROM " + EventsAndPayloads + " e WHERE run = ? AND call = ? ORDER BY seq LIMIT 1"
)

// markBlock keeps table blocks up to date.
func (w *writer) markBlock(ctx context.Context, seq ledger.Seq, r *row) error {
	marks, err := w.marker.marks(r.event, r.bounded, func() (store.Called, error) { return w.s.called(ctx, w.conn, r.event.Run, r.event.Call) })
	if err != nil {
		return err
	}
	block := blockOf(seq)
	if block != w.block {
		w.block = block
		clear(w.marked)
	}
	for _, m := range marks {
		if w.marked[m] {
			continue
		}
		if _, err := w.exec(ctx, insertBlock, string(m), block); err != nil {
			return err
		}
		w.marked[m] = true
	}
	return nil
}

// called reads the marks that the first event of a call determines.
func (s *Store) called(ctx context.Context, q Querier, run ledger.Seq, call uint32) (store.Called, error) {
	var raw rawEvent
	err := q.QueryRowContext(ctx, selectIntent, int64(run), int64(call)).Scan(&raw.seq, &raw.run, &raw.call, &raw.body, &raw.salt, &raw.data)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Called{}, nil
	}
	if err != nil {
		return store.Called{}, err
	}
	st, err := s.decode(&raw)
	_, bounded := st.Parts[ledger.PartBounds]
	return store.Called{Tool: st.Event.Tool, Bounded: bounded}, err
}

// FillBlocks makes the rows of events that were recorded before the table
// existed. It leaves out unreadable events, which Verify reports.
func (s *Store) FillBlocks(ctx context.Context, tx *sql.Tx) error {
	m, known := newMarker(), map[inBlock]bool{}
	none := func() (store.Called, error) { return store.Called{}, nil }
	for at := ledger.Seq(0); ; {
		last := at
		err := each(ctx, tx, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq > ? ORDER BY seq LIMIT 4096", func(rows *sql.Rows) error {
			var raw rawEvent
			if err := rows.Scan(&raw.seq, &raw.run, &raw.call, &raw.body, &raw.salt, &raw.data); err != nil {
				return err
			}
			at = raw.seq
			st, err := s.decodeRow(&raw)
			if err != nil && st.Event.Kind == 0 {
				return nil // unreadable events are left out
			}
			_, bounded := st.Parts[ledger.PartBounds]
			marks, err := m.marks(&st.Event, bounded, none)
			for _, mark := range marks {
				known[inBlock{mark, blockOf(raw.seq)}] = true
			}
			return err
		}, int64(at))
		if err != nil {
			return err
		}
		if at == last {
			break
		}
		for b := range known {
			if _, err := tx.ExecContext(ctx, insertBlock, string(b.mark), b.block); err != nil {
				return err
			}
		}
		clear(known)
	}
	return nil
}

// blocks checks table blocks against the events.
func (v *verification) blocks(ctx context.Context) error {
	if v.s.format < BlocksFormat {
		return nil
	}
	err := each(ctx, v.q, "SELECT mark, block FROM blocks WHERE block >= ?", func(rows *sql.Rows) error {
		var b inBlock
		if err := rows.Scan(&b.mark, &b.block); err != nil {
			return err
		}
		if !v.inBlocks[b] && !(v.erasedIn[b.block] && b.mark == store.MarkBounded) { // an erased payload had told of the bounds
			return v.problem("blocks", b.key(), b.first(), "events %d to %d have no such mark", b.first(), b.first()+blockSize-1)
		}
		delete(v.inBlocks, b)
		return nil
	}, v.firstBlock())
	if err != nil {
		return err
	}
	for b := range v.inBlocks {
		if err := v.problem("blocks", b.key(), b.first(), "the mark of events from %d on is not listed, so lists leave them out", b.first()); err != nil {
			return err
		}
	}
	return nil
}

func (b inBlock) key() string { return fmt.Sprintf("%q in %d", b.mark, b.block) }

func (b inBlock) first() ledger.Seq { return ledger.Seq(max(b.block, 0))*blockSize + 1 }

// disorder is how far the times of events can differ from their order. Concurrent
// calls are recorded when they end.
const disorder = time.Hour

// Find implements store.Store.
func (s *Store) Find(ctx context.Context, f store.EventFilter) iter.Seq2[ledger.Stored, error] {
	return func(yield func(ledger.Stored, error) bool) {
		if err := s.find(ctx, f, func(st ledger.Stored) bool { return yield(st, nil) }); err != nil {
			yield(ledger.Stored{}, err)
		}
	}
}

func (s *Store) find(ctx context.Context, f store.EventFilter, yield func(ledger.Stored) bool) error {
	lo, hi, err := s.span(ctx, f)
	if err != nil {
		return err
	}
	if len(f.Marks) == 0 || s.format < BlocksFormat {
		_, err := s.backwards(ctx, f.Marks, lo, hi, yield)
		return err
	}
	if slices.ContainsFunc(f.Marks, func(any []store.Mark) bool { return len(any) == 0 }) {
		return nil // no event has a mark from an empty set
	}
	for lo <= hi {
		blocks, err := s.lastBlocks(ctx, f.Marks, blockOf(lo), blockOf(hi))
		if err != nil {
			return err
		}
		for _, b := range blocks {
			first := inBlock{block: b}.first()
			if done, err := s.backwards(ctx, f.Marks, max(lo, first), min(hi, first+blockSize-1), yield); done || err != nil {
				return err
			}
			hi = first - 1
		}
		if len(blocks) < page {
			return nil
		}
	}
	return nil
}

// backwards yields the events between two, newest first; done is true if the
// reader wants to stop.
func (s *Store) backwards(ctx context.Context, marks [][]store.Mark, lo, hi ledger.Seq, yield func(ledger.Stored) bool) (done bool, err error) {
	most := page
	if len(marks) == 0 {
		most = 1 // see Events
	}
	for ; hi >= lo; most = min(page, 16*most) {
		var batch []rawEvent
		if batch, err = s.rawEvents(ctx, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT ?", int64(lo), int64(hi), most); err != nil {
			return false, err
		}
		for i := range batch {
			if e, err := ledger.Decode(batch[i].body); err == nil && !mayHave(&e, marks) {
				continue // neither its payload nor its columns are looked at
			}
			st, err := s.decode(&batch[i])
			if err != nil {
				return false, err
			}
			if !yield(st) {
				return true, nil
			}
		}
		if len(batch) < most {
			return false, nil
		}
		hi = batch[len(batch)-1].seq - 1
	}
	return false, nil
}

// mayHave reports whether an event can have the marks, judged by this event
// alone.
func mayHave(e *ledger.Event, all [][]store.Mark) bool {
	var buf [8]store.Mark
	marks := store.Marks(buf[:0], e, store.Called{})
	for _, any := range all {
		if !slices.ContainsFunc(any, func(m store.Mark) bool {
			return slices.Contains(marks, m) || e.Kind.OfCall() && m == store.MarkBounded || e.Kind == ledger.CallOutcome && m.OfFirst()
		}) {
			return false
		}
	}
	return true
}

// lastBlocks returns the last blocks between two that have all marks, newest
// first.
func (s *Store) lastBlocks(ctx context.Context, all [][]store.Mark, lo, hi int64) ([]int64, error) {
	args := []any{}
	in := func(any []store.Mark) string {
		for _, m := range any {
			args = append(args, string(m))
		}
		return "(?" + strings.Repeat(", ?", len(any)-1) + ")"
	}
	query := "SELECT DISTINCT block FROM blocks b WHERE mark IN " + in(all[0])
	for _, any := range all[1:] {
		query += " AND EXISTS(SELECT 1 FROM blocks o WHERE o.block = b.block AND o.mark IN " + in(any) + ")"
	}
	var out []int64
	err := each(ctx, s.read, query+" AND block BETWEEN ? AND ? ORDER BY block DESC LIMIT ?", func(rows *sql.Rows) error {
		var b int64
		err := rows.Scan(&b)
		out = append(out, b)
		return err
	}, append(args, lo, hi, page)...)
	return out, s.fault(err, "events cannot be read")
}

// span returns the part of the ledger that can hold a filter's events, by their
// times. Times are in order, except for [disorder].
func (s *Store) span(ctx context.Context, f store.EventFilter) (lo, hi ledger.Seq, err error) {
	var last int64
	if err := s.read.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM events").Scan(&last); err != nil {
		return 0, 0, s.fault(err, "events cannot be read")
	}
	lo, hi = 1, ledger.Seq(last)
	if f.Before > 0 {
		hi = min(hi, f.Before-1)
	}
	if !f.Since.IsZero() && lo <= hi {
		if lo, err = s.firstAt(ctx, lo, hi, f.Since.Add(-disorder)); err != nil {
			return 0, 0, err
		}
	}
	if !f.Until.IsZero() && lo <= hi {
		if hi, err = s.firstAt(ctx, lo, hi, f.Until.Add(disorder)); err != nil {
			return 0, 0, err
		}
	}
	return lo, hi, nil
}

// firstAt finds, by binary search, the first of the events lo to hi that reaches
// a time; hi if there is none.
func (s *Store) firstAt(ctx context.Context, lo, hi ledger.Seq, at time.Time) (ledger.Seq, error) {
	for lo < hi {
		middle := lo + (hi-lo)/2
		var body []byte
		err := s.read.QueryRowContext(ctx, "SELECT body FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", int64(middle)).Scan(&body)
		if err != nil {
			return 0, s.fault(err, "events cannot be read")
		}
		e, err := ledger.Decode(body)
		if err != nil {
			return 0, fault.Wrap(fault.StoreCorrupt, err, "event %d in %q is not as it was recorded: %s", middle, s.name, fault.Message(err)).
				ForOperator("remit verify lists the changed records")
		}
		if e.At >= at.UnixMicro() {
			hi = middle
		} else {
			lo = middle + 1
		}
	}
	return lo, nil
}

// firstBlock is the block of the first event that is read. Rows of blocks before the first
// one belong to none.
func (v *verification) firstBlock() int64 {
	if v.start == 0 {
		return v.startAfter()
	}
	return v.start / blockSize
}
