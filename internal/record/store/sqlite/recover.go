package sqlite

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/owners"
)

// holdOwner takes the lock that shows other processes that this one is alive. It
// is held until Close, or until the kernel drops it with the process.
func (s *Store) holdOwner() (err error) {
	s.ownerMu.Lock()
	defer s.ownerMu.Unlock()
	if s.ownerLock != nil {
		return nil
	}
	s.ownerLock, err = owners.In(s.home).Hold(s.owner)
	return s.fault(err, "the run's owner cannot be recorded")
}

func (s *Store) releaseOwner() error {
	s.ownerMu.Lock()
	defer s.ownerMu.Unlock()
	if s.ownerLock == nil {
		return nil
	}
	err := errors.Join(owners.In(s.home).Remove(s.owner, s.ownerLock), s.ownerLock.Close())
	s.ownerLock = nil
	return err
}

// Recover implements store.Store. A run is left alone unless the lock of its
// owner can be taken or is gone.
func (s *Store) Recover(ctx context.Context) (closed int, err error) {
	if s.readOnly {
		return 0, s.ErrReadOnly()
	}
	locks := map[uuid.UUID]*os.File{}
	defer func() {
		for _, f := range locks {
			if f != nil {
				_ = f.Close() // releases the lock
			}
		}
	}()
	if closed, err = s.InterruptEndless(ctx); err != nil {
		return closed, err
	}
	died, seen, err := s.ownerDied(locks)
	if err != nil || !died {
		return closed, err
	}
	defer func() {
		if err == nil {
			s.recovered.Store(&seen)
		}
	}()
	n, err := s.InterruptRuns(ctx, func(owner uuid.UUID) (bool, error) { return s.dead(owner, locks) })
	if closed += n; err == nil {
		err = s.removeOwners(locks)
	}
	s.CountDeaths(maps.Keys(locks), err == nil)
	return closed, err
}

// RecoverKnown implements store.Store. The locks tell at once.
func (s *Store) RecoverKnown(ctx context.Context) (int, error) { return s.Recover(ctx) }

// tick is the possible delay between a change of a folder and the time that the
// kernel records for it.
const tick = 20 * time.Millisecond

// ownerDied reports whether a process may have ended since this store last looked
// for runs that were left open, which it does at the first call. Owners make and
// remove their files in one folder. Its modification time shows that a file was
// added or removed, and the locks show which owners are alive. The time is
// returned for the next call.
func (s *Store) ownerDied(locks map[uuid.UUID]*os.File) (died bool, seen time.Time, err error) {
	info, err := os.Stat(string(owners.In(s.home)))
	if errors.Is(err, os.ErrNotExist) {
		return s.recovered.Load() == nil, seen, nil
	}
	if err != nil {
		return false, seen, s.fault(err, "dead owners cannot be found")
	}
	seen = info.ModTime()
	if last := s.recovered.Load(); last == nil || !last.Equal(seen) || time.Since(seen) < tick {
		return true, seen, nil
	}
	all, err := owners.In(s.home).All()
	if err != nil {
		return false, seen, s.fault(err, "dead owners cannot be found")
	}
	for _, id := range all {
		if died, err := s.dead(id, locks); died || err != nil {
			return died, seen, err
		}
	}
	return false, seen, nil
}

// dead reports whether the owner's lock is free, and if so holds it until Recover
// returns.
func (s *Store) dead(owner uuid.UUID, locks map[uuid.UUID]*os.File) (bool, error) {
	if owner == s.owner || owner == ledger.NoOwner {
		return false, nil
	}
	if _, ok := locks[owner]; ok {
		return true, nil
	}
	f, err := owners.In(s.home).Take(owner)
	if f == nil && !errors.Is(err, os.ErrNotExist) {
		return false, s.fault(err, "the owner of a run cannot be found out")
	}
	locks[owner] = f
	return true, nil
}

// removeOwners removes the files of dead owners, even if they never recorded a
// run.
func (s *Store) removeOwners(locks map[uuid.UUID]*os.File) error {
	all, err := owners.In(s.home).All()
	if err != nil {
		return s.fault(err, "dead owners cannot be found")
	}
	for _, id := range all {
		if _, err := s.dead(id, locks); err != nil {
			return err
		}
	}
	for owner, f := range locks {
		if f == nil {
			continue
		}
		if err := owners.In(s.home).Remove(owner, f); err != nil {
			return s.fault(err, "a dead owner's lock cannot be removed")
		}
	}
	return nil
}
