package tables

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// maxProblems is how many problems Verify names before it stops.
const maxProblems = 100

// errEnough ends a verification that has found maxProblems.
var errEnough = errors.New("enough problems found")

// verification is one pass over one state of the file.
type verification struct {
	s        *Store
	q        *sql.Conn // inside a read transaction
	rep      store.VerifyReport
	progress func(done, total uint64) // nil: nothing is called

	log      logState
	total    int64 // of the events; the log has all of them, unless the database is shared
	tree     ledger.Frontier
	atLog    []byte      // the tree's roots at the size of the log
	tail     []tlog.Hash // the leaves of the events after the log
	last     ledger.Seq
	erased   map[ledger.Seq]bool // events without their payload, until an event says so
	erasedIn map[int64]bool      // blocks with such events, and with others of their runs
	erasedOf map[ledger.Seq]bool // runs with such events
	torn     bool                // an event is missing or changed: roots cannot fit from here on
	nodes    map[int64]tlog.Hash
	notes    map[int64]ledger.Checkpoint
	older    *ledger.Checkpoint
	// earlier is the last verification; nil: none is known. The events up to start are
	// taken from it. That is the end of a block, and 0 if everything is read.
	earlier *ledger.Verification
	start   int64

	runs map[ledger.Seq]*runCheck
	refs map[[32]byte]blobUse

	derived map[*sealedTable]map[string]derivedRow // expected rows that change, by the events

	labelled    map[ledger.LabelKey][]string // of files with labels, as far as they are known
	messages    map[ledger.Seq]rowDigest     // expected rows that do not change, by the events
	sessionRuns map[ledger.Seq]uuid.UUID

	announced map[string]announcement // public keys of the ledger, by the events

	marker   *marker
	inBlocks map[inBlock]bool // expected rows of table blocks, by the events
	block    int64            // of the newest event
	marked   map[store.Mark]bool
}

type runCheck struct {
	*ledger.Progress
	id            []byte
	mode          ledger.Mode
	started       int64
	planned       uint32
	seen, skipped bool // skipped: an event was invalid, so the projection need not fit
}

type blobUse struct {
	size int64
	seq  ledger.Seq
}

// Verify implements store.Store. The report lists the problems of the ledger. An
// error means that the verification itself failed.
func (s *Store) Verify(ctx context.Context, o store.VerifyOptions) (store.VerifyReport, error) {
	if s.shared != nil && !s.readOnly {
		if _, err := s.Integrate(ctx, false); err != nil && !errors.Is(err, fault.StoreCorrupt) { // a corrupt record is named below
			return store.VerifyReport{}, err
		}
	}
	conn, end, err := s.snapshot(ctx)
	v := &verification{s: s, q: conn, progress: o.Progress, rep: store.VerifyReport{Problems: []store.Discrepancy{}}, runs: map[ledger.Seq]*runCheck{}, refs: map[[32]byte]blobUse{},
		nodes: map[int64]tlog.Hash{}, notes: map[int64]ledger.Checkpoint{}, derived: map[*sealedTable]map[string]derivedRow{},
		erased: map[ledger.Seq]bool{}, erasedIn: map[int64]bool{}, erasedOf: map[ledger.Seq]bool{}, messages: map[ledger.Seq]rowDigest{}, sessionRuns: map[ledger.Seq]uuid.UUID{}, marker: newMarker(), inBlocks: map[inBlock]bool{}, marked: map[store.Mark]bool{}}
	if err == nil {
		defer end() //nolint:errcheck // nothing was written
		err = v.all(ctx, o)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err = s.fault(err, "the ledger cannot be verified"); errors.Is(err, fault.StoreCorrupt) {
		v.rep.Problems = append(v.rep.Problems, store.Discrepancy{Table: "file", Key: s.name, Message: fault.Message(err)})
		err = nil
	}
	v.rep.OK = err == nil && len(v.rep.Problems) == 0
	if v.rep.OK && o.Remember && o.Run == uuid.Nil && v.tree.Size > 0 {
		v.rep.Unremembered = v.remember()
	}
	return v.rep, err
}

func (v *verification) all(ctx context.Context, o store.VerifyOptions) error {
	if o.Checkpoint != nil {
		c, err := ledger.OpenCheckpoint(o.Checkpoint, v.s.keys.public())
		if err != nil {
			return err
		}
		v.older = &c
	}
	if err := v.state(ctx); err != nil {
		return err
	}
	if v.older != nil && v.older.Size > v.log.Size {
		return v.problem("log", "size", 0, "the older checkpoint covers %d events, the ledger has only %d", v.older.Size, v.log.Size)
	}
	if o.Run != uuid.Nil {
		return v.oneRun(ctx, o.Run)
	}
	if err := v.knowEarlier(o.SinceLast); err != nil {
		return err
	}
	if v.start > 0 {
		return v.tables(ctx)
	}
	file := v.s.checkFiles(ctx)
	err := v.tables(ctx)
	found := <-file
	v.rep.Problems = slices.Insert(v.rep.Problems, 0, found.problems...)
	if v.s.db.Failed(err) && len(v.rep.Problems) > 0 && !errors.Is(v.s.fault(err, ""), fault.StoreCorrupt) {
		err = nil // the missing schema was reported; its tables cannot be read
	}
	return cmp.Or(err, found.err)
}

// tables checks the schema and the content of the tables.
func (v *verification) tables(ctx context.Context) error {
	for _, step := range []func(context.Context) error{v.schema, v.loadNodes, v.loadNotes, v.resume, v.events, v.compareEnds, v.rotations, v.projection, v.tools, v.blocks, v.sealed, v.conversations, v.runsOfSessions, v.noErasure, v.blobs} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// problem reports one; its error ends the verification when there are enough.
func (v *verification) problem(table, key string, seq ledger.Seq, format string, args ...any) error {
	v.rep.Problems = append(v.rep.Problems, store.Discrepancy{Table: table, Key: key, Seq: seq, Message: fmt.Sprintf(format, args...)})
	if len(v.rep.Problems) >= maxProblems {
		return errEnough
	}
	return nil
}

// state reads the log's row.
func (v *verification) state(ctx context.Context) error {
	l, err := v.s.readLog(ctx, v.q)
	if errors.Is(err, sql.ErrNoRows) {
		err = v.problem("log", "1", 0, "the row is missing")
	} else if c := fault.CodeOf(err); err != nil && (c == fault.StoreCorrupt || c == fault.StoreFailed) && !v.s.db.Failed(err) {
		err = v.problem("log", "1", 0, "%s", fault.Message(err))
	}
	v.log, v.total = l, l.Size
	if err == nil && v.s.shared != nil {
		v.total, err = v.s.shared.Total(ctx, v.q)
	}
	v.rep.Size = uint64(max(v.total, 0))
	return err
}

// fileReport is the database's report on its own structures.
type fileReport struct {
	problems []store.Discrepancy
	err      error
}

// checkFiles has the database check its own structures while the tables are verified. The
// result comes once.
func (s *Store) checkFiles(ctx context.Context) <-chan fileReport {
	done := make(chan fileReport, 1)
	go func() {
		found, err := s.db.CheckFiles(ctx)
		r := fileReport{err: err}
		for _, msg := range found {
			r.problems = append(r.problems, store.Discrepancy{Table: "file", Key: s.name, Message: msg})
		}
		done <- r
	}()
	return done
}

// schema compares the schema with that of the format.
func (v *verification) schema(ctx context.Context) error {
	want, got, err := v.s.db.Schema(ctx, v.q)
	if err != nil {
		return err
	}
	for name, text := range want {
		have, ok := got[name]
		delete(got, name)
		if ok && have == text {
			continue
		}
		if err := v.problem("schema", name, 0, "it is missing or was changed"); err != nil {
			return err
		}
	}
	for name := range got {
		if err := v.problem("schema", name, 0, "it does not belong to a ledger"); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for every row.
func each(ctx context.Context, q Querier, query string, f func(*sql.Rows) error, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// event takes the next event of the whole ledger.
func (v *verification) event(ctx context.Context, r *rawEvent, c *checkedEvent) error {
	if v.last++; r.seq != v.last {
		v.torn = true
		if err := v.problem("events", fmt.Sprint(v.last), v.last, "events %d to %d are missing", v.last, r.seq-1); err != nil {
			return err
		}
		v.last = r.seq
	}
	v.rep.Events++
	for _, msg := range c.problems {
		if err := v.problem("events", fmt.Sprint(r.seq), r.seq, "%s", msg); err != nil {
			return err
		}
	}
	v.torn = v.torn || c.changed
	if err := v.leaf(c.leaf); err != nil {
		return err
	}
	if !c.decoded {
		return nil
	}
	for _, ref := range c.refs {
		if _, ok := v.refs[ref.Address]; !ok {
			v.refs[ref.Address] = blobUse{ref.Size, r.seq}
		} else if v.refs[ref.Address].size != ref.Size {
			return v.problem("events", fmt.Sprint(r.seq), r.seq, "it says that blob %x has %d bytes, another event differs", ref.Address, ref.Size)
		}
	}
	if err := v.noteErased(r.seq, c); err != nil {
		return err
	}
	v.noteKey(r.seq, c)
	v.deriveAgents(r.seq, c)
	v.deriveLabels(r.seq, c)
	if err := v.mark(ctx, r.seq, c); err != nil {
		return err
	}
	return v.fold(ctx, r.seq, &c.event)
}

// mark notes the expected rows of table blocks.
func (v *verification) mark(ctx context.Context, seq ledger.Seq, c *checkedEvent) error {
	marks, err := v.marker.marks(&c.event, c.bounded, func() (store.Called, error) {
		if v.start == 0 {
			return store.Called{}, nil
		}
		return v.s.called(ctx, v.s.read, c.event.Run, c.event.Call) // its intent is among the events that are not read
	})
	if block := blockOf(seq); block != v.block {
		v.block = block
		clear(v.marked)
	}
	for _, m := range marks {
		if !v.marked[m] {
			v.marked[m] = true
			v.inBlocks[inBlock{m, v.block}] = true
		}
	}
	return err
}

// fold derives, from the next event, the expected rows of the tables that lists read.
func (v *verification) fold(ctx context.Context, seq ledger.Seq, e *ledger.Event) error {
	if e.Kind == ledger.RunStarted {
		v.deriveQueued(seq, e.ID, map[int]any{queueState: int64(ledger.QueueStarted), queueRun: int64(seq), queueLast: int64(0)})
		v.rep.Runs++
		return v.foldRun(seq, e)
	}
	v.derive(seq, e)
	if e.Run == 0 {
		return nil // of authority, and of no run
	}
	if e.Kind == ledger.CallOutcome && e.Client != "" {
		v.rep.Reported++
	}
	if v.runs[e.Run] == nil && int64(e.Run) <= v.start {
		if err := v.openRun(ctx, e.Run); err != nil {
			return err
		}
	}
	return v.foldRun(seq, e)
}

// foldRun follows the run of an event.
func (v *verification) foldRun(seq ledger.Seq, e *ledger.Event) error {
	if e.Kind == ledger.RunStarted {
		v.runs[seq] = &runCheck{Progress: ledger.NewProgress(seq), id: e.ID, mode: e.Mode, started: e.At, planned: e.Total}
		return nil
	}
	r := v.runs[e.Run]
	if r == nil {
		return v.problem("events", fmt.Sprint(seq), seq, "its run %d does not exist", e.Run)
	}
	if err := r.Add(seq, e); err != nil {
		r.skipped = true
		return v.problem("events", fmt.Sprint(seq), seq, "%s", fault.Message(err))
	}
	if t := e.Tally(); e.Kind == ledger.RunFinished && t != r.Tally {
		return v.problem("events", fmt.Sprint(seq), seq, "it counts %+v calls, the run has %+v", t, r.Tally)
	}
	return nil
}

// compareEnds compares the known facts about the log's end.
func (v *verification) compareEnds(ctx context.Context) error {
	if v.older != nil && v.older.Size > v.tree.Size {
		if err := v.problem("events", fmt.Sprint(v.older.Size), v.last+1, "events up to %d of the older checkpoint are missing", v.older.Size); err != nil {
			return err
		}
	}
	v.rep.Root = v.tree.Root().String()
	if v.tree.Size == v.log.Size {
		v.atLog = v.tree.Bytes()
	}
	if int64(v.last) != v.total {
		if err := v.problem("log", "1", min(v.last, ledger.Seq(v.total))+1, "it counts %d events, the newest is %d", v.total, v.last); err != nil {
			return err
		}
	} else if !v.torn && !bytes.Equal(v.atLog, v.log.Bytes()) {
		if err := v.problem("log", "1", ledger.Seq(v.rep.Signed)+1, "the events after checkpoint %d differ from the recorded ones", v.rep.Signed); err != nil {
			return err
		}
	}
	if err := v.checkTail(ctx); err != nil {
		return err
	}
	for seq := range v.erased {
		if err := v.problem("events", fmt.Sprint(seq), seq, "its payload was erased, and no event says so"); err != nil {
			return err
		}
	}
	for i := range v.nodes {
		if err := v.problem("nodes", fmt.Sprint(i), 0, "it belongs to no events"); err != nil {
			return err
		}
	}
	return nil
}

// checkTail checks the events of a shared database that are not in the log yet.
func (v *verification) checkTail(ctx context.Context) error {
	if v.s.shared == nil || v.torn || int64(v.last) != v.total {
		return nil
	}
	batches, err := v.s.shared.Tail(ctx, v.q, v.log.Size, math.MaxInt32)
	if err != nil {
		return err
	}
	if err := v.s.keys.checkTail(batches, v.log.Size, v.tail); err != nil {
		return v.problem("batches", "", ledger.Seq(v.log.Size)+1, "%s", fault.Message(err))
	}
	return nil
}
