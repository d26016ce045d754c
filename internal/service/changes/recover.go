package changes

import (
	"context"
	"errors"
	"github.com/google/uuid"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Recover finishes or takes back what a crash interrupted, and records the result. It looks
// for that at its first call, and when a process has died since: each look lists the logs of
// all kept runs. It also removes old data, once a day.
func (s *Changes) Recover(ctx context.Context, st store.Store) error {
	now, deaths := s.now(), st.Deaths()
	s.mu.Lock()
	look, sweep := !s.looked || deaths != s.deaths || len(s.unrecorded) > 0, now.Sub(s.swept) >= sweepEvery
	s.looked, s.deaths = true, deaths
	if sweep {
		s.swept = now
	}
	s.mu.Unlock()
	var err error
	if look {
		err = s.recover(ctx, st)
	}
	if sweep {
		err = errors.Join(err, s.sweep(ctx, st))
	}
	return err
}

// sweep removes old data, if that was last done a day ago.
func (s *Changes) sweep(ctx context.Context, st store.Store) error {
	swept, err := s.Folder().SweepDaily(retention(s.Home.Settings.Changes))
	if err == nil && !swept.Swept.IsZero() {
		err = s.dropUnbegun(ctx, st)
	}
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "data of old runs cannot be removed: %v", err)
	}
	return nil
}

// Forget removes the copies for undoing runs. It reports false if that must wait, since a run
// keeps copies now.
func (s *Changes) Forget(runs []uuid.UUID) (bool, error) {
	r := retention(s.Home.Settings.Changes)
	r.Forgotten = map[string]bool{}
	for _, id := range runs {
		r.Forgotten[id.String()] = true
	}
	folder, begun := s.Folder(), time.Now()
	if kept, err := folder.Kept(); err != nil || kept.Over == 0 {
		return true, err
	}
	kept, err := folder.Sweep(r)
	return !kept.Swept.Before(begun.Truncate(time.Second)), err
}

// recover finishes or takes back interrupted changes.
func (s *Changes) recover(ctx context.Context, st store.Store) error {
	done, err := s.Folder().Recover()
	s.mu.Lock()
	if fault.Passing(err) {
		s.looked = false
	}
	done = append(s.unrecorded, done...)
	s.unrecorded = nil
	s.mu.Unlock()
	for _, d := range done {
		ev := ledger.Event{Change: ledger.ChangesFailed, Code: fault.Interrupted}
		switch {
		case d.Forward && d.Undo:
			ev = ledger.Event{Change: ledger.ChangesUndone}
		case d.Forward:
			ev = ledger.Event{Change: ledger.ChangesApplied}
		}
		run, rerr := st.Run(ctx, d.Run)
		if rerr == nil {
			rerr = record(ctx, st, run.Seq, ev, nil)
		}
		if fault.Passing(rerr) {
			s.mu.Lock()
			s.unrecorded = append(s.unrecorded, d)
			s.mu.Unlock()
		}
		err = errors.Join(err, rerr)
	}
	return err
}

// dropUnbegun removes changesets of runs that were killed before they were
// recorded. Nothing has been written to them, and nobody could name them.
func (s *Changes) dropUnbegun(ctx context.Context, st store.Store) error {
	home := s.Folder()
	if err := home.DropUnmade(time.Now().Add(-unbegun)); err != nil {
		return err
	}
	runs, err := home.Runs()
	if err != nil {
		return err
	}
	for _, id := range runs {
		set, err := home.Load(id)
		if err != nil || set.State() != changeset.Active || time.Since(set.Begun()) < unbegun || !set.Untouched() {
			continue // a reader of a missing one gets the error
		}
		if _, err := st.Run(ctx, id); !errors.Is(err, fault.RunUnknown) {
			continue
		}
		if err := set.Drop(); err != nil {
			return err
		}
	}
	return nil
}
