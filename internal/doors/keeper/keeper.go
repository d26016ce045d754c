// Package keeper serves the hooks and shells of one user's agents from one process per $REMIT_HOME, which
// stays between the calls. Only processes of the same user outside of any sandbox may connect. Its caller
// decides the calls and runs the scripts. Start at [Keeper.Serve].
package keeper

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// Keeper is the process that stays.
type Keeper struct {
	Home    string // absolute
	Version string
	Answer  func(ctx context.Context, r hookwire.Request) hookwire.Answer
	// Shell runs a script with the streams of its client, and returns the exit status.
	Shell func(ctx context.Context, r hookwire.Request, in io.Reader, out, errs io.Writer) byte
	// Open lists the sandboxes of sessions, and Sockets makes the sockets of one connection in one of them.
	Open    func() []sandbox.OpenSession
	Sockets func(ctx context.Context, id, workspace string) ([]*os.File, error)

	Env   func(name string) (string, bool) // the environment of this process
	Stale func() bool                      // tells that a new process is needed
	Kept  func() int                       // the number of sandboxes that stay; with one, the keeper is not idle
	Idle  time.Duration                    // after the last call the keeper ends
	Look  time.Duration                    // between two looks at the files that it depends on
	Lock  *os.File                         // locked by the process that started this one; nil: Serve locks it

	program  string // identifies this process's program; see hookwire.Identify
	standing string // of this process
	scripts  sync.WaitGroup

	mu       sync.Mutex
	since    time.Time
	last     time.Time // of the last call's end
	now      int       // calls that are answered now
	shells   int       // scripts among them
	calls    int
	declined int
}

// Status describes a running keeper.
type Status struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	Calls   int       `json:"calls"` // that it answered
	// Sandboxes are those of agents' sessions.
	Sandboxes int `json:"sandboxes"`
	// Declined are calls that it left to remit hook.
	Declined int `json:"declined"`
}
