package sqlite

import (
	"context"
	"database/sql"
	"strconv"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
)

// LimitPages makes the disk look full once the file has n pages; 0 lifts it.
func (s *Store) LimitPages(n int) {
	if n == 0 {
		n = 1 << 30
	}
	if _, err := s.conn.ExecContext(context.Background(), "PRAGMA max_page_count="+strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// WaitMillis sets how long the writer waits for another program's lock.
func (s *Store) WaitMillis(n int) {
	if _, err := s.conn.ExecContext(context.Background(), "PRAGMA busy_timeout="+strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// BreakSync makes every later sync fail.
func (s *Store) BreakSync() {
	if _, err := s.wal.open(); err != nil {
		panic(err)
	}
	if err := s.wal.file.Close(); err != nil {
		panic(err)
	}
}

// TurnMillis sets how long the writer waits for other processes' turns.
func (s *Store) TurnMillis(n int) { s.turns.timeout = time.Duration(n) * time.Millisecond }

// FailCommit makes the commit after n more fail, once. It returns a function that reports whether
// that has happened.
func (s *Store) FailCommit(n int) (failed func() bool) {
	var left atomic.Int64
	left.Store(int64(n))
	err := s.conn.Raw(func(c any) error {
		c.(driver.HookRegisterer).RegisterCommitHook(func() int32 {
			if left.Add(-1) == -1 {
				return 1
			}
			return 0
		})
		return nil
	})
	if err != nil {
		panic(err)
	}
	return func() bool { return left.Load() < 0 }
}

// Home returns the folder of the ledger.
func (s *Store) Home() string { return s.home }

// SeenRuns counts the runs, with each of the connections that read.
func (s *Store) SeenRuns(ctx context.Context) (seen []int, err error) {
	var conns []*sql.Conn
	for range s.read.Stats().MaxOpenConnections {
		c, err := s.read.Conn(ctx)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	for _, c := range conns {
		var n int
		if err := c.QueryRowContext(ctx, "SELECT count(*) FROM runs").Scan(&n); err != nil {
			return nil, err
		}
		seen = append(seen, n)
	}
	return seen, nil
}
