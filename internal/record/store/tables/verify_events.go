package tables

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// checkedEvent is the result of checking one event by itself.
type checkedEvent struct {
	event    ledger.Event
	leaf     tlog.Hash
	refs     []ledger.BlobRef
	file     sealedRow // the row of a file that it makes
	labels   ledger.FileLabels
	problems []string
	changed  bool // its body or place differs from the recorded one
	decoded  bool
	erased   bool         // its payload was erased
	erases   []ledger.Seq // events whose payloads it says were erased
	bounded  bool         // it has a ledger.PartBounds
	newKey   string       // the public key of the ledger that it announces
}

const chunkSize = 256

// chunk is a group of consecutive events. One of several checkers checks it, then
// the chunks are put back in order. Chunks are used again.
type chunk struct {
	rows    []rawEvent
	tags    []int64
	checked []checkedEvent
	bytes   []byte // the bodies, salts and payloads of rows
	done    chan struct{}
}

// events checks the events from v.start on: one goroutine reads, several decode and
// hash, and the caller's takes them in order.
func (v *verification) events(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	work, order, free := make(chan *chunk, 4), make(chan *chunk, 8), make(chan *chunk, 16)
	g.Go(func() error {
		defer close(order)
		defer close(work)
		return v.readChunks(ctx, work, order, free)
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			tags := newTagger(v.s.keys)
			for c := range work {
				for i := range c.rows {
					v.s.check(&c.rows[i], c.tags[i], tags, &c.checked[i])
				}
				close(c.done)
			}
			return nil
		})
	}
	err := v.takeChunks(ctx, order, free)
	if err != nil {
		cancel()
		for range order { // already read
		}
	}
	if gerr := g.Wait(); err == nil {
		err = gerr
	}
	return err
}

func (v *verification) takeChunks(ctx context.Context, order <-chan *chunk, free chan<- *chunk) error {
	for c := range order {
		<-c.done
		for i := range c.rows {
			if err := v.event(ctx, &c.rows[i], &c.checked[i]); err != nil {
				return err
			}
		}
		select {
		case free <- c:
		default: // enough are waiting
		}
		if v.progress != nil {
			v.progress(v.rep.Events, uint64(v.log.Size))
		}
	}
	return nil
}

func (v *verification) readChunks(ctx context.Context, work, order chan<- *chunk, free <-chan *chunk) error {
	c := newChunk(free)
	send := func() error {
		for _, to := range []chan<- *chunk{work, order} {
			select {
			case to <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c = newChunk(free)
		return nil
	}
	err := each(ctx, v.q, "SELECT seq, run, call, tag, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq > ? ORDER BY seq", func(rows *sql.Rows) error {
		if err := c.add(rows); err != nil {
			return err
		}
		if len(c.rows) == chunkSize {
			return send()
		}
		return nil
	}, v.startAfter())
	if err == nil && len(c.rows) > 0 {
		err = send()
	}
	return err
}

// newChunk returns an empty chunk, one that was used before if there is one.
func newChunk(free <-chan *chunk) *chunk {
	select {
	case c := <-free:
		clear(c.checked)
		*c = chunk{rows: c.rows[:0], tags: c.tags[:0], checked: c.checked[:0], bytes: c.bytes[:0], done: make(chan struct{})}
		return c
	default:
		return &chunk{rows: make([]rawEvent, 0, chunkSize), tags: make([]int64, 0, chunkSize), checked: make([]checkedEvent, 0, chunkSize), done: make(chan struct{})}
	}
}

// add appends the row that rows is at.
func (c *chunk) add(rows *sql.Rows) error {
	var r rawEvent
	var tag int64
	var body, salt, data sql.RawBytes
	if err := rows.Scan(&r.seq, &r.run, &r.call, &tag, &body, &salt, &data); err != nil {
		return err
	}
	r.body, r.salt, r.data = c.keep(body), c.keep(salt), c.keep(data)
	c.rows, c.tags, c.checked = append(c.rows, r), append(c.tags, tag), append(c.checked, checkedEvent{})
	return nil
}

// keep copies bytes that are valid only until the next row is read; nil stays nil.
func (c *chunk) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	at := len(c.bytes)
	c.bytes = append(c.bytes, b...)
	return c.bytes[at:len(c.bytes):len(c.bytes)]
}

// check checks an event by itself.
func (s *Store) check(r *rawEvent, tag int64, tags *tagger, out *checkedEvent) {
	out.leaf = tlog.RecordHash(r.body)
	st, err := s.decodeRow(r)
	if tags.tag(s.tagged(r.seq), r.body, r.salt, r.data) != tag && !s.isDropped(r, &st.Event) { // the tag of a dropped payload covers lost data
		out.changed = true
		out.problems = append(out.problems, "its body, its payload, its tag or its place was altered")
	}
	out.event, out.decoded = st.Event, st.Event.Kind != 0
	if err != nil {
		out.problems = append(out.problems, fault.Message(err))
	}
	if out.erased = st.Erased; st.Erased || err != nil {
		return
	}
	if e := &st.Event; e.Kind == ledger.Operated && e.Name == ledger.EraseAction {
		if out.erases, err = s.erases(&st); err != nil {
			out.problems = append(out.problems, fault.Message(err))
		}
	}
	out.newKey = announcedKey(&st)
	if st.Event.Kind == ledger.FileSaved {
		f, err := readFileState(st.Parts)
		if err != nil {
			out.problems = append(out.problems, "its entry about a file cannot be read")
		}
		out.file = fileRow(&st, f)
		out.file[fileLeaf] = leafOf(r.body)
	}
	if st.Event.Kind == ledger.FilesLabelled {
		if out.labels, err = s.readLabels(&st); err != nil {
			out.problems = append(out.problems, fault.Message(err))
		}
	}
	_, out.bounded = st.Parts[ledger.PartBounds]
	for _, p := range st.Parts {
		if p.Blob != nil {
			out.refs = append(out.refs, *p.Blob)
		}
	}
}

// projection compares table runs with the events.
func (v *verification) projection(ctx context.Context) error {
	compare := func(rows *sql.Rows) error {
		var got projected
		if err := got.scan(rows); err != nil {
			return err
		}
		key := runID(got.id)
		r := v.runs[got.seq]
		if r == nil {
			return v.problem("runs", key, got.seq, "event %d began no run", got.seq)
		}
		r.seen = true
		if field := r.differs(&got); field != "" && !r.skipped {
			return v.problem("runs", key, got.seq, "its %s is not what the events say", field)
		}
		return nil
	}
	if err := each(ctx, v.q, v.s.selectProjected()+" WHERE seq > ?", compare, v.startAfter()); err != nil {
		return err
	}
	for seq := range v.runs {
		if int64(seq) > v.start {
			continue
		}
		if err := each(ctx, v.q, v.s.selectProjected()+" WHERE seq = ?", compare, int64(seq)); err != nil {
			return err
		}
	}
	for seq, r := range v.runs {
		if !r.seen {
			if err := v.problem("runs", runID(r.id), seq, "the run is not listed"); err != nil {
				return err
			}
		}
	}
	return nil
}

// projected is a row of table runs.
type projected struct {
	seq                                                                     ledger.Seq
	id                                                                      []byte
	status, mode, started, ended, total, completed, denied, failed, refused int64
}

func (p *projected) scan(rows *sql.Rows) error {
	return rows.Scan(&p.seq, &p.id, &p.status, &p.mode, &p.started, &p.ended, &p.total, &p.completed, &p.denied, &p.failed, &p.refused)
}

// differs names the first column that the events contradict.
func (r *runCheck) differs(p *projected) string {
	total := int64(r.planned)
	if r.Status != 0 {
		total = int64(r.Total)
	}
	for _, c := range []struct {
		name      string
		got, want int64
	}{{"status", p.status, int64(r.Status)}, {"mode", p.mode, int64(r.mode)}, {"started", p.started, r.started}, {"ended", p.ended, r.Ended},
		{"total", p.total, total}, {"completed", p.completed, int64(r.Completed)}, {"denied", p.denied, int64(r.Denied)}, {"failed", p.failed, int64(r.Failed)},
		{"refused", p.refused, int64(r.Refused)}} {
		if c.got != c.want {
			return c.name
		}
	}
	if string(p.id) != string(r.id) {
		return "id"
	}
	return ""
}

// tools compares table run_tools with the events.
func (v *verification) tools(ctx context.Context) error {
	if err := v.lookUpTools(ctx); err != nil {
		return err
	}
	err := each(ctx, v.q, "SELECT tool, run FROM run_tools WHERE run > ?", func(rows *sql.Rows) error {
		var t toolOf
		if err := rows.Scan(&t.tool, &t.run); err != nil {
			return err
		}
		r := v.runs[t.run]
		if r == nil || !r.Tools[t.tool] {
			return v.problem("run_tools", fmt.Sprintf("%q", t.tool), t.run, "run %d has no call of it", t.run)
		}
		delete(r.Tools, t.tool)
		return nil
	}, v.startAfter())
	if err != nil {
		return err
	}
	for seq, r := range v.runs {
		for id := range r.Tools {
			if err := v.problem("run_tools", fmt.Sprintf("%q", id), seq, "run %d has a call of it that is not listed", seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// blobs checks every blob's bytes, and that events refer to it. Where not all events are
// read, it checks those that the others refer to.
func (v *verification) blobs(ctx context.Context) error {
	if v.start > 0 {
		return v.runBlobs(ctx)
	}
	err := each(ctx, v.q, "SELECT address, size, enc, data FROM blobs", func(rows *sql.Rows) error {
		var address, data []byte
		var size int64
		var enc int
		if err := rows.Scan(&address, &size, &enc, &data); err != nil {
			return err
		}
		v.rep.Blobs++
		key := fmt.Sprintf("%x", address)
		var a [32]byte
		copy(a[:], address)
		use, ok := v.refs[a]
		delete(v.refs, a)
		if _, err := v.s.openBlob(address, size, enc, data); err != nil {
			return v.problem("blobs", key, use.seq, "%s", fault.Message(err))
		}
		if !ok {
			return v.problem("blobs", key, 0, "no event refers to it")
		}
		if use.size != size {
			return v.problem("blobs", key, use.seq, "event %d says that it has %d bytes, not %d", use.seq, use.size, size)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for a, use := range v.refs {
		if err := v.problem("blobs", fmt.Sprintf("%x", a), use.seq, "it is missing; event %d refers to it", use.seq); err != nil {
			return err
		}
	}
	return nil
}
