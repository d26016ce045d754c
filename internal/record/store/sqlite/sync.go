package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// walSyncer makes commits durable against a loss of power. SQLite could do that itself
// (synchronous=FULL), but it would hold the lock on the database meanwhile. The syncer
// works after the commit, while other processes write.
//
// SQLite syncs the write-ahead log before it copies it to the database, and the database
// before it reuses the log. So a commit that SQLite has already removed from the log is durable, too.
type walSyncer struct {
	path string
	db   string      // the path of the database
	was  os.FileInfo // the database that is open

	mu   sync.Mutex
	file *os.File
	is   os.FileInfo // of file
	err  error       // of the first sync that failed
}

// sync makes the commits so far durable. After a failure of the disk it always fails: the system may
// have discarded pages that it could not write, and would not report them again.
func (w *walSyncer) sync() error {
	f, err := w.open()
	if err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
		return err
	}
	return w.inPlace()
}

// usable returns an error while nothing may be written: after a failed sync, or while the files
// are not in their places.
func (w *walSyncer) usable() error {
	_, err := w.open()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.inPlace()
}

// open opens the write-ahead log, which exists as long as the writer's connection does
// once that has written. An error can pass, so it is not kept.
func (w *walSyncer) open() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.file != nil {
		return w.file, w.err
	}
	f, err := os.Open(w.path)
	if err != nil {
		return nil, err
	}
	if w.is, err = f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.file = f
	return f, nil
}

// inPlace returns an error while another file, or none, has the name of the open database or of
// its write-ahead log. A commit would go to a file that no other process finds.
func (w *walSyncer) inPlace() error {
	if now, err := os.Stat(w.db); err != nil || !os.SameFile(now, w.was) {
		return errMoved(w.db, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	if now, err := os.Stat(w.path); err != nil || !os.SameFile(now, w.is) {
		return errMoved(w.path, err)
	}
	return nil
}

func errMoved(path string, err error) error {
	return fault.Wrap(fault.StoreFailed, err, "the file %q was moved, removed or replaced while the ledger is open", tables.Clean(path)).
		WithHint("put the same file back; or stop all processes of this $REMIT_HOME, and start them again")
}

func (w *walSyncer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
