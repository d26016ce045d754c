package tables

import (
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Now implements store.Clock.
func (s *Store) Now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

// now is Now in microseconds, as the tables have times.
func (s *Store) now() int64 { return s.Now().UnixMicro() }

// Ahead implements store.Clock.
func (s *Store) Ahead() time.Duration {
	if s.clock == nil {
		return 0
	}
	if apart := time.Since(s.clock()); apart.Abs() >= time.Second { // less is the time of reading it
		return apart
	}
	return 0
}

// sharedTime is a time of this machine's clock by the shared clock. A record that
// lives for ten minutes does so on every machine.
func (s *Store) sharedTime(t time.Time) int64 { return t.Add(-s.Ahead()).UnixMicro() }

// ownTime is a shared time by this machine's clock.
func (s *Store) ownTime(shared int64) time.Time { return ledger.Time(shared).Add(s.Ahead()) }
