package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// VerifiedFile names the signed note in the home folder of the last verification of the whole
// ledger. It is not in the database: an attacker that alters the database must not be able to mark
// it as verified. Without it, or with one that does not fit, everything is verified.
const VerifiedFile = "verified.note"

// maxVerified bounds the size of the note.
const maxVerified = 4 << 10

// lastVerification reads the note of the last verification; nil if this ledger's key has
// signed none.
func (s *Store) lastVerification() (*ledger.Verification, error) {
	b, err := wholefile.Read(filepath.Join(s.home, VerifiedFile), maxVerified)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the note of the last verification cannot be read").
			WithHint("remove %q; the whole ledger is verified then", Clean(filepath.Join(s.home, VerifiedFile)))
	}
	last, err := ledger.OpenVerification(b, s.keys.pair())
	if err != nil {
		return nil, nil //nolint:nilerr // a note that does not count, as one of a ledger before this one
	}
	return &last, nil
}

// remember keeps the result of a verification that found no problem, for one that goes on
// from it. It returns why that failed, "" if it did not.
func (v *verification) remember() string {
	if v.s.readOnly {
		return "the ledger is opened for reading only"
	}
	now := time.Now()
	last := ledger.Verification{Origin: v.s.keys.origin, Size: v.tree.Size, Root: v.tree.Root(), At: now, FullSize: v.tree.Size, FullAt: now}
	if v.start > 0 {
		last.FullSize, last.FullAt = v.earlier.FullSize, v.earlier.FullAt
	}
	signed, err := note.Sign(&note.Note{Text: last.String()}, v.s.keys.pair())
	if err == nil {
		err = wholefile.Replace(filepath.Join(v.s.home, VerifiedFile), signed)
	}
	if err != nil {
		return wholefile.Cause(err).Error()
	}
	return ""
}

// knowEarlier reads the note of the last verification. Also a verification of the whole ledger
// checks that the events verified then are unchanged.
func (v *verification) knowEarlier(sinceLast bool) error {
	last, err := v.s.lastVerification()
	if err != nil || last == nil {
		return err
	}
	if last.Size > v.log.Size {
		return v.problem("log", "last verification", ledger.Seq(max(v.log.Size, 0))+1, "a verification on %s covered %d events, the ledger has only %d; if you put an older copy back, remove %q",
			last.At.UTC().Format(time.DateTime+" UTC"), last.Size, v.log.Size, Clean(filepath.Join(v.s.home, VerifiedFile)))
	}
	v.earlier = last
	if !sinceLast {
		return nil
	}
	v.start = last.Size >> storedLevel << storedLevel // so that whole blocks and nodes are checked
	if v.start > 0 {
		v.rep.Earlier = &store.Earlier{Events: uint64(v.start), At: last.At, FullEvents: uint64(last.FullSize), FullAt: last.FullAt}
	}
	return nil
}

// startAfter is the number of the event before the first that is read. The first event of a whole
// ledger has nothing below it, but rows inserted there are read too.
func (v *verification) startAfter() int64 {
	if v.start == 0 {
		return -1 << 63
	}
	return v.start
}

// resume computes the tree of the events that are not read from the stored nodes. The root at
// the size of the earlier verification shows that these are the nodes of the events that were
// verified then.
func (v *verification) resume(context.Context) error {
	if v.start == 0 {
		return nil
	}
	var blocks ledger.Frontier
	var err error
	check := func(level int, n int64, h tlog.Hash) {
		i := tlog.StoredHashIndex(level, n)
		got, ok := v.nodes[i]
		delete(v.nodes, i)
		if err == nil && (!ok || got != h) {
			v.torn = true
			err = v.problem("nodes", fmt.Sprint(i), ledger.Seq(n<<level)+1, "it is missing, or not the hash of those below it")
		}
	}
	for n := range v.start >> storedLevel {
		h := v.nodes[tlog.StoredHashIndex(storedLevel, n)] // a missing one is compared with zero
		check(storedLevel, n, h)
		blocks.Append(h, func(n ledger.Node) { check(n.Level+storedLevel, n.N, n.Hash) })
	}
	v.tree, v.last = ledger.Frontier{Size: v.start, Roots: blocks.Roots}, ledger.Seq(v.start)
	if err != nil || v.torn {
		return err
	}
	if err := v.compareRoots(); err != nil || v.older == nil || v.older.Size >= v.start {
		return err
	}
	return v.olderRoot(newTree(context.Background(), v.s.read))
}

// openRun folds the unread events of a run, so that its read events can be checked. The run began
// before them.
func (v *verification) openRun(ctx context.Context, run ledger.Seq) error {
	const query = "SELECT seq, run, call, tag, body, salt, data FROM " + EventsAndPayloads + " e WHERE seq = ?1 UNION ALL SELECT seq, run, call, tag, body, salt, data FROM " + EventsAndPayloads + " e WHERE run = ?1 AND seq <= ?2 ORDER BY seq"
	tags := newTagger(v.s.keys)
	return each(ctx, v.s.read, query, func(rows *sql.Rows) error {
		var r rawEvent
		var tag int64
		if err := rows.Scan(&r.seq, &r.run, &r.call, &tag, &r.body, &r.salt, &r.data); err != nil {
			return err
		}
		var c checkedEvent
		v.s.check(&r, tag, tags, &c)
		for _, msg := range c.problems {
			if err := v.problem("events", fmt.Sprint(r.seq), r.seq, "%s", msg); err != nil {
				return err
			}
		}
		if !c.decoded {
			return nil
		}
		return v.foldRun(r.seq, &c.event)
	}, int64(run), v.start)
}

// lookUpTools finds, one by one, the listed tools of runs that began before the events that
// are read.
func (v *verification) lookUpTools(ctx context.Context) error {
	for seq, r := range v.runs {
		if int64(seq) > v.start {
			continue
		}
		for id := range r.Tools {
			var n int
			if err := v.q.QueryRowContext(ctx, "SELECT count(*) FROM run_tools WHERE tool = ? AND run = ?", string(id), int64(seq)).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				delete(r.Tools, id)
			}
		}
	}
	return nil
}
