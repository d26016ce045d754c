package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/ledger"
)

const (
	// integrateEvery is how often a node looks for events that are not in the tree.
	integrateEvery = 100 * time.Millisecond
	// integrateBatches is how many batches one transaction adds to the tree.
	integrateBatches = 512
	// maxSkipped is how often in a row a node leaves the tree to others. Changes of other
	// tables lock the log's row, too.
	maxSkipped = 5
)

// Integrate adds the events of a shared database that are not in the Merkle tree to it, and signs a
// checkpoint if asked. The row of the log is locked meanwhile, so that one node at a time does
// this; appends do not wait for it. The commit is synced, and comes after the commits of the
// events: events that a checkpoint covers are durable before anybody sees the checkpoint. If the
// database fails in a way that passes, it begins again until the lease of this node is over.
func (s *Store) Integrate(ctx context.Context, sign bool) ([]byte, error) {
	ctx, stop := s.shared.Leased(ctx)
	defer stop()
	for {
		note, more, err := s.integrate(ctx, sign, false)
		if s.shared.Transient(err) && pause.For(ctx, repeatAfter) == nil {
			continue
		}
		if err != nil || !more {
			return note, s.fault(err, "the log cannot be brought up to date")
		}
	}
}

// integrate adds the next batches to the tree. With skip it leaves them to a node that is
// about it.
func (s *Store) integrate(ctx context.Context, sign, skip bool) (note []byte, more bool, err error) {
	ctx, stop := s.shared.Leased(ctx)
	defer stop()
	conn, err := s.shared.Durable(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	if err := begin(ctx, conn, s.dialect.Begin); err != nil {
		return nil, false, err
	}
	committed := false
	defer func() {
		if !committed {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), rollback) // a lost connection has done it
		}
	}()
	l, err := s.lockLog(ctx, conn, skip)
	if err != nil {
		return nil, false, err
	}
	if err := s.shared.Present(ctx, conn); err != nil {
		return nil, false, err
	}
	was, signed := l.Size, l.signed
	if more, err = s.extend(ctx, conn, &l); err != nil {
		return nil, false, err
	}
	if sign && !more {
		if note, err = s.checkpoint(ctx, conn, &l); err != nil {
			return nil, false, err
		}
	}
	if l.Size == was && l.signed == signed {
		return note, false, nil
	}
	l.mac = l.sum(s.keys)
	if _, err := conn.ExecContext(ctx, updateLog, l.Size, l.Bytes(), l.signed, l.mac); err != nil {
		return nil, false, err
	}
	_, err = conn.ExecContext(ctx, commit)
	committed = err == nil
	return note, more, err
}

// lockLog locks the log's row and reads the state. With skip the error is sql.ErrNoRows if
// another node has the lock.
func (s *Store) lockLog(ctx context.Context, conn *sql.Conn, skip bool) (logState, error) {
	lock := s.dialect.Lock
	if skip {
		lock += " SKIP LOCKED"
	}
	var one int
	if err := conn.QueryRowContext(ctx, "SELECT 1 FROM log WHERE id = 1"+lock).Scan(&one); err != nil {
		return logState{}, err
	}
	return s.readLog(ctx, conn)
}

// extend adds the next batches to the tree. more reports whether there are further ones.
func (s *Store) extend(ctx context.Context, conn *sql.Conn, l *logState) (more bool, err error) {
	batches, err := s.shared.Tail(ctx, conn, l.Size, integrateBatches)
	if err != nil || len(batches) == 0 {
		return false, err
	}
	end := batches[len(batches)-1]
	leaves, err := s.leaves(ctx, conn, l.Size, end.First+end.Events-1)
	if err != nil {
		return false, err
	}
	if err := s.keys.checkTail(batches, l.Size, leaves); err != nil {
		return false, err
	}
	var nodes [][]any
	for _, h := range leaves {
		l.Append(h, storedNodes(&nodes))
	}
	for _, n := range nodes {
		if _, err := conn.ExecContext(ctx, insertNode, n...); err != nil {
			return false, err
		}
	}
	return len(batches) == integrateBatches, s.shared.Integrated(ctx, conn, l.Size)
}

// leaves reads the leaves of the events after one, up to another.
func (s *Store) leaves(ctx context.Context, q Querier, after, upTo int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	err := each(ctx, q, "SELECT seq, body FROM events WHERE seq > ? AND seq <= ? ORDER BY seq", func(rows *sql.Rows) error {
		var seq int64
		var body sql.RawBytes
		if err := rows.Scan(&seq, &body); err != nil {
			return err
		}
		if want := after + int64(len(out)) + 1; seq != want {
			return fault.New(fault.StoreCorrupt, "event %d is missing", want)
		}
		out = append(out, tlog.RecordHash(body))
		return nil
	}, after, upTo)
	return out, err
}

// integrateLoop keeps the tree up to date until the store is closed. An error is found again, and
// reported, by the next reader of the tree. A node that is about it is waited for only once in
// maxSkipped: it does the work of all.
func (s *Store) integrateLoop(ctx context.Context) {
	tick := time.NewTicker(integrateEvery)
	defer tick.Stop()
	skipped, seen := 0, int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		total, err := s.shared.Total(ctx, s.read)
		if err != nil || total == seen {
			continue
		}
		for more := true; more && err == nil; {
			_, more, err = s.integrate(ctx, false, skipped < maxSkipped)
		}
		switch {
		case err == nil:
			skipped, seen = 0, total
		case errors.Is(err, sql.ErrNoRows):
			skipped++
		}
	}
}

// storedNodes collects the nodes that are stored, as the arguments of insertNode.
func storedNodes(to *[][]any) func(ledger.Node) {
	return func(n ledger.Node) {
		if n.Level >= storedLevel {
			*to = append(*to, []any{index(n), n.Hash[:]})
		}
	}
}
