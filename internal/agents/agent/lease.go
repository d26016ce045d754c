package agent

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// lease is the right to work on a session, which one process has at a time. Where
// processes share a ledger file, an open run of the session stands for it: the ledger
// closes the runs of processes that died. In a database that several machines share,
// it is a row with an expiry. All that would change for that is in this file.
type lease struct {
	session uuid.UUID
	run     uuid.UUID // the open run
	epoch   int       // version of the session's record that names the run: with another one, the lease is lost
}

// takeLease records that a run works on a session, unless its record was changed since
// it was read: then another process has the lease.
func (s *Service) takeLease(ctx context.Context, r store.SessionRecord, d sessionDoc, run uuid.UUID, by string) (lease, error) {
	d.Run, d.Granted = run.String(), true
	r, err := s.save(context.WithoutCancel(ctx), r, d, by)
	if errors.Is(err, fault.Stale) {
		err = errBusy("another process has just started to work on the session")
	}
	return lease{session: r.ID, run: run, epoch: r.Version}, err
}

// checkLease gives a session's runs, and fault.SessionBusy if one of them is open: a
// process has the lease.
func (s *Service) checkLease(ctx context.Context, session uuid.UUID) ([]ledger.Run, error) {
	runs, err := s.closedRuns(ctx, session)
	if err == nil && anyOpen(runs) {
		err = errBusy("another process works on the session")
	}
	return runs, err
}

// leasedElsewhere reports whether another process has the lease on a session. In a
// ledger that is only read, an open run counts as one.
func (s *Service) leasedElsewhere(ctx context.Context, session uuid.UUID) (bool, error) {
	runs, err := s.closedRuns(ctx, session)
	if errors.Is(err, fault.StoreReadOnly) {
		runs, err = s.o.Record.SessionRuns(ctx, session)
	}
	return anyOpen(runs), err
}

// closedRuns closes the runs of dead processes and gives the session's runs. While one is open, it
// waits until the store knows all dead processes.
func (s *Service) closedRuns(ctx context.Context, session uuid.UUID) (runs []ledger.Run, err error) {
	for _, end := range []func(context.Context) (int, error){s.o.Record.RecoverKnown, s.o.Record.Recover} {
		if _, err = end(ctx); err == nil {
			runs, err = s.o.Record.SessionRuns(ctx, session)
		}
		if err != nil || !anyOpen(runs) {
			break
		}
	}
	return runs, err
}

func anyOpen(runs []ledger.Run) bool {
	for _, r := range runs {
		if r.Status == ledger.Running {
			return true
		}
	}
	return false
}
