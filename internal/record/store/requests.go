package store

import (
	"context"
	"time"
)

// Requests keeps the idempotency keys of client requests, so that a repeated request
// is made once, by any process. Of an answer only the status and the named object are
// kept, never the content.
type Requests interface {
	// BeginRequest notes a request before it is made. If the same holder used the key
	// before, and the record has not expired, it returns that record and false. The
	// newest most records of a holder are kept.
	BeginRequest(ctx context.Context, r RequestRecord, most int) (RequestRecord, bool, error)
	// EndRequest notes how a request was answered. A Status of 0 forgets it: its key is
	// new again. One that is not kept any more stays so.
	EndRequest(ctx context.Context, r RequestRecord) error
}

// RequestRecord is a request as it is kept.
type RequestRecord struct {
	Holder string   // under which grant it was made, or by which person: the ID
	Key    [32]byte // names it among the holder's
	Print  [32]byte // digest of the request, to compare repeated ones
	Until  time.Time
	Status int    // of the answer; 0: there is none, or not yet
	Place  string // the object that the answer named, as a path; "": none
}
