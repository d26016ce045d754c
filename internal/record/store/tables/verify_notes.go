package tables

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

func (v *verification) loadNodes(ctx context.Context) error {
	return each(ctx, v.q, "SELECT idx, hash FROM nodes", func(rows *sql.Rows) error {
		var idx int64
		var hash []byte
		if err := rows.Scan(&idx, &hash); err != nil {
			return err
		}
		if len(hash) != tlog.HashSize || idx < 0 {
			return v.problem("nodes", fmt.Sprint(idx), 0, "it has %d bytes", len(hash))
		}
		v.nodes[idx] = tlog.Hash(hash)
		return nil
	})
}

type signedNote struct {
	size int64
	note []byte
	c    ledger.Checkpoint
	err  error
}

// loadNotes checks every checkpoint's signature and that none is missing:
// each names the one before it, and the log's row the newest.
func (v *verification) loadNotes(ctx context.Context) error {
	var all []signedNote
	err := each(ctx, v.q, "SELECT size, note FROM checkpoints WHERE size > ? ORDER BY size", func(rows *sql.Rows) error {
		var n signedNote
		err := rows.Scan(&n.size, &n.note)
		all = append(all, n)
		return err
	}, v.startAfter())
	if err != nil {
		return err
	}
	keys := v.s.keys.public()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for part := range slices.Chunk(all, 64) {
		g.Go(func() error {
			for i := range part {
				part[i].c, part[i].err = ledger.OpenCheckpoint(part[i].note, keys)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are kept with their notes
	prev := int64(0)
	if v.start > 0 {
		if err := v.q.QueryRowContext(ctx, "SELECT coalesce(max(size), 0) FROM checkpoints WHERE size <= ?", v.start).Scan(&prev); err != nil {
			return err
		}
		v.rep.Signed = uint64(prev)
	}
	for _, n := range all {
		if err := v.note(n, prev); err != nil {
			return err
		}
		prev = n.size
	}
	if prev != v.log.signed {
		return v.problem("checkpoints", fmt.Sprint(v.log.signed), 0, "the newest checkpoint is of size %d, the log says %d", prev, v.log.signed)
	}
	return nil
}

func (v *verification) note(n signedNote, prev int64) error {
	key := fmt.Sprint(n.size)
	switch {
	case n.err != nil:
		return v.problem("checkpoints", key, 0, "%s", fault.Message(n.err))
	case n.c.Size != n.size:
		return v.problem("checkpoints", key, 0, "its note is of size %d", n.c.Size)
	case n.c.Prev != prev:
		return v.problem("checkpoints", key, 0, "the checkpoint of size %d before it is missing or was added: before it is %d", n.c.Prev, prev)
	case n.size > v.log.Size:
		return v.problem("checkpoints", key, 0, "it covers %d events, the log has %d", n.size, v.log.Size)
	}
	v.notes[n.size] = n.c
	v.rep.Signed = uint64(n.size)
	return nil
}

// leaf adds a leaf to the tree and compares every known root of that size.
func (v *verification) leaf(h tlog.Hash) error {
	var err error
	v.tree.Append(h, func(n ledger.Node) {
		if n.Level < storedLevel || err != nil || v.s.shared != nil && v.tree.Size >= v.log.Size { // the size is that before the leaf
			return
		}
		i := index(n)
		got, ok := v.nodes[i]
		delete(v.nodes, i)
		first := ledger.Seq(n.N<<n.Level) + 1
		if !ok {
			err = v.problem("nodes", fmt.Sprint(i), first, "it is missing")
		} else if got != n.Hash && !v.torn {
			err = v.problem("nodes", fmt.Sprint(i), first, "it is not the hash of events %d to %d", first, int64(first)-1+1<<n.Level)
		}
	})
	if v.tree.Size > v.log.Size && v.s.shared != nil {
		v.tail = append(v.tail, h)
	} else if v.tree.Size == v.log.Size && v.log.Size < v.total {
		v.atLog = v.tree.Bytes()
	}
	if err != nil || v.torn {
		return err
	}
	return v.compareRoots()
}

// compareRoots compares the tree's root with every root of this size that is known.
func (v *verification) compareRoots() error {
	size := v.tree.Size
	if c, ok := v.notes[size]; ok && c.Root != v.tree.Root() {
		v.torn = true
		return v.problem("checkpoints", fmt.Sprint(size), ledger.Seq(c.Prev)+1, "events %d to %d differ from the signed ones", c.Prev+1, size)
	}
	if v.older != nil && v.older.Size == size && v.older.Root != v.tree.Root() {
		return v.problem("log", "older checkpoint", 1, "the first %d events are not those of the older checkpoint", size)
	}
	if v.earlier != nil && v.earlier.Size == size && v.earlier.Root != v.tree.Root() {
		v.torn = true
		return v.problem("log", "last verification", 1, "the first %d events differ from the ones verified on %s", size, v.earlier.At.UTC().Format(time.DateTime+" UTC"))
	}
	return nil
}
