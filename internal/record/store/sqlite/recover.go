package sqlite

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/record/ledger"
)

const ownerFolder = "owners"

func (s *Store) ownerPath(id uuid.UUID) string {
	return filepath.Join(s.home, ownerFolder, id.String()+".lock")
}

// holdOwner takes the lock that shows other processes that this one is alive. It
// is held until Close, or until the kernel drops it with the process. The file gets
// its name once it is locked, so that no recovering process finds it free.
func (s *Store) holdOwner() error {
	s.ownerMu.Lock()
	defer s.ownerMu.Unlock()
	if s.ownerLock != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(s.home, ownerFolder), 0o700); err != nil {
		return s.fault(err, "the run's owner cannot be recorded")
	}
	f, err := lockOwner(s.ownerPath(s.owner))
	s.ownerLock = f
	return s.fault(err, "the run's owner cannot be recorded")
}

// lockOwner makes an owner's locked file.
func lockOwner(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *Store) releaseOwner() error {
	s.ownerMu.Lock()
	defer s.ownerMu.Unlock()
	if s.ownerLock == nil {
		return nil
	}
	err := errors.Join(os.Remove(s.ownerPath(s.owner)), s.ownerLock.Close())
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

// tick is the possible delay between a change of a folder and the time that the
// kernel records for it.
const tick = 20 * time.Millisecond

// ownerDied reports whether a process may have ended since this store last looked
// for runs that were left open, which it does at the first call. Owners make and
// remove their files in one folder. Its modification time shows that a file was
// added or removed, and the locks show which owners are alive. The time is
// returned for the next call.
func (s *Store) ownerDied(locks map[uuid.UUID]*os.File) (died bool, seen time.Time, err error) {
	dir := filepath.Join(s.home, ownerFolder)
	info, err := os.Stat(dir)
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
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, seen, s.fault(err, "dead owners cannot be found")
	}
	for _, f := range files {
		id, err := uuid.Parse(strings.TrimSuffix(f.Name(), ".lock"))
		if err != nil {
			continue
		}
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
	for range 100 {
		f, err := os.OpenFile(s.ownerPath(owner), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			locks[owner] = nil
			return true, nil
		}
		if err != nil {
			return false, s.fault(err, "the owner of a run cannot be found out")
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(f, s.ownerPath(owner)) {
			locks[owner] = f
			return true, nil
		}
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		if err != nil {
			return false, s.fault(err, "the owner of a run cannot be found out")
		}
		// Another process has removed the opened file. A live owner may hold a
		// new file at the same path, so look again.
	}
	return false, nil // in doubt the owner is alive
}

// isAt reports whether a path names an open file.
func isAt(f *os.File, path string) bool {
	mine, ferr := f.Stat()
	there, perr := os.Stat(path)
	return ferr == nil && perr == nil && os.SameFile(mine, there)
}

// removeOwners removes the files of dead owners, even if they never recorded a
// run.
func (s *Store) removeOwners(locks map[uuid.UUID]*os.File) error {
	files, err := os.ReadDir(filepath.Join(s.home, ownerFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return s.fault(err, "dead owners cannot be found")
	}
	for _, f := range files {
		if id, err := uuid.Parse(strings.TrimSuffix(f.Name(), ".lock")); err == nil && s.ownerPath(id) == filepath.Join(s.home, ownerFolder, f.Name()) {
			if _, err := s.dead(id, locks); err != nil {
				return err
			}
		}
	}
	for owner, f := range locks {
		if f == nil || !isAt(f, s.ownerPath(owner)) {
			continue
		}
		if err := os.Remove(s.ownerPath(owner)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return s.fault(err, "a dead owner's lock cannot be removed")
		}
	}
	return nil
}
