package store

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Requests keeps the idempotency keys of client requests, so that a repeated request
// is carried out once, by any process. Of an answer only the status and the named object
// are kept, never the content.
type Requests interface {
	// BeginRequest claims the key of a request before it is carried out. Of any number of
	// claims of one key, by any processes, one is RequestClaimed until the record expires.
	// Otherwise it returns the record of the earlier request, which may have another Print.
	// The newest most records of a holder that have an answer are kept. A holder with as many
	// that have none, or a failed one, gets fault.LimitReached.
	BeginRequest(ctx context.Context, r RequestRecord, most int) (RequestRecord, RequestState, error)
	// EndRequest records how a request that this process claimed was answered. A Status of
	// 0 makes the key new again. So does a failure of a request whose Place is a run that has
	// begun no call. If EndRequest fails, the claim ends, and the record stays without an answer.
	EndRequest(ctx context.Context, r RequestRecord) error
}

// RequestState is what BeginRequest found.
type RequestState uint8

// The states of a request. The zero state refuses.
const (
	RequestUnderWay RequestState = iota // a process that is alive carries it out
	RequestClaimed                      // the caller may carry it out
	RequestAnswered                     // Status is the one of its answer
	RequestBegun                        // it ended without an answer, and may have had effects; Place says where to look
)

// RequestRecord is a request as it is kept.
type RequestRecord struct {
	Holder string   // under which grant it was made, or by which person: the ID
	Key    [32]byte // names it among the holder's
	Print  [32]byte // digest of the request, to compare repeated ones
	Until  time.Time
	Status int       // of the answer; 0: there is none, or not yet
	Place  string    // path of the object that the request makes or made; "": none, or not known
	Owner  uuid.UUID // the process that claimed it; zero in a record with an answer
}

// RunPlace begins the Place of a request that makes a run.
const RunPlace = "/v1/runs/"

// Run is the run that the request makes or made, as a queued one too.
func (r RequestRecord) Run() (id uuid.UUID, ok bool) {
	text, ok := strings.CutPrefix(r.Place, RunPlace)
	if !ok {
		return id, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

// Failed reports whether the answer was an error of the service, so that the request may
// have been carried out in part.
func (r RequestRecord) Failed() bool { return r.Status >= 500 }
