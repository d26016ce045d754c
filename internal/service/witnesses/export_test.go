package witnesses

import "time"

// SeeOften makes services look for newer checkpoints all the time, until the returned function is
// called.
func SeeOften() (restore func()) {
	was := seeEvery
	seeEvery = time.Millisecond
	return func() { seeEvery = was }
}
