package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// tree reads hashes of the Merkle tree: high nodes from their table, lower ones
// from the events. It implements tlog.HashReader.
type tree struct {
	ctx    context.Context //nolint:containedctx // a tree lives for one call; tlog's interface has no room for it
	q      Querier
	high   map[int64]tlog.Hash
	blocks map[int64][][]tlog.Hash // by number: the levels below storedLevel of 256 events
}

func newTree(ctx context.Context, q Querier) *tree {
	return &tree{ctx: ctx, q: q, high: map[int64]tlog.Hash{}, blocks: map[int64][][]tlog.Hash{}}
}

// ReadHashes implements tlog.HashReader.
func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, idx := range indexes {
		level, n := tlog.SplitStoredHashIndex(idx)
		var err error
		if level >= storedLevel {
			out[i], err = t.node(idx)
		} else {
			out[i], err = t.low(level, n)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *tree) node(idx int64) (tlog.Hash, error) {
	if h, ok := t.high[idx]; ok {
		return h, nil
	}
	var b []byte
	err := t.q.QueryRowContext(t.ctx, "SELECT hash FROM nodes WHERE idx = ?", idx).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(b) != tlog.HashSize {
		return tlog.Hash{}, fault.New(fault.StoreCorrupt, "node %d of the log is missing or damaged", idx)
	}
	if err != nil {
		return tlog.Hash{}, err
	}
	t.high[idx] = tlog.Hash(b)
	return t.high[idx], nil
}

func (t *tree) low(level int, n int64) (tlog.Hash, error) {
	number := n << level >> storedLevel
	levels, ok := t.blocks[number]
	if !ok {
		var err error
		if levels, err = t.block(number); err != nil {
			return tlog.Hash{}, err
		}
		if len(t.blocks) >= 8 { // proofs of neighbours need few blocks
			clear(t.blocks)
		}
		t.blocks[number] = levels
	}
	i := n - number<<storedLevel>>level
	if i >= int64(len(levels[level])) {
		return tlog.Hash{}, fault.New(fault.StoreCorrupt, "event %d is missing", (n+1)<<level)
	}
	return levels[level][i], nil
}

func (t *tree) block(number int64) ([][]tlog.Hash, error) {
	levels := make([][]tlog.Hash, storedLevel)
	first := number<<storedLevel + 1
	next := first
	err := each(t.ctx, t.q, "SELECT seq, body FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq", func(rows *sql.Rows) error {
		var seq int64
		var body sql.RawBytes
		if err := rows.Scan(&seq, &body); err != nil {
			return err
		}
		if seq != next {
			return fault.New(fault.StoreCorrupt, "event %d is missing", next)
		}
		next++
		levels[0] = append(levels[0], tlog.RecordHash(body))
		return nil
	}, first, first+1<<storedLevel-1)
	for l := 1; l < storedLevel; l++ {
		below := levels[l-1]
		for i := 0; i+1 < len(below); i += 2 {
			levels[l] = append(levels[l], tlog.NodeHash(below[i], below[i+1]))
		}
	}
	return levels, err
}

const selectNewest = "SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1"

// newest returns the newest signed checkpoint up to a size, verified.
func (s *Store) newest(ctx context.Context, q Querier) ([]byte, ledger.Checkpoint, error) {
	var b []byte
	if err := q.QueryRowContext(ctx, selectNewest).Scan(&b); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return nil, ledger.Checkpoint{Root: (&ledger.Frontier{}).Root()}, nil
		}
		return nil, ledger.Checkpoint{}, err
	}
	c, err := ledger.OpenCheckpoint(b, s.keys.public())
	return b, c, err
}

const selectRun = "SELECT seq, run, call, tag, body, salt, data FROM " + EventsAndPayloads + " e WHERE seq = ?1 UNION ALL SELECT seq, run, call, tag, body, salt, data FROM " + EventsAndPayloads + " e WHERE run = ?1 ORDER BY seq"

// Prove implements store.Store. Events that the newest checkpoint does not cover
// are signed first.
func (s *Store) Prove(ctx context.Context, run ledger.Seq, w io.Writer) error {
	var last, first sql.NullInt64
	err := s.read.QueryRowContext(ctx, "SELECT (SELECT max(seq) FROM events WHERE run = ?1 OR seq = ?1), (SELECT seq FROM runs WHERE seq = ?1)", int64(run)).Scan(&last, &first)
	if err != nil {
		return s.fault(err, "the proof cannot be made")
	}
	if !first.Valid || !last.Valid {
		return fault.New(fault.RunUnknown, "no run begins with event %d", run)
	}
	note, cp, err := s.newest(ctx, s.read)
	if err == nil && cp.Size < last.Int64 {
		if note, err = s.Checkpoint(ctx); err == nil {
			cp, err = ledger.OpenCheckpoint(note, s.keys.public())
		}
	}
	if err != nil {
		return s.fault(err, "the proof cannot be made")
	}
	return s.fault(s.writeProof(ctx, run, note, cp, w), "the proof cannot be made")
}

// writeProof writes a ledger.Proof without holding all of it in memory.
func (s *Store) writeProof(ctx context.Context, run ledger.Seq, note []byte, cp ledger.Checkpoint, w io.Writer) error {
	head, err := json.Marshal(ledger.Proof{Format: ledger.ProofFormat, Ledger: s.keys.origin, Checkpoint: string(note), Rotations: s.keys.ring.Load().rotations, Events: []ledger.ProofEvent{}})
	if err != nil {
		return err
	}
	if _, err := w.Write(head[:len(head)-len("]}")]); err != nil {
		return err
	}
	t := newTree(ctx, s.read)
	sep := "\n"
	err = each(ctx, s.read, selectRun, func(rows *sql.Rows) error {
		var r rawEvent
		var tag int64
		if err := rows.Scan(&r.seq, &r.run, &r.call, &tag, &r.body, &r.salt, &r.data); err != nil {
			return err
		}
		p, err := tlog.ProveRecord(cp.Size, int64(r.seq)-1, t)
		if err != nil {
			return err
		}
		b, err := json.Marshal(ledger.ProofEvent{Seq: r.seq, Body: r.body, Proof: p})
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, sep+string(b))
		sep = ",\n"
		return err
	}, int64(run))
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n]}\n")
	return err
}

// oneRun verifies a run: its events one by one, their inclusion in the newest
// checkpoint (or, where that is older, in the log's authenticated state), its
// blobs and its projection.
func (v *verification) oneRun(ctx context.Context, id uuid.UUID) error {
	var p projected
	found := false
	err := each(ctx, v.q, v.s.selectProjected()+" WHERE id = ?", func(rows *sql.Rows) error {
		found = true
		return p.scan(rows)
	}, id[:])
	if err != nil {
		return err
	}
	if !found {
		return fault.New(fault.RunUnknown, "no run has the ID %s", id).ForOperator("remit runs lists them; remit verify looks for lost ones")
	}
	_, cp, err := v.s.newest(ctx, v.q)
	if err != nil && fault.CodeOf(err) != fault.VerifyFailed {
		return err
	}
	if err != nil {
		if err := v.problem("checkpoints", fmt.Sprint(cp.Size), 0, "%s", fault.Message(err)); err != nil {
			return err
		}
		cp = ledger.Checkpoint{}
	}
	v.rep.Signed, v.rep.Root = uint64(cp.Size), v.log.Root().String()
	t := newTree(ctx, v.s.read) // beside the rows that are being read; what it reads never changes
	if err := v.olderRoot(t); err != nil {
		return err
	}
	if err := v.runEvents(ctx, t, cp, p.seq); err != nil {
		return err
	}
	if r := v.runs[p.seq]; r == nil {
		return v.problem("runs", id.String(), p.seq, "event %d began no run", p.seq)
	} else if field := r.differs(&p); field != "" {
		return v.problem("runs", id.String(), p.seq, "its %s is not what the events say", field)
	}
	return v.runBlobs(ctx)
}

func (v *verification) olderRoot(t *tree) error {
	if v.older == nil || v.older.Size == 0 {
		return nil
	}
	root, err := tlog.TreeHash(v.older.Size, t)
	if err == nil && root != v.older.Root {
		err = v.problem("log", "older checkpoint", 1, "the first %d events are not those of the older checkpoint", v.older.Size)
	}
	return err
}

// runEvents checks a run's events one by one. A changed event also makes its neighbours' proofs
// fail. The neighbours' failures are reported only if no event by itself shows the change.
func (v *verification) runEvents(ctx context.Context, t *tree, cp ledger.Checkpoint, run ledger.Seq) error {
	tags, root := newTagger(v.s.keys), v.log.Root()
	known := len(v.rep.Problems)
	var unproven []store.Discrepancy
	defer func() {
		if len(v.rep.Problems) == known {
			v.rep.Problems = append(v.rep.Problems, unproven...)
		}
	}()
	return each(ctx, v.q, selectRun, func(rows *sql.Rows) error {
		var r rawEvent
		var tag int64
		if err := rows.Scan(&r.seq, &r.run, &r.call, &tag, &r.body, &r.salt, &r.data); err != nil {
			return err
		}
		var c checkedEvent
		v.s.check(&r, tag, tags, &c)
		size, want := cp.Size, cp.Root
		if int64(r.seq) > size {
			size, want = v.log.Size, root
		}
		msg := ""
		if int64(r.seq) <= size { // a later one is not in the log of a shared database yet; its tag is checked
			msg = inclusion(t, &r, c.leaf, size, want)
		}
		if msg != "" && len(unproven) < maxProblems {
			unproven = append(unproven, store.Discrepancy{Table: "events", Key: fmt.Sprint(r.seq), Seq: r.seq, Message: msg})
		}
		v.rep.Events++
		for _, msg := range c.problems {
			if err := v.problem("events", fmt.Sprint(r.seq), r.seq, "%s", msg); err != nil {
				return err
			}
		}
		for _, ref := range c.refs {
			v.refs[ref.Address] = blobUse{ref.Size, r.seq}
		}
		if !c.decoded {
			return nil
		}
		return v.fold(ctx, r.seq, &c.event)
	}, int64(run))
}

// inclusion returns why an event is not in the log, or "".
func inclusion(t *tree, r *rawEvent, leaf tlog.Hash, size int64, root tlog.Hash) string {
	proof, err := tlog.ProveRecord(size, int64(r.seq)-1, t)
	switch {
	case err != nil:
		return "it cannot be found in the log: " + err.Error()
	case tlog.CheckRecord(proof, size, root, int64(r.seq)-1, leaf) != nil:
		return fmt.Sprintf("it is not in the log of %d events", size)
	}
	return ""
}

func (v *verification) runBlobs(ctx context.Context) error {
	for a, use := range v.refs {
		v.rep.Blobs++
		_, err := v.s.Load(ctx, ledger.Part{Blob: &ledger.BlobRef{Address: a, Size: use.size}})
		if errors.Is(err, fault.StoreCorrupt) {
			err = v.problem("blobs", fmt.Sprintf("%x", a), use.seq, "%s", fault.Message(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
