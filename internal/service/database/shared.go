package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/store/tables"
	"github.com/remitrun/remit/internal/service/home"
)

// Shared is a ledger in a file that stays open between its users, which are parts of one process. The
// zero value is ready to use, and opens nothing yet. It must be closed, after all of its users.
type Shared struct {
	mu   sync.Mutex
	open store.Backend // nil: not opened yet
	dir  string
	mark string // of the files that were opened
}

// Open opens a home's ledger, which is not stale if there is one already. The user must call release
// instead of its Close. One that is only read is not shared, and nil shares none.
func (s *Shared) Open(ctx context.Context, h *home.Home, readOnly bool) (st store.Backend, release func() error, err error) {
	if s == nil || readOnly || h.Database != "" { // a database can remove this node, and make it wait
		if st, err = Open(ctx, h, readOnly); err != nil {
			return nil, nil, err
		}
		return st, st.Close, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := func() error { return nil }
	if s.open != nil && s.dir == h.Dir {
		return s.open, kept, nil
	}
	if st, err = Open(ctx, h, false); err != nil {
		return nil, nil, err
	}
	if s.open != nil {
		return st, st.Close, nil
	}
	s.open, s.dir = st, h.Dir
	if s.mark, err = markOf(h.Dir); err != nil {
		s.mark = "" // stale from the beginning
	}
	return st, kept, nil
}

// Stale reports whether the open files were replaced or removed, or the keys changed.
func (s *Shared) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	mark, err := markOf(s.dir)
	return err != nil || mark != s.mark
}

// Close closes the ledger.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return err
}

// markOf identifies the files of a ledger, and the content of its keys.
func markOf(dir string) (string, error) {
	var mark strings.Builder
	for _, name := range []string{".", sqlite.File, tables.SignFile, tables.BlobFile, tables.PublicFile, tables.RotationsFile, tables.StateFile, tables.NextFile} {
		key := name != "." && name != sqlite.File // the ledger itself changes all the time
		if key {
			name = filepath.Join(tables.KeyFolder, name)
		}
		st, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && key {
			continue
		}
		if err != nil {
			return "", err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok {
			return "", errors.ErrUnsupported
		}
		fmt.Fprintln(&mark, name, sys.Dev, sys.Ino)
		if key {
			fmt.Fprintln(&mark, st.Size(), st.ModTime())
		}
	}
	return mark.String(), nil
}
