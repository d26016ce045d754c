package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// turns makes the processes that write to one ledger wait for each other in a queue of the
// system, which wakes the next one at once. Without it they would find SQLite's lock taken
// and try again after up to 100 ms. SQLite's lock still protects the file: turns only
// shortens the wait.
type turns struct {
	file    *os.File // nil: the lock could not be opened
	timeout time.Duration
	late    atomic.Bool // a goroutine still waits for a turn that came too late
}

// turnFile is the lock's name in the home folder.
const turnFile = "turn.lock"

// turnTimeout is how long a process waits for its turn. After that, another process is
// stopped or hangs, and SQLite's lock decides.
const turnTimeout = 2 * time.Second

// openTurns opens the lock. Without the file, for example in a folder that cannot be
// written, take returns at once.
func openTurns(home string) *turns {
	f, err := os.OpenFile(filepath.Join(home, turnFile), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &turns{}
	}
	return &turns{file: f, timeout: turnTimeout}
}

// take waits for the turn. Only one goroutine may call it at a time.
func (t *turns) take() (release func()) {
	none := func() {}
	if t.file == nil || t.late.Load() {
		return none
	}
	fd := int(t.file.Fd())
	free := func() { _ = unix.Flock(fd, unix.LOCK_UN) }
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return free
	} else if !errors.Is(err, unix.EWOULDBLOCK) {
		return none // the file system has no locks
	}
	taken, abandoned := make(chan bool), make(chan struct{})
	go func() {
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		select {
		case taken <- err == nil:
		case <-abandoned:
			free()
			t.late.Store(false)
		}
	}()
	limit := time.NewTimer(t.timeout)
	defer limit.Stop()
	select {
	case ok := <-taken:
		if ok {
			return free
		}
	case <-limit.C:
		t.late.Store(true)
		close(abandoned)
	}
	return none
}

func (t *turns) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
