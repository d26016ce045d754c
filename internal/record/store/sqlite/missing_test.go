package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// made is a folder with a ledger that was used and closed.
func made(t *testing.T) (home, origin string) {
	t.Helper()
	home = t.TempDir()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
	begin(s)
	origin = s.Origin()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return home, origin
}

func forget(home string) error {
	for _, name := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(home, sqlite.File) + name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// unfinished gives a folder's signing key the name that it has while a ledger is made, so
// that the next Open makes one under these keys.
func unfinished(home string) error {
	key := filepath.Join(home, "keys", "ledger.key")
	return os.Rename(key, key+".new")
}

// A lost ledger is reported. It is replaced only on an explicit request. The new
// ledger has another origin and another key.
func TestALostLedgerIsNotMadeAnew(t *testing.T) {
	ctx := context.Background()
	for name, lose := range map[string]func(home string) error{
		"removed": forget,
		"emptied": func(home string) error {
			return errors.Join(forget(home), os.WriteFile(filepath.Join(home, sqlite.File), nil, 0o600))
		},
		"an empty database": func(home string) error {
			if err := forget(home); err != nil {
				return err
			}
			db, err := sql.Open("sqlite", filepath.Join(home, sqlite.File))
			if err != nil {
				return err
			}
			_, err = db.ExecContext(ctx, "CREATE TABLE t(x); DROP TABLE t; PRAGMA user_version = 0")
			return errors.Join(err, db.Close())
		},
		"with its signing key": func(home string) error {
			return errors.Join(forget(home), os.Remove(filepath.Join(home, "keys", "ledger.key")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, origin := made(t)
			if err := lose(home); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if s, err := sqlite.Open(ctx, sqlite.Options{Home: home}); fault.CodeOf(err) != fault.StoreMissing {
					t.Fatalf("%v, %v", s, err)
				}
			}
			retired, err := sqlite.Retire(ctx, home)
			if err != nil || retired.Folder == "" {
				t.Fatalf("%+v, %v", retired, err)
			}
			s := openWith(t, sqlite.Options{Home: home})
			if r, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || len(r.Problems) > 0 || r.Size != 0 {
				t.Errorf("the new ledger: %+v, %v", r, err)
			}
			if s.Origin() == origin {
				t.Errorf("the new ledger has the old origin %s", origin)
			}
			old, oerr := os.ReadFile(filepath.Join(retired.Folder, "blob.key"))
			now, nerr := os.ReadFile(filepath.Join(home, "keys", "blob.key"))
			if oerr != nil || nerr != nil || string(old) == string(now) {
				t.Errorf("the old key is not kept apart: %v, %v", oerr, nerr)
			}
		})
	}
}

// A missing ledger is reported to readers too, and an existing ledger is never
// retired.
func TestWhatIsThereStays(t *testing.T) {
	ctx := context.Background()
	home, origin := made(t)
	if err := sqlite.Present(home); err != nil {
		t.Error(err)
	}
	if _, err := sqlite.Retire(ctx, home); fault.CodeOf(err) != fault.Usage {
		t.Errorf("a ledger was retired: %v", err)
	}
	if s := must(sqlite.Open(ctx, sqlite.Options{Home: home})); s.Origin() != origin || s.Close() != nil {
		t.Errorf("the origin is %s now", s.Origin())
	}
	if err := forget(home); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Present(home); fault.CodeOf(err) != fault.StoreMissing {
		t.Error(err)
	}
	if _, err := sqlite.Open(ctx, sqlite.Options{Home: home, ReadOnly: true}); fault.CodeOf(err) != fault.StoreMissing {
		t.Errorf("a reader: %v", err)
	}
	if err := sqlite.Present(t.TempDir()); err != nil {
		t.Errorf("a new folder: %v", err)
	}
}

// A process that is killed while it makes a ledger leaves one that the next
// process completes: it does not count as lost.
func TestAnInterruptedStartIsCompleted(t *testing.T) {
	ctx := context.Background()
	remove := func(names ...string) func(string) error {
		return func(home string) error {
			var errs []error
			for _, n := range names {
				errs = append(errs, os.Remove(filepath.Join(home, n)))
			}
			return errors.Join(errs...)
		}
	}
	for name, undo := range map[string]func(home string) error{
		"before the file": forget,
		"before the blobs' key": func(home string) error {
			return errors.Join(forget(home), remove("keys/blob.key", "keys/ledger.pub")(home))
		},
		"in an empty file": func(home string) error {
			return errors.Join(forget(home), os.WriteFile(filepath.Join(home, sqlite.File), nil, 0o600))
		},
		"before the key's name": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			s := must(sqlite.Open(ctx, sqlite.Options{Home: home}))
			origin := s.Origin()
			key := filepath.Join(home, "keys", "ledger.key")
			if err := errors.Join(s.Close(), os.Rename(key, key+".new"), undo(home)); err != nil {
				t.Fatal(err)
			}
			if err := sqlite.Present(home); err != nil {
				t.Error(err)
			}
			again := openWith(t, sqlite.Options{Home: home})
			begin(again)
			if r, err := again.Verify(ctx, store.VerifyOptions{}); err != nil || len(r.Problems) > 0 || again.Origin() != origin {
				t.Errorf("%+v, %v; origin %s, want %s", r, err, again.Origin(), origin)
			}
		})
	}
}
