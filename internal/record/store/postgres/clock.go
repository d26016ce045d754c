package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/owners"
)

// All nodes share the server's clock. A node asks for it when it opens the ledger, with each
// renewal of its lease, and whenever it claims a queued run. Between two answers the node's
// monotonic clock counts on. The node's time of day decides nothing here.

// serverNow is the server's time in microseconds.
const serverNow = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// askClock asks the server for its time. A connection that has ended is replaced.
func (s *Store) askClock(ctx context.Context, db *sql.DB) (err error) {
	for range db.Stats().MaxOpenConnections + 1 {
		if err = s.askClockOnce(ctx, db); !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	return err
}

func (s *Store) askClockOnce(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx) // waiting for one is not part of the round trip
	if err != nil {
		return err
	}
	defer conn.Close()
	var micros int64
	asked := s.clock()
	if err := conn.QueryRowContext(ctx, "SELECT "+serverNow).Scan(&micros); err != nil {
		return err
	}
	shift := micros*1000 - (asked+s.clock())/2
	if was := s.shift.Swap(shift); was != 0 && time.Duration(shift-was).Abs() > min(time.Second, s.lease/2) {
		s.jumped.Store(s.clock())
	}
	return nil
}

const (
	selectEnded = "SELECT id FROM members WHERE lease_until < clock_timestamp()"
	removeEnded = "DELETE FROM members WHERE id = $1 AND lease_until < clock_timestamp()"
)

// removeDead removes the nodes whose lease is over. The server's clock may have jumped, so it leaves
// nodes that may live. A later call removes them.
func (s *Store) removeDead(ctx context.Context) error {
	if err := s.askClock(ctx, s.durable); err != nil {
		return err
	}
	if !s.watched() {
		return s.removeEnded(ctx)
	}
	_, err := s.durable.ExecContext(ctx, "DELETE FROM members WHERE lease_until < clock_timestamp()")
	return err
}

// watched reports whether living nodes have had the time of a lease to renew theirs: since the server's
// clock jumped, since this node was away, and since this process opened the ledger.
func (s *Store) watched() bool {
	return s.steady() && s.clock() > s.joined.Load()+int64(s.lease)
}

// steady is watched without the time since this process opened the ledger.
func (s *Store) steady() bool {
	now, jumped := s.clock(), s.jumped.Load()
	return (jumped == 0 || now-jumped >= int64(s.lease)) && now > s.patient.Load()
}

// removeEnded removes the nodes whose lease is over and whose process has ended, as its lock in this
// home shows.
func (s *Store) removeEnded(ctx context.Context) error {
	over, err := s.endedLeases(ctx)
	for _, id := range over {
		lock, lerr := owners.In(s.home).Take(id)
		if lerr != nil || lock == nil {
			continue // the node lives, or nothing here tells whether it does
		}
		_, rerr := s.durable.ExecContext(ctx, removeEnded, id)
		if rerr == nil {
			rerr = owners.In(s.home).Remove(id, lock)
		}
		err = errors.Join(err, rerr, lock.Close())
	}
	return err
}

// endedLeases lists the nodes whose lease is over.
func (s *Store) endedLeases(ctx context.Context) (out []uuid.UUID, err error) {
	rows, err := s.durable.QueryContext(ctx, selectEnded)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// lookEvery is the longest time between two looks at leases that are over.
const lookEvery = 250 * time.Millisecond

// awaitDead is removeDead for callers that need to know all dead nodes. A young process waits here: living
// nodes have the time of a lease to renew theirs.
func (s *Store) awaitDead(ctx context.Context) error {
	for {
		old := s.clock() > s.joined.Load()+int64(s.lease) // read first: a process that ages during the look looks again
		if err := s.removeDead(ctx); err != nil || old || !s.steady() {
			return err
		}
		over, err := s.endedLeases(ctx)
		if err != nil || len(over) == 0 {
			return err
		}
		if err := pause.For(ctx, min(s.lease/20, lookEvery)); err != nil {
			return err
		}
	}
}

// serverTime is the server's time, as the last answer tells it.
func (s *Store) serverTime() time.Time { return time.Unix(0, s.shift.Load()+s.clock()) }

// checkClock refuses a node whose time of day differs from the server's by more than a lease.
func (s *Store) checkClock(ctx context.Context) error {
	if err := s.askClock(ctx, s.beats); err != nil {
		return err
	}
	apart := time.Since(s.serverTime())
	if apart.Abs() <= max(s.lease, store.Apart) {
		return nil
	}
	side := "ahead of"
	if apart < 0 {
		side = "behind"
	}
	return fault.New(fault.StoreFailed, "the clock of this machine is %s %s that of the database %q; at most %s is allowed", apart.Abs().Round(time.Second), side, s.name, max(s.lease, store.Apart)).
		WithHint("set both clocks, for example with NTP")
}

// far is a lease that lies further away than its length: the server's clock was set back.
type far struct {
	until time.Time
	seen  int64 // when this node first saw it, by its monotonic clock
}

const (
	selectFar = "SELECT id, lease_until, lease FROM members WHERE id <> $1 AND lease_until > clock_timestamp() + lease * interval '1 microsecond'"
	dropFar   = "DELETE FROM members WHERE id = $1 AND lease_until = $2"
)

// dropFarLeases removes the members whose lease lies further away than its length, if they
// have not renewed it for that length. A node that lives renews it and so ends that state.
func (s *Store) dropFarLeases(ctx context.Context) error {
	rows, err := s.beats.QueryContext(ctx, selectFar, s.me())
	if err != nil {
		return err
	}
	defer rows.Close()
	seen := map[uuid.UUID]far{}
	var over []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		var until time.Time
		var micros int64
		if err := rows.Scan(&id, &until, &micros); err != nil {
			return err
		}
		f, known := s.far[id]
		if !known || !f.until.Equal(until) {
			f = far{until, s.clock()}
		}
		seen[id] = f
		if s.clock()-f.seen > micros*1000 {
			over = append(over, id)
		}
	}
	s.far = seen
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, id := range over {
		if _, err := s.beats.ExecContext(ctx, dropFar, id, seen[id].until); err != nil {
			return err
		}
	}
	return nil
}

// watchClock asks for the time and looks for leases that the server's clock has left behind. A
// failed step is tried again with the next renewal.
func (s *Store) watchClock(ctx context.Context) {
	asking, stop := context.WithTimeout(ctx, s.lease/2)
	defer stop()
	if s.askClock(asking, s.beats) == nil {
		_ = s.dropFarLeases(asking)
	}
}
