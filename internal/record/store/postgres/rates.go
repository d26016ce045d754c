package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

// TakeCalls takes at most want calls of a key, to begin within six seconds, out of the most that
// all nodes together begin in any minute. It returns how many it got, when that was, and if none
// are left, when to ask again. Before that, it gives back the calls that this node took at an earlier time
// and has not begun.
func (s *Store) TakeCalls(ctx context.Context, key []byte, most, want int, earlier int64, unused int) (got int, at int64, wait time.Duration, err error) {
	if s.readOnly {
		return 0, 0, 0, s.ErrReadOnly()
	}
	ctx, stop := context.WithTimeout(ctx, turnTimeout)
	defer stop()
	var us int64
	take := func(by interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}) error {
		return by.QueryRowContext(ctx, "SELECT got, at, wait FROM remit_take_calls($1, $2, $3, $4, $5, $6)", key, s.me(), most, want, earlier, unused).Scan(&got, &at, &us)
	}
	// Calls are given back once: statements of a held connection are not repeated.
	conn, err := s.durable.Conn(ctx)
	if err == nil {
		err = errors.Join(take(conn), conn.Close())
	}
	if transient(err) {
		unused = 0
		err = take(s.durable)
	}
	return got, at, time.Duration(us) * time.Microsecond, s.fault(err, "the calls of a minute cannot be counted")
}

// TakeRequests implements store.Rates by the clock of the server.
func (s *Store) TakeRequests(ctx context.Context, key [32]byte, b store.Bucket, want int) (got int, wait time.Duration, err error) {
	if s.readOnly {
		return 0, 0, s.ErrReadOnly()
	}
	ctx, stop := context.WithTimeout(ctx, turnTimeout)
	defer stop()
	var us int64
	err = s.durable.QueryRowContext(ctx, "SELECT got, wait FROM remit_take_requests($1, $2, $3, $4)", key[:], b.Gap(), max(b.Most, 1), want).Scan(&got, &us)
	return got, time.Duration(us) * time.Microsecond, s.fault(err, "the requests of a grant cannot be counted")
}
