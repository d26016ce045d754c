package store

import (
	"context"
	"time"
)

// Requests keeps which requests of clients were begun under a key of theirs, so that
// one that is repeated is made once, by whatever process. Of the answer only the
// status and what it named are kept, never what it said.
type Requests interface {
	// BeginRequest notes a request that is about to be made. Where its key was used
	// before by the same holder, and that is not over, nothing is noted: it gives what
	// is kept of that one, and false. Of one holder the newest most are kept.
	BeginRequest(ctx context.Context, r RequestRecord, most int) (RequestRecord, bool, error)
	// EndRequest notes how a request was answered. A Status of 0 forgets it: its key is
	// new again. One that is not kept any more stays so.
	EndRequest(ctx context.Context, r RequestRecord) error
}

// RequestRecord is a request as it is kept.
type RequestRecord struct {
	Holder string   // under which grant it was made: its ID
	Key    [32]byte // names it among the holder's
	Print  [32]byte // tells whether another is the same
	Until  time.Time
	Status int    // of the answer; 0: there is none, or not yet
	Place  string // what the answer named, as a path; "": nothing
}
