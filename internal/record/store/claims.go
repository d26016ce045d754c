package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Claims finds the queued runs that can be started, without reading those that cannot. A run
// that could not start is filed in a lane, which says why. While that reason holds, a process
// passes over the whole lane.
//
// Claims and lanes only save work: StartQueued decides, whatever they say.
type Claims interface {
	// Lanes lists the lanes and priorities of waiting runs whose time has come, in the order
	// of their first runs. It takes a time that depends on the number of lanes, not of runs.
	Lanes(ctx context.Context) ([]Lane, error)
	// ClaimQueued claims at most n runs of a lane, in their order. Their time has come,
	// they are due no later than upTo, and no process has claimed them.
	ClaimQueued(ctx context.Context, l Lane, upTo time.Time, n int) ([]ClaimedRun, error)
	// FileQueued ends the claims of runs that wait still, and files them in a lane; "": they
	// are looked at again. Their tries are counted anew, unless they failed.
	FileQueued(ctx context.Context, lane string, failed bool, runs ...uuid.UUID) error
}

// ClaimFor is how long a claim lasts. A claim that ends later than twice that was made before
// the clock was set back, and has ended.
const ClaimFor = 10 * time.Second

// Lane is a lane of the queue, with the runs of one priority.
type Lane struct {
	Name     string
	Priority int
	Due      time.Time // of its first run
}

// ClaimedRun is a run that this process claimed.
type ClaimedRun struct {
	QueuedRun
	Tries int // how often it was claimed, and neither started nor filed
}
