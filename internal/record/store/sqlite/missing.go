package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// Present reports whether the ledger's file is there. Keys without a file are
// fault.StoreMissing; a folder without both is ready for a new ledger.
func Present(home string) error {
	file, dir := filepath.Join(home, File), filepath.Join(home, tables.KeyFolder)
	sign, staged := filepath.Join(dir, tables.SignFile), filepath.Join(dir, tables.StagedFile)
	keys := wholefile.Exists(sign) || wholefile.Exists(filepath.Join(dir, tables.BlobFile)) || wholefile.Exists(filepath.Join(dir, tables.PublicFile))
	// The file is looked at last: a process that makes a ledger makes the file after the
	// staged key, and before that key takes its name.
	if !keys || !wholefile.Exists(sign) && wholefile.Exists(staged) || hasContent(file) {
		return nil
	}
	return errMissing(home)
}

func errMissing(home string) error {
	return fault.New(fault.StoreMissing, "the ledger %q is missing or empty, but its keys are in %q", tables.Clean(filepath.Join(home, File)), tables.Clean(filepath.Join(home, tables.KeyFolder))).
		ForOperator("if the ledger is in PostgreSQL, set REMIT_DB or database in config.yaml; else restore the file from a copy, or start over, without the record and the grants of the old ledger: remit init --new-ledger")
}

// hasLedger reports whether the file holds a ledger, or anything else that is not an
// empty database. Any doubt counts as yes.
func (s *Store) hasLedger(ctx context.Context) bool {
	if !hasContent(s.path) {
		return false
	}
	db := s.connect("mode=ro&_pragma=busy_timeout(10000)")
	v, err := s.version(ctx, db)
	return errors.Join(err, db.Close()) != nil || v > 0
}

// hasContent reports whether a file is there and not empty. Any doubt counts as yes.
func hasContent(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// Retired is the result of Retire.
type Retired struct {
	Folder string // where the old keys are now; "": there were none
	Origin string // of the old ledger; "" if its keys do not name it
}

// Retire moves the keys of a ledger whose file is missing out of the way, so that
// the next Open makes a new ledger with keys of its own. also names further
// files, below home, that were useful only with the old ledger. Retire refuses if
// the ledger's file exists.
func Retire(ctx context.Context, home string, also ...string) (Retired, error) {
	s := &Store{home: home, path: filepath.Join(home, File)}
	unlock, err := wholefile.Lock(filepath.Join(home, "setup.lock"))
	if err != nil {
		return Retired{}, s.fault(err, "the old ledger's keys cannot be moved")
	}
	defer unlock()
	if s.hasLedger(ctx) {
		return Retired{}, fault.New(fault.Usage, "there is a ledger in %q already", tables.Clean(home)).
			ForOperator("remit verify checks it; to keep another one, name another folder with REMIT_HOME")
	}
	// The signing key goes last: until then the ledger counts as missing.
	names := append(slices.Clone(also), tables.VerifiedFile, File, File+"-wal", File+"-shm", filepath.Join(tables.KeyFolder, tables.StagedFile),
		filepath.Join(tables.KeyFolder, tables.RotationsFile), filepath.Join(tables.KeyFolder, tables.StateFile), filepath.Join(tables.KeyFolder, tables.NextFile),
		filepath.Join(tables.KeyFolder, tables.PublicFile), filepath.Join(tables.KeyFolder, tables.BlobFile), filepath.Join(tables.KeyFolder, tables.SignFile))
	out := Retired{}
	if k, err := tables.LoadKeys(home); err == nil {
		out.Origin = k.Origin()
	}
	folder := filepath.Join(home, tables.KeyFolder, "retired", time.Now().UTC().Format("20060102T150405.000000000Z"))
	for _, name := range names {
		from := filepath.Join(home, name)
		if !wholefile.Exists(from) {
			continue
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return out, s.fault(err, "the old ledger's keys cannot be moved")
		}
		if err := os.Rename(from, filepath.Join(folder, filepath.Base(name))); err != nil {
			return out, s.fault(err, "the old ledger's keys cannot be moved")
		}
		out.Folder = folder
	}
	if out.Folder == "" {
		return out, nil
	}
	return out, s.fault(errors.Join(wholefile.SyncFolder(out.Folder), wholefile.SyncFolder(filepath.Join(home, tables.KeyFolder))), "the old ledger's keys cannot be moved")
}

// SetAside gives the ledger's file another name, after the ledger was copied elsewhere, and
// returns its path. The keys stay: they are the copy's too. No process may use the file.
func SetAside(home string) (string, error) {
	unlock, err := wholefile.Lock(filepath.Join(home, "setup.lock"))
	s := &Store{home: home, path: filepath.Join(home, File)}
	if err != nil {
		return "", s.fault(err, "the ledger's file cannot be renamed")
	}
	defer unlock()
	if hasContent(s.path + "-wal") {
		return "", fault.New(fault.Conflict, "another process uses the ledger in %q", tables.Clean(home)).
			WithHint("stop it, remove the copy from the database, and copy again")
	}
	aside := s.path + ".copied-" + time.Now().UTC().Format("20060102T150405Z")
	return aside, s.fault(errors.Join(os.Rename(s.path, aside), wholefile.SyncFolder(home)), "the ledger's file cannot be renamed")
}
