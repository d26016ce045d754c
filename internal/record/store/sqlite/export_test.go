package sqlite

import (
	"context"
	"strconv"
	"time"
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
