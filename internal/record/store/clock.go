package store

import "time"

// Clock is the one clock by which all processes of a ledger decide whether a stored time has
// come. In PostgreSQL it is the server's, on one machine the machine's.
type Clock interface {
	// Now reads the clock.
	Now() time.Time
	// Ahead is how far this machine's clock is ahead of it; negative: behind.
	Ahead() time.Duration
}

// Apart is how far a machine's clock may be from the database's without a warning.
const Apart = 5 * time.Second

// LaterOf reads the machine's clock and the ledger's, and gives the later time. So authority
// ends as soon as it is over by one of the two.
func LaterOf(c Clock) func() time.Time {
	return func() time.Time {
		now := time.Now()
		if shared := c.Now(); shared.After(now) {
			return shared
		}
		return now
	}
}
