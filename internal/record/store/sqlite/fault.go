package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// fault adds a code and a hint to an error of the file system or of SQLite.
func (s *Store) fault(err error, what string) error {
	return tables.Fault(err, what, tables.Clean(s.path), s.explain)
}

// explain returns the code, the message and the hint for an error.
func (s *Store) explain(err error) (fault.Code, string, string) {
	const (
		space    = "free some space; nothing that was acknowledged is lost"
		readOnly = "check the owner and mode of the file and its folder, and that the disk is not mounted read-only; or set REMIT_HOME to another folder"
		damaged  = "remit verify names the damaged records; restore the file from a copy"

		tooManyFiles, moreFiles = "too many files are open", "raise the limit of the process (ulimit -n, or LimitNOFILE of its unit)"
	)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fault.StoreFull, "no space is left on the disk", space
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fault.StoreFailed, tooManyFiles, moreFiles
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fault.StoreReadOnly, "it cannot be written", readOnly
	case errors.Is(err, fs.ErrNotExist):
		return fault.StoreFailed, "it does not exist", "run a plan first, or check the home folder's name"
	}
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return fault.StoreFailed, "it cannot be read or written", "try again; remit verify tells whether the file is sound"
	}
	code := se.Code() & 0xff
	if code == sqlite3.SQLITE_IOERR || code == sqlite3.SQLITE_CANTOPEN { // SQLite does not tell the system's error
		switch cause := s.systemError(); {
		case errors.Is(cause, syscall.EMFILE), errors.Is(cause, syscall.ENFILE):
			return fault.StoreFailed, tooManyFiles, moreFiles
		case errors.Is(cause, syscall.EROFS):
			return fault.StoreReadOnly, "the disk is mounted read-only", readOnly
		case errors.Is(cause, syscall.ENOSPC):
			return fault.StoreFull, "no space is left on the disk", space
		case errors.Is(cause, syscall.EFBIG):
			return fault.StoreFull, "the process's file size limit is reached", "raise the limit (ulimit -f, or LimitFSIZE of its unit); nothing that was acknowledged is lost"
		}
	}
	switch code {
	case sqlite3.SQLITE_FULL:
		return fault.StoreFull, "no space is left on the disk", space
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return fault.StoreReadOnly, "it cannot be written", readOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.StoreCorrupt, "the file is damaged or not a ledger", damaged
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.StoreFailed, "another program has the file locked", "find the program that has the file open, or wait and try again"
	case sqlite3.SQLITE_CANTOPEN:
		return fault.StoreReadOnly, "it cannot be opened", readOnly
	}
	return fault.StoreFailed, "SQLite failed", "try again; remit verify tells whether the file is sound"
}

// unopenable reports whether a read-only connection failed because the files
// beside the database could not be made.
func unopenable(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	c := se.Code() & 0xff
	return c == sqlite3.SQLITE_CANTOPEN || c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_IOERR
}

// systemError finds a condition that explains why SQLite could not open or write a file; nil: none.
func (s *Store) systemError() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	_ = f.Close() // nothing was written
	if err := unix.Access(s.home, unix.W_OK); errors.Is(err, unix.EROFS) {
		return err
	}
	var disk unix.Statfs_t
	if unix.Statfs(s.home, &disk) == nil && disk.Bavail == 0 {
		return unix.ENOSPC
	}
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &most) != nil {
		return nil //nolint:nilerr // nothing is known of a limit
	}
	for _, name := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(name); err == nil && uint64(info.Size())+64<<10 > uint64(most.Cur) { //nolint:unconvert // the type differs on other systems
			return unix.EFBIG
		}
	}
	return nil
}
