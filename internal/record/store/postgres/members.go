package postgres

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/owners"
)

// stay is one membership of this node, from the time when it joined until its lease is over or
// another node has removed it. Then the node may join anew, with another ID.
type stay struct {
	id    uuid.UUID
	lock  *os.File        // in owners, by which this home knows that the process lives; nil: it cannot
	until atomic.Int64    // when the lease is over, by clock
	held  context.Context // ends, with the reason as its cause, when the stay is over
	end   context.CancelCauseFunc
}

func newStay() *stay {
	t := &stay{id: uuid.New()}
	t.held, t.end = context.WithCancelCause(context.Background())
	return t
}

// renewal is how the last renewal of the lease went.
type renewal struct {
	at  time.Time // of the last one that succeeded
	err error     // of the last one; nil: it succeeded
}

// me is the ID of this node as a member.
func (s *Store) me() uuid.UUID { return s.stay.Load().id }

// join makes this node a member.
func (s *Store) join(ctx context.Context) error {
	t, asked := s.stay.Load(), s.clock()
	if err := s.enter(ctx, s.durable, t, nil); err != nil {
		return err
	}
	t.until.Store(asked + int64(s.lease))
	s.joined.Store(s.clock())
	s.renewed.Store(&renewal{at: time.Now()})
	return nil
}

// enter writes the row of a stay, and removes that of the one before. A migration has the table for
// itself, so no node enters that does not know the tables as they are.
func (s *Store) enter(ctx context.Context, db *sql.DB, t, before *stay) (err error) {
	if lock, herr := owners.In(s.home).Hold(t.id); herr == nil { // a home may be read-only
		t.lock = lock
		defer func() {
			if err != nil {
				s.unlock(t)
			}
		}()
	}
	tx, err := db.BeginTx(ctx, nil)
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
	var last settled // of the stay before
	if before != nil {
		if last, err = s.endStay(ctx, tx, before); err != nil {
			return err
		}
	}
	base := s.base()
	_, err = tx.ExecContext(ctx, "WITH m AS (INSERT INTO members(id, lease_until, lease, name) VALUES($1, clock_timestamp() + $2 * interval '1 microsecond', $2, $3) RETURNING id) INSERT INTO heads(member, number, first) SELECT id, $4, 0 FROM m",
		t.id, s.lease.Microseconds(), s.nodeName, base)
	if err == nil {
		err = tx.Commit()
	}
	if err == nil && before != nil {
		s.rebase(base, last.number)
		s.unlock(before)
	}
	return err
}

// unlock removes the lock of a stay that is over. A file that stays is removed with its node, or does
// not matter: its lock is free.
func (s *Store) unlock(t *stay) {
	if t.lock != nil {
		_ = errors.Join(owners.In(s.home).Remove(t.id, t.lock), t.lock.Close())
		t.lock = nil
	}
}

// endStay removes the row of a stay that is over. It returns the number of the last batch, 0 if
// another node has removed the row.
func (s *Store) endStay(ctx context.Context, tx *sql.Tx, t *stay) (last settled, err error) {
	// A message under way has the row locked, and is waited for.
	if _, err = tx.ExecContext(ctx, "SELECT FROM members WHERE id = $1 FOR UPDATE", t.id); err != nil {
		return last, err
	}
	err = tx.QueryRowContext(ctx, "SELECT number FROM heads WHERE member = $1", t.id).Scan(&last.number)
	if errors.Is(err, sql.ErrNoRows) {
		return last, nil
	}
	if err == nil && last.number < s.synced.Load() {
		return last, s.errLacksDurable()
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM members WHERE id = $1", t.id)
	}
	return last, err
}

// clock reads the monotonic clock, which no change of the time of day moves.
func (s *Store) clock() int64 { return int64(time.Since(s.born)) }

// HoldsLease returns an error if this node may not act: its lease is over, or another node has
// removed it. lost is closed once it is removed, or has seen that its lease is over. A node that
// has joined anew has another lost.
func (s *Store) HoldsLease() (lost <-chan struct{}, err error) {
	t := s.stay.Load()
	if err := t.endReason(); err != nil {
		return t.held.Done(), err
	}
	if !s.readOnly && s.clock() > t.until.Load() {
		err = s.errAway()
	}
	return t.held.Done(), err
}

// endReason is why a stay is over; nil: it is not known to be.
func (t *stay) endReason() error {
	if t.held.Err() == nil {
		return nil
	}
	return context.Cause(t.held)
}

// LeaseLeft tells how long this node may act without renewing its lease; 0: it may not.
func (s *Store) LeaseLeft() time.Duration {
	t := s.stay.Load()
	if t.endReason() != nil {
		return 0
	}
	return max(0, time.Duration(t.until.Load()-s.clock()))
}

// Usable returns an error while the database cannot be used: the last renewal of the lease failed,
// or the node has not joined again yet. The error names no address.
func (s *Store) Usable() error {
	if s.readOnly {
		return nil
	}
	if _, err := s.HoldsLease(); err != nil {
		return err
	}
	if s.renewed.Load().err != nil {
		return s.errAway()
	}
	return nil
}

// Dead returns a channel that is closed when this node cannot go on until a person has mended
// something, and then the reason.
func (s *Store) Dead() (<-chan struct{}, error) {
	if s.dead.Err() == nil {
		return s.dead.Done(), nil
	}
	return s.dead.Done(), context.Cause(s.dead)
}

// endFor ends a stay. If its reason stays until a person mends it, the node ends too.
func (s *Store) endFor(t *stay, why error) {
	t.end(why)
	if needsPerson(why) {
		s.die(why)
	}
}

// needsPerson reports whether an error stays until a person has mended something.
func needsPerson(err error) bool {
	return errors.Is(err, fault.StoreVersion) || errors.Is(err, fault.StoreMissing) || errors.Is(err, fault.StoreReadOnly) && !errors.Is(err, errStandby)
}

// Leased implements tables.Shared.
func (d database) Leased(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	held := d.stay.Load().held
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// beat renews the lease until ctx ends. A lease that cannot be renewed for its whole time is lost:
// other nodes may have removed this one. Then it joins anew as soon as it can.
func (s *Store) beat(ctx context.Context) {
	for wait := s.lease / 4; pause.For(ctx, wait) == nil && s.dead.Err() == nil; {
		wait = s.lease / 20
		if t := s.stay.Load(); t.endReason() != nil {
			s.comeBack(ctx, t)
		} else if s.keep(ctx, t) {
			wait = s.lease / 4
		}
	}
}

// keep renews the lease of a stay once. It reports whether that succeeded.
func (s *Store) keep(ctx context.Context, t *stay) bool {
	asked := s.clock() // the lease counts from before the question
	ok, err := s.renew(ctx, t)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil && ok:
		t.until.Store(asked + int64(s.lease))
		s.renewed.Store(&renewal{at: time.Now()})
		s.watchServer(ctx)
		s.watchClock(ctx)
		return true
	case err == nil:
		s.endFor(t, s.whyRemoved(ctx))
	default:
		s.renewed.Store(&renewal{at: s.renewed.Load().at, err: err})
		if s.clock() > t.until.Load() {
			t.end(s.errAway())
		}
	}
	return false
}

// renew reports whether this node is still a member. It has a connection of its own, so that it
// waits for nothing else. It does not wait for longer than the lease.
func (s *Store) renew(ctx context.Context, t *stay) (bool, error) {
	left := time.Duration(t.until.Load() - s.clock())
	if left <= 0 { // this node was stopped: it may still be a member
		left = s.lease / 2
	}
	ctx, stop := context.WithTimeout(ctx, min(left, s.lease/2)+time.Millisecond)
	defer stop()
	r, err := s.beats.ExecContext(ctx, "UPDATE members SET lease_until = clock_timestamp() + $2 * interval '1 microsecond' WHERE id = $1", t.id, s.lease.Microseconds())
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// joinTime is how long an attempt to join anew may take at least.
const joinTime = 5 * time.Second

// comeBack joins anew after a stay, if the database can be used again. The node's runs of before are
// dead: it begins no call in them, and any node takes its turns over.
func (s *Store) comeBack(ctx context.Context, before *stay) {
	ctx, stop := context.WithTimeout(ctx, max(s.lease, joinTime))
	defer stop()
	err := s.Reown(ctx, func() (uuid.UUID, error) {
		if err := s.checkServer(ctx); err != nil {
			return uuid.Nil, err
		}
		next, asked := newStay(), s.clock()
		if err := s.enter(ctx, s.beats, next, before); err != nil {
			return uuid.Nil, err
		}
		next.until.Store(asked + int64(s.lease))
		s.patient.Store(s.clock() + int64(s.lease))
		s.renewed.Store(&renewal{at: time.Now()})
		s.stay.Store(next)
		return next.id, nil
	})
	switch {
	case err == nil:
	case needsPerson(err):
		s.die(err)
	default:
		s.renewed.Store(&renewal{at: s.renewed.Load().at, err: err})
	}
}

// leave ends this node's membership, so that others need not wait for its lease.
func (s *Store) leave() error {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	t := s.stay.Load()
	_, err := s.durable.ExecContext(ctx, "DELETE FROM members WHERE id = $1", t.id)
	s.unlock(t)
	if t.endReason() != nil {
		return nil
	}
	return err
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
	return fault.New(fault.StoreFailed, "another node took over from this one, whose lease was over").
		WithHint("the node joins anew by itself")
}

// errAway says that this node cannot renew its lease, and since when.
func (s *Store) errAway() error {
	last := s.renewed.Load()
	why := "it cannot be reached"
	var pe *pgconn.PgError
	switch {
	case errors.As(last.err, &pe):
		why = "PostgreSQL reported " + pe.Code
	case last.err == nil, errors.Is(last.err, context.DeadlineExceeded):
		why = "it does not answer in time"
	}
	return fault.New(fault.StoreFailed, "this node has not renewed its lease in the database since %s: %s", last.at.UTC().Format(time.RFC3339), why).
		WithHint("check PostgreSQL and the connection to it; the node goes on by itself")
}

// Recover implements store.Store. It removes the nodes whose lease is over, which can
// then append nothing, and closes the runs of all that are no members.
func (s *Store) Recover(ctx context.Context) (int, error) { return s.recoverAfter(ctx, s.awaitDead) }

// RecoverKnown implements store.Store.
func (s *Store) RecoverKnown(ctx context.Context) (int, error) {
	return s.recoverAfter(ctx, s.removeDead)
}

// recoverAfter closes the runs of all that are no members, after remove.
func (s *Store) recoverAfter(ctx context.Context, remove func(context.Context) error) (int, error) {
	if s.readOnly {
		return 0, s.ErrReadOnly()
	}
	if err := remove(ctx); err != nil {
		return 0, s.fault(err, "dead nodes cannot be removed")
	}
	ended, err := s.InterruptEndless(ctx)
	if err != nil {
		return ended, err
	}
	known := map[uuid.UUID]bool{s.me(): false, ledger.NoOwner: false} // whether a node is dead
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
