package postgres

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// join makes this node a member and begins to renew its lease.
func (s *Store) join(ctx context.Context) error {
	asked := s.clock()
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.until.Store(asked + int64(s.lease))
	beat, stop := context.WithCancel(context.Background())
	s.stopBeat = stop
	s.beating.Go(func() { s.beat(beat) })
	s.beating.Go(func() { s.keepParts(beat) })
	return nil
}

// enter writes this node's row. A migration has the table for itself, so no node enters that does not
// know the tables as they are.
func (s *Store) enter(ctx context.Context) error {
	tx, err := s.durable.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "LOCK TABLE members IN ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	if err := s.checkVersion(tx.QueryRowContext(ctx, selectVersion)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "WITH m AS (INSERT INTO members(id, lease_until, lease, name) VALUES($1, clock_timestamp() + $2 * interval '1 microsecond', $2, $3) RETURNING id) INSERT INTO heads(member, number, first) SELECT id, 0, 0 FROM m",
		s.node, s.lease.Microseconds(), s.nodeName)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// clock reads the monotonic clock, which no change of the time of day moves.
func (s *Store) clock() int64 { return int64(time.Since(s.born)) }

// HoldsLease returns an error if this node may no longer act: its lease is over, or another
// node has removed it. lost is closed once it is removed, or has seen that its lease is over.
func (s *Store) HoldsLease() (lost <-chan struct{}, err error) {
	if s.fenced.Load() {
		return s.lost, s.fencedError()
	}
	if !s.readOnly && s.clock() > s.until.Load() {
		return s.lost, fault.New(fault.StoreFailed, "this node could not renew its lease of %s", s.lease).
			WithHint("check the connection to PostgreSQL; a node without a lease does nothing")
	}
	return s.lost, nil
}

// LeaseLeft tells how long this node may act without renewing its lease; 0: it may not.
func (s *Store) LeaseLeft() time.Duration {
	if s.fenced.Load() {
		return 0
	}
	return max(0, time.Duration(s.until.Load()-s.clock()))
}

// fence notes for good that this node may no longer act.
func (s *Store) fence(why error) {
	s.fenceOnce.Do(func() {
		s.fencedBy = why
		s.fenced.Store(true)
		close(s.lost)
	})
}

// beat renews the lease until ctx ends. A lease that cannot be renewed for its whole time
// is lost: other nodes may have removed this one.
func (s *Store) beat(ctx context.Context) {
	tick := time.NewTicker(s.lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := s.clock() // the lease counts from before the question
		switch ok, err := s.renew(ctx); {
		case err == nil && ok:
			s.until.Store(asked + int64(s.lease))
			s.watchServer(ctx)
			s.watchClock(ctx)
		case err == nil:
			s.fence(s.whyRemoved(ctx))
			return
		case s.clock() > s.until.Load() && ctx.Err() == nil:
			s.fence(errRemoved())
			return
		}
	}
}

// renew reports whether this node is still a member. It has a connection of its own, so
// that it waits for nothing else.
func (s *Store) renew(ctx context.Context) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, s.lease/2)
	defer stop()
	r, err := s.beats.ExecContext(ctx, "UPDATE members SET lease_until = clock_timestamp() + $2 * interval '1 microsecond' WHERE id = $1", s.node, s.lease.Microseconds())
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// leave ends this node's membership, so that others need not wait for its lease.
func (s *Store) leave() error {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_, err := s.durable.ExecContext(ctx, "DELETE FROM members WHERE id = $1", s.node)
	if s.fenced.Load() {
		return nil
	}
	return err
}

// fencedError says why this node may no longer act.
func (s *Store) fencedError() error {
	if s.fenced.Load() {
		return s.fencedBy
	}
	return errRemoved()
}

// whyRemoved gives the reason for the removal of this node: another node took over, or a newer Remit
// has updated the tables.
func (s *Store) whyRemoved(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, s.lease/4)
	defer stop()
	if err := s.checkVersion(s.beats.QueryRowContext(ctx, selectVersion)); errors.Is(err, fault.StoreVersion) {
		return err
	}
	return errRemoved()
}

func errRemoved() error {
	return fault.New(fault.StoreFailed, "another node took over from this one").
		WithHint("restart this node; a node that cannot reach the database for the time of its lease loses its runs")
}

// Recover implements store.Store. It removes the nodes whose lease is over, which can
// then append nothing, and closes the runs of all that are no members.
func (s *Store) Recover(ctx context.Context) (int, error) {
	if s.readOnly {
		return 0, s.ErrReadOnly()
	}
	if err := s.removeDead(ctx); err != nil {
		return 0, s.fault(err, "dead nodes cannot be removed")
	}
	ended, err := s.InterruptEndless(ctx)
	if err != nil {
		return ended, err
	}
	known := map[uuid.UUID]bool{s.node: false, ledger.NoOwner: false} // whether a node is dead
	closed, err := s.InterruptRuns(ctx, func(owner uuid.UUID) (bool, error) {
		if dead, ok := known[owner]; ok {
			return dead, nil
		}
		var n int
		err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM members WHERE id = $1", owner).Scan(&n)
		known[owner] = n == 0
		return n == 0, s.fault(err, "the owner of a run cannot be found out")
	})
	maps.DeleteFunc(known, func(_ uuid.UUID, dead bool) bool { return !dead })
	s.CountDeaths(maps.Keys(known), err == nil)
	return ended + closed, err
}
