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
	if was := s.shift.Swap(shift); was != 0 && time.Duration(shift-was).Abs() > time.Second {
		s.jumped.Store(s.clock())
	}
	return nil
}

// removeDead removes the nodes whose lease is over. After a jump of the server's clock it first
// gives all nodes the time of a lease to renew theirs.
func (s *Store) removeDead(ctx context.Context) error {
	if err := s.askClock(ctx, s.durable); err != nil {
		return err
	}
	if jumped := s.jumped.Load(); jumped != 0 && s.clock()-jumped < int64(s.lease) {
		return nil
	}
	if s.clock() <= s.patient.Load() { // this node was away itself: the others get the time of a lease to come back
		return nil
	}
	if err := s.watchYoung(ctx); err != nil {
		return err
	}
	_, err := s.durable.ExecContext(ctx, "DELETE FROM members WHERE lease_until < clock_timestamp()")
	return err
}

// watchYoung waits while leases are over and this process has not watched them for the time of a
// lease: the clock may have jumped just before it opened the ledger. Living nodes renew theirs.
func (s *Store) watchYoung(ctx context.Context) error {
	for s.clock() <= s.joined+int64(s.lease) {
		var over bool
		if err := s.durable.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM members WHERE lease_until < clock_timestamp())").Scan(&over); err != nil || !over {
			return err
		}
		if err := pause.For(ctx, s.lease/20); err != nil {
			return err
		}
	}
	return nil
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

// watchClock asks for the time and looks for leases that the server's clock has left behind. What
// fails is tried again with the next renewal.
func (s *Store) watchClock(ctx context.Context) {
	asking, stop := context.WithTimeout(ctx, s.lease/2)
	defer stop()
	if s.askClock(asking, s.beats) == nil {
		_ = s.dropFarLeases(asking)
	}
}
