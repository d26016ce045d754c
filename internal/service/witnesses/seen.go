package witnesses

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/witness"
)

// SeenFile has, in $REMIT_HOME, the newest checkpoint of the ledger that this machine has seen.
// It is not in the database: an older copy of that must not bring an older note.
const SeenFile = "seen.note"

// Here names this machine where others have the name of a witness. No witness can have it.
const Here = "this machine"

// seeEvery is how often a service looks for a newer checkpoint.
var seeEvery = 5 * time.Second

func (s *Witnesses) seenFile() string { return filepath.Join(s.Home.Dir, SeenFile) }

// checkSeen compares the ledger with the noted checkpoint. An unreadable note, or one of another
// ledger, does not count.
func (s *Witnesses) checkSeen(ctx context.Context, st store.Backend) error {
	b, err := wholefile.Read(s.seenFile(), maxNote)
	if err != nil {
		return nil //nolint:nilerr // a machine that has seen nothing
	}
	return s.judge(ctx, st, Here, differs(witness.Compare(ctx, st, b)))
}

// hasSeen reports whether a ledger in a file has exactly the noted checkpoint. An attacker with write
// access to the file can also remove the note beside it.
func (s *Witnesses) hasSeen(ctx context.Context, st store.Backend) bool {
	_, newest := s.noted(ctx, st)
	return newest && s.Home.Database == ""
}

// noted reads the noted checkpoint; nil: this machine has seen nothing. newest: it is also the
// newest one that the ledger has.
func (s *Witnesses) noted(ctx context.Context, st store.Backend) (b []byte, newest bool) {
	b, err := wholefile.Read(s.seenFile(), maxNote)
	if err != nil {
		return nil, false
	}
	has, err := st.Newest(ctx)
	return b, err == nil && bytes.Equal(b, has)
}

// See notes the newest checkpoint of the ledger, if it is newer than the noted one. The ledger is
// compared with that first. Events that are durable in the database alone are noted: else a loss
// of power would look like a rollback.
func (s *Witnesses) See(ctx context.Context, st store.Backend) error {
	b, newest := s.noted(ctx, st)
	if newest {
		return nil
	}
	head, err := st.Head(ctx)
	if err != nil || head.Prev <= sizeOf(st, b) {
		return err
	}
	if err := s.checkSeen(ctx, st); err != nil {
		return err
	}
	signed, err := st.Checkpoint(ctx) // syncs the one that is there, or makes a newer one
	if err != nil {
		return err
	}
	return wholefile.Replace(s.seenFile(), signed)
}

// sizeOf returns how many events a noted checkpoint covers; 0: it is none of this ledger.
func sizeOf(st store.Backend, signed []byte) int64 {
	c, err := st.OpenCheckpoint(signed)
	if err != nil {
		return 0
	}
	return c.Size
}

// While notes newer checkpoints while serve works. The context of serve ends, with the reason as its
// cause, when the ledger does not extend the noted checkpoint.
func (s *Witnesses) While(ctx context.Context, st store.Backend, serve func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(seeEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := rolledBack(errors.Join(s.checkSeen(ctx, st), s.See(ctx, st))); err != nil {
				cancel(err)
				return
			}
		}
	}()
	defer func() { cancel(nil); <-done }()
	return serve(ctx)
}

// forgetSeen removes the note: a person has accepted the ledger as it is.
func (s *Witnesses) forgetSeen() error {
	if err := os.Remove(s.seenFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.StoreFailed, err, "%q cannot be removed: %v", s.seenFile(), wholefile.Cause(err))
	}
	return nil
}
