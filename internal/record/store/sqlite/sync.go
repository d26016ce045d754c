package sqlite

import (
	"os"
	"sync"
)

// walSyncer makes commits durable against a loss of power. SQLite could do that itself
// (synchronous=FULL), but it would hold the lock on the database meanwhile. The syncer
// works after the commit, while other processes write.
//
// SQLite syncs the write-ahead log before it copies it to the database, and the database
// before it reuses the log. So a commit that SQLite has already removed from the log is durable, too.
type walSyncer struct {
	path string

	mu   sync.Mutex
	file *os.File
	err  error // of the first sync that failed
}

// sync makes the commits so far durable. After a failure it always fails: the system may
// have discarded what it could not write, and would not report it again.
func (w *walSyncer) sync() error {
	f, err := w.open()
	if err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}
	return err
}

// failed returns the error of the first sync that failed; nil: none did.
func (w *walSyncer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// open opens the write-ahead log, which exists as long as the writer's connection does
// once that has written.
func (w *walSyncer) open() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.file == nil {
		w.file, w.err = os.Open(w.path)
	}
	return w.file, w.err
}

func (w *walSyncer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
