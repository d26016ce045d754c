// Package erasures erases payloads of the record, and the copies of them in $REMIT_HOME.
// Start at [Erasures.Erase].
package erasures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/home"
)

// Erasures erases payloads of one $REMIT_HOME.
type Erasures struct {
	Home    *home.Home
	Changes *changes.Changes
}

// Request chooses the payloads to erase. Exactly one field is set, except DryRun.
type Request struct {
	Run     string    // ID of a run that has ended
	Session string    // ID of a deleted session, which is erased with its runs
	Holder  string    // a holder of grants: all runs under them, and the deleted sessions
	Before  time.Time // all that ended before
	Expired bool      // payloads past the settings' retention

	DryRun bool
}

// Erase erases payloads, or only counts them.
func (s *Erasures) Erase(ctx context.Context, q Request) (out store.Erased, err error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return out, err
	}
	list, err := s.choose(ctx, st, q)
	if err != nil {
		return out, err
	}
	for _, e := range list {
		e.By = home.Person()
		one, err := st.Erase(ctx, e, q.DryRun)
		add(&out, one)
		if err != nil {
			return out, err
		}
	}
	if q.DryRun || out.Payloads == 0 {
		return out, nil
	}
	forgotten, err := s.Changes.Forget(out.RunIDs)
	if err == nil && !forgotten {
		out.Left = append(out.Left, "undo/: copies for undoing the runs, since a run is writing now; they go after changes.keep_days")
	}
	return out, err
}

// choose translates a request for the ledger.
func (s *Erasures) choose(ctx context.Context, st store.Backend, q Request) ([]store.Erasure, error) {
	switch {
	case q.Run != "":
		run, err := st.Run(ctx, q.Run)
		if err == nil && run.Ended.IsZero() {
			err = fault.New(fault.Conflict, "the run %s has not ended", run.ID).WithHint("erase it when it has")
		}
		return []store.Erasure{{Run: run.Seq, Scope: "run " + run.ID.String()}}, err
	case q.Session != "":
		one, err := st.Session(ctx, q.Session)
		if err == nil && !one.Deleted {
			err = fault.New(fault.Conflict, "the session %s is not deleted", one.ID).ForOperator("delete it first: remit sessions delete %s", one.ID)
		}
		return []store.Erasure{{Session: one.ID, Scope: "session " + one.ID.String()}}, err
	case q.Holder != "":
		return []store.Erasure{{Holder: q.Holder, Scope: "holder " + q.Holder}}, nil
	case !q.Before.IsZero():
		return []store.Erasure{{Before: q.Before, Runs: true, Sessions: true, Scope: "before " + q.Before.UTC().Format(time.RFC3339)}}, nil
	case q.Expired:
		return s.expired(time.Now()), nil
	}
	return nil, fault.New(fault.Usage, "nothing was chosen")
}

// expired returns the payloads past the retention of the settings.
func (s *Erasures) expired(now time.Time) (out []store.Erasure) {
	keep := s.Home.Settings.Retention
	add := func(days int, e store.Erasure, what string) {
		if days > 0 {
			e.Before = cutoff(now, days, keep.WholeMonths)
			e.Scope = fmt.Sprintf("retention of %s: %d days", what, days)
			out = append(out, e)
		}
	}
	add(keep.RunDays, store.Erasure{Runs: true}, "runs")
	add(keep.SessionDays, store.Erasure{Sessions: true}, "deleted sessions")
	return out
}

// cutoff is the time before which something must have ended to be erased: days ago, or with
// months the begin of that month, so that a month is erased as a whole.
func cutoff(now time.Time, days int, months bool) time.Time {
	at := now.AddDate(0, 0, -days)
	if months {
		at = time.Date(at.UTC().Year(), at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	return at
}

func add(to *store.Erased, e store.Erased) {
	to.Runs += e.Runs
	to.Sessions += e.Sessions
	to.Payloads += e.Payloads
	to.Blobs += e.Blobs
	to.Bytes += e.Bytes
	to.Open += e.Open
	to.Live += e.Live
	to.Shared += e.Shared
	to.Left = append(to.Left, e.Left...)
	to.RunIDs = append(to.RunIDs, e.RunIDs...)
}

// retainEvery is how often a service looks for payloads past their retention.
const retainEvery = 6 * time.Hour

// Retain carries out the retention of the settings until ctx ends. Failures are in the log.
func (s *Erasures) Retain(ctx context.Context) {
	if keep := s.Home.Settings.Retention; keep.RunDays == 0 && keep.SessionDays == 0 {
		return
	}
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		if _, err := s.Erase(ctx, Request{Expired: true}); err != nil && !errors.Is(err, context.Canceled) {
			if log, lerr := s.Home.Log(); lerr == nil {
				log.Logger().Error("retention_failed", "error", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
