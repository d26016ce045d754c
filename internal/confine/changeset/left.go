package changeset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/walk"
)

// tempName is how the file tools (package files) name the file that a new
// content waits in for its rename.
var tempName = regex.Lazy(`^\.remit-[A-Z2-7]{26}\.tmp$`)

// writing is the lock of a run's log: a file that exists only while a process works on
// the log. After a crash, the file is left behind unlocked.
func (h Home) writing(run string) string { return filepath.Join(h.undo(), "writing", run) }

// lockLog locks a run's log, and removes the temporary files of a process that was killed
// while it had the lock. release also removes the lock's file.
func (h Home) lockLog(run string) (release func() error, err error) {
	name := h.writing(run)
	unlock, err := h.lock(name)
	if err != nil {
		return nil, err
	}
	if err := h.clearTemporary(run); err != nil {
		unlock()
		return nil, err
	}
	return func() error {
		defer unlock()
		return os.Remove(name)
	}, nil
}

// clearLeft removes the temporary files of processes that were killed while they
// wrote a file.
func (h Home) clearLeft() error {
	marks, err := os.ReadDir(filepath.Join(h.undo(), "writing"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, m := range marks {
		errs = append(errs, h.clearRun(m.Name()))
	}
	return errors.Join(errs...)
}

// clearRun removes the data of one run, if it is over.
func (h Home) clearRun(run string) error {
	release, err := h.lockLog(run)
	if errors.Is(err, fault.Conflict) {
		return nil // it goes on
	}
	if err != nil {
		return err
	}
	return release()
}

// clearTemporary removes the temporary files beside the files that a run was writing.
func (h Home) clearTemporary(run string) error {
	w, err := readLines(h.logFile(run))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	root, err := rootFolder("/")
	if err != nil {
		return err
	}
	defer shut(root)
	for p, e := range w {
		if e.to == nil {
			clearFolder(root, path.Dir(p))
		}
	}
	return nil
}

// clearFolder removes the temporary files in a folder that nobody writes. What
// cannot be removed stays: it is in nobody's way.
func clearFolder(root int, rel string) {
	dir, err := openBelow(root, rel)
	if err != nil {
		return
	}
	fd, err := openFolder(dir, ".")
	if err != nil {
		shut(dir)
		return
	}
	defer shut(dir)
	f := os.NewFile(uintptr(fd), rel)
	defer func() { _ = f.Close() }() // it was only read
	// As many as can be read.
	_ = walk.Each(context.Background(), f, func(name string) error {
		if tempName.MatchString(name) && unlocked(dir, name) {
			_ = unix.Unlinkat(dir, name, 0)
		}
		return nil
	})
}

// unlocked reports whether a file is a plain one that no process is writing.
func unlocked(dir int, name string) bool {
	st, err := statAt(dir, name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	fd, err := openFile(dir, name, &st)
	if err != nil {
		return false
	}
	defer shut(fd)
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil
}
