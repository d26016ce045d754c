package tables

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"iter"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// page is how many events a listing reads at once. Between two pages no
// connection is held. So a slow reader does not keep an old state of the file
// alive, and it may use the store meanwhile.
const page = 128

const defaultRuns = 20 // of a list

// runColumns reads runs with the events that began them.
func (s *Store) runColumns() string {
	return "SELECT r.seq, r.id, r.mode, r.started, r.status, r.ended, r.total, r.completed, r.denied, r.failed, " + s.refused() +
		", e.run, e.call, e.body, e.salt, e.data FROM runs r JOIN " + EventsAndPayloads + " e ON e.seq = r.seq"
}

// selectProjected reads table runs.
func (s *Store) selectProjected() string {
	return "SELECT seq, id, status, mode, started, ended, total, completed, denied, failed, " + s.refused() + " FROM runs"
}

// refused names the column that a file of the first format lacks.
func (s *Store) refused() string {
	if s.format < 2 {
		return "0"
	}
	return "refused"
}

// Runs implements store.Store.
func (s *Store) Runs(ctx context.Context, f store.RunFilter) ([]ledger.Run, error) {
	var where []string
	var args []any
	and := func(cond string, values ...any) {
		where = append(where, cond)
		args = append(args, values...)
	}
	if f.Status == ledger.Running {
		and("r.status = 0")
	} else if f.Status != "" {
		st, ok := tool.ParseStatus(f.Status)
		if !ok || st == tool.Pending {
			return nil, fault.New(fault.Usage, "%q is not a run status", f.Status).
				WithHint("use running, completed, denied, failed, timeout, cancelled or interrupted")
		}
		and("r.status = ?", int64(st))
	}
	if f.Mode != 0 {
		and("r.mode = ?", int64(f.Mode))
	}
	if !f.Since.IsZero() {
		and("r.started >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		and("r.started < ?", f.Until.UnixMicro())
	}
	if f.Failed {
		and("r.failed > 0")
	}
	if f.Denied {
		and("(r.denied > 0 OR " + s.refused() + " > 0)")
	}
	if f.Tool != "" {
		and("EXISTS(SELECT 1 FROM run_tools t WHERE t.tool = ? AND t.run = r.seq)", string(f.Tool))
	}
	if len(f.Without) > 0 {
		names := make([]any, len(f.Without))
		for i, id := range f.Without {
			names[i] = string(id)
		}
		and("NOT (r.mode = "+strconv.Itoa(int(ledger.Live))+" AND r.total = 1 AND r.denied = 0 AND r.failed = 0 AND "+s.refused()+" = 0 AND EXISTS(SELECT 1 FROM run_tools t WHERE t.run = r.seq AND t.tool IN (?"+
			strings.Repeat(", ?", len(names)-1)+")))", names...)
	}
	if f.Before != 0 {
		and("r.seq < ?", int64(f.Before))
	}
	query := s.runColumns()
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultRuns
	}
	return s.selectRuns(ctx, query+" ORDER BY r.seq DESC LIMIT ?", append(args, limit)...)
}

func (s *Store) selectRuns(ctx context.Context, query string, args ...any) ([]ledger.Run, error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.fault(err, "runs cannot be read")
	}
	defer rows.Close()
	var out []ledger.Run
	for rows.Next() {
		var raw rawEvent
		var id []byte
		var status, mode, started, ended int64
		var total, completed, denied, failed, refused int
		if err := rows.Scan(&raw.seq, &id, &mode, &started, &status, &ended, &total, &completed, &denied, &failed, &refused, &raw.run, &raw.call, &raw.body, &raw.salt, &raw.data); err != nil {
			return nil, s.fault(err, "runs cannot be read")
		}
		st, err := s.decode(&raw)
		if err != nil {
			return nil, err
		}
		r := ledger.NewRun(st)
		r.Unverified = !bytes.Equal(id, r.ID[:]) || status != int64(tool.Status(status)) || mode != int64(r.Mode) || started != st.Event.At || status == 0 && total != r.Total
		r.Total, r.Completed, r.Denied, r.Failed, r.Refused = total, completed, denied, failed, refused
		if status != 0 {
			r.Status, r.Ended = tool.Status(status).String(), ledger.Time(ended)
		}
		out = append(out, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, s.fault(err, "runs cannot be read")
	}
	for i := range out {
		if err := s.compareEnd(ctx, &out[i]); err != nil {
			return nil, s.fault(err, "runs cannot be read")
		}
	}
	return out, nil
}

// compareEnd gives a run the end that its events tell: the table of runs is not sealed. A run
// whose row says something else is not verified.
func (s *Store) compareEnd(ctx context.Context, r *ledger.Run) error {
	var end *ledger.Event
	var stillOpen int
	err := s.eachAuthentic(ctx, "run = ? AND call = 0", func(raw *rawEvent) error {
		e, err := ledger.Decode(raw.body)
		if err == nil && e.Kind == ledger.RunFinished {
			end = &e
		}
		return err
	}, int64(r.Seq))
	switch {
	case errors.Is(err, fault.StoreCorrupt), end == nil && r.Status != ledger.Running:
		r.Unverified = true
		return nil
	case err != nil || end == nil:
		return err
	}
	told := *r
	open, row := r.Status == ledger.Running, *r
	if open { // unless it has ended since its row was read
		if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM runs WHERE seq = ? AND status = 0", int64(r.Seq)).Scan(&stillOpen); err != nil {
			return err
		}
	}
	told.Status, told.Ended = end.Status.String(), ledger.Time(end.At)
	t := end.Tally()
	told.Total, told.Completed, told.Denied, told.Failed, told.Refused = t.Total, t.Completed, t.Denied, t.Failed, t.Refused
	told.Unverified = row.Unverified || stillOpen > 0 || !open && (row.Status != told.Status || !row.Ended.Equal(told.Ended) || row.Total != told.Total || row.Completed != told.Completed ||
		row.Denied != told.Denied || row.Failed != told.Failed || row.Refused != told.Refused)
	*r = told
	return nil
}

// Run implements store.Store.
func (s *Store) Run(ctx context.Context, id string) (ledger.Run, error) {
	lo, hi, err := prefix(id)
	if err != nil {
		return ledger.Run{}, err
	}
	runs, err := s.selectRuns(ctx, s.runColumns()+" WHERE r.id BETWEEN ? AND ? ORDER BY r.seq DESC LIMIT 3", lo, hi)
	if err != nil {
		return ledger.Run{}, err
	}
	switch len(runs) {
	case 0:
		return ledger.Run{}, fault.New(fault.RunUnknown, "no run has the ID %q", id).ForOperator("remit runs lists them")
	case 1:
		return runs[0], nil
	}
	return ledger.Run{}, fault.New(fault.RunUnknown, "several runs have an ID that begins with %q", id).
		WithHint("write more of it: %s, %s, ...", runs[0].ID, runs[1].ID)
}

// prefix returns the first and the last possible ID that begins with s.
func prefix(s string) (lo, hi []byte, err error) {
	digits := strings.ReplaceAll(s, "-", "")
	pad := func(c string) ([]byte, error) {
		return hex.DecodeString(digits + strings.Repeat(c, max(0, 32-len(digits))))
	}
	if len(digits) < 4 || len(digits) > 32 || len(s) > 36 {
		return nil, nil, fault.New(fault.RunUnknown, "%q is not a run ID", s).WithHint("write at least its first 4 characters")
	}
	lo, err = pad("0")
	if err != nil {
		return nil, nil, fault.New(fault.RunUnknown, "%q is not a run ID", s).ForOperator("remit runs lists them")
	}
	hi, err = pad("f")
	return lo, hi, err
}

// Calls implements store.Store.
func (s *Store) Calls(ctx context.Context, run ledger.Seq) iter.Seq2[ledger.Call, error] {
	return s.CallsFrom(ctx, run, 1)
}

// CallsFrom implements store.Store.
func (s *Store) CallsFrom(ctx context.Context, run ledger.Seq, index int) iter.Seq2[ledger.Call, error] {
	return func(yield func(ledger.Call, error) bool) {
		var open *ledger.Call
		next := func(st ledger.Stored) (bool, error) {
			e := &st.Event
			if !e.Kind.OfCall() { // a question or violation that names it
				return true, nil
			}
			if e.Kind == ledger.CallOutcome {
				if open == nil || open.Index != int(e.Call) || open.Outcome != 0 {
					return false, fault.New(fault.StoreCorrupt, "event %d is the outcome of a call without an intent", st.Seq).ForOperator("remit verify lists the changed records")
				}
				open.Close(st)
				return true, nil
			}
			if open != nil && !yield(*open, nil) {
				return false, nil
			}
			c := ledger.NewCall(st)
			open = &c
			return true, nil
		}
		// A second bound on call would make SQLite read each page from the first call on.
		const query = "SELECT seq, run, call, body, salt, data FROM " + EventsAndPayloads + " e WHERE run = ?1 AND (call, seq) > (?2, ?3) ORDER BY call, seq LIMIT ?4"
		call, seq := int64(max(index, 1)), int64(0)
		more, err := true, error(nil)
		for more {
			var batch []ledger.Stored
			if batch, err = s.selectEvents(ctx, query, int64(run), call, seq, page); err != nil {
				break
			}
			for _, st := range batch {
				if more, err = next(st); err != nil || !more {
					break
				}
				call, seq = int64(st.Event.Call), int64(st.Seq)
			}
			if err != nil || len(batch) < page {
				break
			}
		}
		if err != nil {
			yield(ledger.Call{}, err)
		} else if more && open != nil {
			yield(*open, nil)
		}
	}
}

// Call implements store.Store.
func (s *Store) Call(ctx context.Context, run ledger.Seq, index int) (ledger.Call, error) {
	found, err := s.selectEvents(ctx, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE run = ? AND call = ? ORDER BY seq", int64(run), int64(index))
	if err != nil {
		return ledger.Call{}, err
	}
	var c ledger.Call
	for _, st := range found {
		switch k := st.Event.Kind; {
		case k == ledger.CallIntent || k == ledger.CallDone:
			c = ledger.NewCall(st)
		case k == ledger.CallOutcome && c.Intent != 0:
			c.Close(st)
		}
	}
	if c.Index != index || index <= 0 {
		return c, fault.New(fault.RunUnknown, "run %d has no call %d", run, index)
	}
	return c, nil
}

// LastCall implements store.Store. The index events_run gives it.
func (s *Store) LastCall(ctx context.Context, run ledger.Seq) (int, error) {
	var last int
	err := s.read.QueryRowContext(ctx, "SELECT coalesce(max(call), 0) FROM events WHERE run = ?", int64(run)).Scan(&last)
	return last, s.fault(err, "the last call of a run cannot be read")
}

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, from ledger.Seq) iter.Seq2[ledger.Stored, error] {
	return func(yield func(ledger.Stored, error) bool) {
		at := from
		for most := 1; ; most = min(page, 16*most) { // many callers need only the first event
			batch, err := s.selectEvents(ctx, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq >= ? ORDER BY seq LIMIT ?", int64(at), most)
			if err != nil {
				yield(ledger.Stored{}, err)
				return
			}
			for _, st := range batch {
				if !yield(st, nil) {
					return
				}
			}
			if len(batch) < most {
				return
			}
			at = batch[len(batch)-1].Seq + 1
		}
	}
}

// rawEvent is a row of events.
type rawEvent struct {
	seq        ledger.Seq
	run, call  int64
	body       []byte
	salt, data []byte
}

func (s *Store) selectEvents(ctx context.Context, query string, args ...any) ([]ledger.Stored, error) {
	raw, err := s.rawEvents(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	out := make([]ledger.Stored, len(raw))
	for i := range raw {
		if out[i], err = s.decode(&raw[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// eachAuthentic gives the events that match a condition, in their order, each as this ledger
// recorded it.
func (s *Store) eachAuthentic(ctx context.Context, where string, take func(*rawEvent) error, args ...any) error {
	tags := newTagger(s.keys)
	return each(ctx, s.read, "SELECT seq, run, call, tag, body, salt, data FROM "+EventsAndPayloads+" e WHERE "+where+" ORDER BY seq", func(rows *sql.Rows) error {
		var r rawEvent
		var tag int64
		if err := rows.Scan(&r.seq, &r.run, &r.call, &tag, &r.body, &r.salt, &r.data); err != nil {
			return err
		}
		if err := s.authentic(&r, tag, tags); err != nil {
			return err
		}
		return take(&r)
	}, args...)
}

func (s *Store) rawEvents(ctx context.Context, query string, args ...any) ([]rawEvent, error) {
	var out []rawEvent
	err := each(ctx, s.read, query, func(rows *sql.Rows) error {
		var raw rawEvent
		err := rows.Scan(&raw.seq, &raw.run, &raw.call, &raw.body, &raw.salt, &raw.data)
		out = append(out, raw)
		return err
	}, args...)
	return out, s.fault(err, "events cannot be read")
}

// authentic checks an event's tag, where a decision follows from the event: somebody without the
// keys can rewrite an event together with its commitment. Of a dropped payload the tag covers data
// that is gone.
func (s *Store) authentic(r *rawEvent, tag int64, tags *tagger) error {
	e, err := ledger.Decode(r.body)
	if err == nil && r.inPlace(&e) && (tags.tag(s.tagged(r.seq), r.body, r.salt, r.data) == tag || s.isDropped(r, &e)) {
		return nil
	}
	return fault.New(fault.StoreCorrupt, "event %d in %q was changed", r.seq, s.name).ForOperator("remit verify lists the changed records")
}

// inPlace reports whether the columns by which an event is found are those of its body.
func (r *rawEvent) inPlace(e *ledger.Event) bool {
	return r.run == int64(e.Run) && r.call == int64(e.Call)
}

// decode reads a row and checks the payload against the event's commitment.
func (s *Store) decode(r *rawEvent) (ledger.Stored, error) {
	st, err := s.decodeRow(r)
	if err != nil {
		return st, fault.Wrap(fault.StoreCorrupt, err, "event %d in %q is not as it was recorded: %s", r.seq, s.name, fault.Message(err)).
			ForOperator("remit verify lists the changed records")
	}
	return st, nil
}

func (s *Store) decodeRow(r *rawEvent) (ledger.Stored, error) {
	st := ledger.Stored{Seq: r.seq}
	var err error
	if st.Event, err = ledger.Decode(r.body); err != nil {
		return st, err
	}
	if !r.inPlace(&st.Event) {
		return st, fault.New(fault.StoreCorrupt, "its columns run and call differ from its body")
	}
	if st.Event.Commit == nil {
		if r.salt != nil || r.data != nil {
			return st, fault.New(fault.StoreCorrupt, "it has a payload that it does not commit to")
		}
		return st, nil
	}
	if s.isErased(r, &st.Event) {
		st.Erased = true
		return st, nil
	}
	if r.salt == nil && r.data == nil {
		return st, fault.New(fault.StoreCorrupt, "its payload is missing")
	}
	data, err := s.pack.payload(r.data)
	if err != nil {
		return st, err
	}
	if c := ledger.Commitment(r.salt, data); len(r.salt) != ledger.SaltSize || !bytes.Equal(c[:], st.Event.Commit) {
		return st, fault.New(fault.StoreCorrupt, "its payload or salt differs from what it commits to")
	}
	st.Parts, err = ledger.DecodeParts(data)
	return st, err
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, p ledger.Part) ([]byte, error) {
	if p.Blob == nil {
		return p.Inline, nil
	}
	var size int64
	var enc int
	var data []byte
	err := s.read.QueryRowContext(ctx, "SELECT size, enc, data FROM blobs WHERE address = ?", p.Blob.Address[:]).Scan(&size, &enc, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.StoreCorrupt, "a blob of %d bytes is missing in %q", p.Blob.Size, s.name).
			ForOperator("remit verify names the event that refers to it")
	}
	if err != nil {
		return nil, s.fault(err, "a blob cannot be read")
	}
	b, err := s.openBlob(p.Blob.Address[:], size, enc, data)
	if err == nil && size != p.Blob.Size {
		err = fault.New(fault.StoreCorrupt, "a blob has %d bytes, not %d", size, p.Blob.Size)
	}
	return b, err
}

// openBlob returns a blob's bytes, checked against its address.
func (s *Store) openBlob(address []byte, size int64, enc int, data []byte) ([]byte, error) {
	b := data
	switch enc {
	case encRaw:
	case encZstd:
		var err error
		if b, err = s.pack.unpack(data); err != nil {
			return nil, err
		}
	default:
		return nil, fault.New(fault.StoreCorrupt, "a blob has the unknown encoding %d", enc)
	}
	if a := s.keys.address(b); !bytes.Equal(a[:], address) || int64(len(b)) != size {
		return nil, fault.New(fault.StoreCorrupt, "the bytes of blob %x differ from the recorded ones", address)
	}
	return b, nil
}

// runID formats a run's ID for messages.
func runID(b []byte) string {
	id, err := uuid.FromBytes(b)
	if err != nil {
		return hex.EncodeToString(b)
	}
	return id.String()
}
