package backups

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/store/tables"
	"github.com/remitrun/remit/internal/service/home"
)

// Source is a backup and where its keys are.
type Source struct {
	File     string
	Identity string // file with the age identity that decrypts the backup's keys; "": the keys are in Keys
	Keys     string // folder with the keys, as $REMIT_HOME/keys
}

// Restored is a backup that was read.
type Restored struct {
	Contents

	Verified store.VerifyReport `json:"verified"`           // of the ledger
	Finished bool               `json:"finished,omitempty"` // an interrupted restore was finished, and File was not read
}

// The folders of a restore in $REMIT_HOME: staging is not whole yet, staged is.
const (
	staging = ".restore"
	staged  = ".restored"
)

// The locks in $REMIT_HOME of a restore, and of the stores.
const (
	restoreLock = "restore.lock"
	setupLock   = "setup.lock"
)

// Check reads and verifies a backup, and changes nothing. Without an identity or a folder of
// keys it uses those of $REMIT_HOME.
func (b *Backups) Check(ctx context.Context, from Source) (out Restored, err error) {
	if from.Identity == "" && from.Keys == "" {
		from.Keys = filepath.Join(b.Home.Dir, tables.KeyFolder)
	}
	dir, err := os.MkdirTemp("", "remit-backup-*")
	if err != nil {
		return out, fault.Wrap(fault.StoreFailed, err, "no temporary folder can be made: %v", wholefile.Cause(err))
	}
	out, err = read(ctx, from, dir)
	return out, errors.Join(err, os.RemoveAll(dir))
}

// Restore restores a backup into a $REMIT_HOME that is empty, and a database that has no
// ledger. The home has nothing of the backup before all of it was verified. If the process dies
// after that, the next Restore finishes.
func (b *Backups) Restore(ctx context.Context, from Source) (out Restored, err error) {
	dir := b.Home.Dir
	unlock, err := wholefile.Lock(filepath.Join(dir, restoreLock))
	if err != nil {
		return out, fault.Wrap(fault.StoreReadOnly, err, "%q cannot be written: %v", dir, wholefile.Cause(err))
	}
	out, err = b.restore(ctx, from)
	unlock() // the ledger is opened below
	if err != nil {
		return out, err
	}
	st, err := b.Home.Ledger(ctx)
	if err != nil {
		return out, err
	}
	return out, home.Operated(ctx, st, "backup.restore", ledger.OperatorAction{Target: from.File}, 0)
}

func (b *Backups) restore(ctx context.Context, from Source) (out Restored, err error) {
	dir := b.Home.Dir
	if wholefile.Exists(filepath.Join(dir, staged)) {
		out.Finished = true
		return out, b.finish(ctx)
	}
	if err := b.checkEmpty(ctx); err != nil {
		return out, err
	}
	at := filepath.Join(dir, staging)
	if err := errors.Join(os.RemoveAll(at), os.Mkdir(at, 0o700)); err != nil {
		return out, fault.Wrap(fault.StoreFailed, err, "%q cannot be written: %v", dir, wholefile.Cause(err))
	}
	if out, err = read(ctx, from, at); err != nil {
		return out, errors.Join(err, os.RemoveAll(at))
	}
	if err := mark(ctx, at, out.Contents); err != nil {
		return out, errors.Join(err, os.RemoveAll(at))
	}
	err = errors.Join(syncFolders(at), os.Rename(at, filepath.Join(dir, staged)), wholefile.SyncFolder(dir))
	if err != nil {
		return out, fault.Wrap(fault.StoreFailed, err, "the backup cannot be restored: %v", wholefile.Cause(err))
	}
	return out, b.finish(ctx)
}

// mark notes in a ledger that it was restored. Grants of before may have been revoked since the
// backup, and their budgets spent, so they are refused until a person accepts them. The store's
// other files beside the ledger are removed.
func mark(ctx context.Context, folder string, c Contents) error {
	s, err := sqlite.Open(ctx, sqlite.Options{Home: folder})
	if err != nil {
		return err
	}
	// A mark of an earlier restore is older than the grants that were issued since.
	lift := store.StandingChange{Grant: store.RestoreMark, To: store.Active, By: home.Person(), At: time.Now(), Reason: "the ledger is restored again"}
	again := lift
	again.To, again.Reason = store.Paused, "restored from a backup of "+c.Made.Format(time.RFC3339)
	err = errors.Join(s.SetStanding(ctx, lift), s.SetStanding(ctx, again), s.Close())
	for _, name := range []string{"owners", "turn.lock", setupLock} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, name)))
	}
	return err
}

// checkEmpty refuses a home or a database that has something.
func (b *Backups) checkEmpty(ctx context.Context) error {
	list, err := os.ReadDir(b.Home.Dir)
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "%q cannot be read: %v", b.Home.Dir, wholefile.Cause(err))
	}
	for _, e := range list {
		if name := e.Name(); name != setupLock && name != restoreLock && name != staging && name != "lost+found" {
			return fault.New(fault.Conflict, "%q is not empty: it has %+q", b.Home.Dir, name).WithHint("name another folder with REMIT_HOME, or move this one away")
		}
	}
	if b.Home.Database == "" {
		return nil
	}
	st, err := postgres.ReadStatus(ctx, b.Home.Database)
	if err == nil && st.Ledger != "" {
		err = fault.New(fault.Conflict, "the database %q has a ledger already", st.Database).WithHint("name another database, or another schema with ?search_path=NAME")
	}
	return err
}

// read unpacks a backup into an empty folder, and verifies it.
func read(ctx context.Context, from Source, into string) (out Restored, err error) {
	f, err := os.Open(from.File)
	if err != nil {
		return out, fault.Wrap(fault.Usage, err, "the backup %q cannot be read: %v", from.File, wholefile.Cause(err))
	}
	defer func() { _ = f.Close() }() // only read
	u, err := unpack(f, into)
	if err != nil {
		return out, err
	}
	if err := takeKeys(u, from, filepath.Join(into, tables.KeyFolder)); err != nil {
		return out, err
	}
	keys, err := tables.LoadKeys(into)
	if err != nil {
		return out, err
	}
	if out.Contents, err = openNote(u.note, keys, u.sums); err != nil {
		return out, err
	}
	out.File, out.Keys = from.File, u.keys != nil
	if st, err := f.Stat(); err == nil {
		out.Bytes = st.Size()
	}
	out.Verified, err = verifyFile(ctx, into, into, nil)
	if v := out.Verified; err == nil && (!v.OK || v.Root != out.Root || v.Size != out.Events) {
		err = fault.New(fault.VerifyFailed, "the ledger in the backup is not the one that was backed up").WithHint("use another copy of the backup")
	}
	return out, err
}

// takeKeys puts the ledger's keys into a folder.
func takeKeys(u unpacked, from Source, into string) error {
	switch {
	case from.Identity != "" && u.keys == nil:
		return fault.New(fault.Usage, "the backup has no keys to decrypt").WithHint("give a copy of the folder keys: --keys FOLDER")
	case from.Identity == "" && from.Keys == "" && u.keys != nil:
		return fault.New(fault.Usage, "the backup's keys are encrypted").WithHint("decrypt them with --identity FILE, or give a copy of the folder keys: --keys FOLDER")
	case from.Identity == "" && from.Keys == "":
		return fault.New(fault.Usage, "the backup has no keys").WithHint("give a copy of the folder keys: --keys FOLDER")
	case from.Identity == "":
		if err := os.CopyFS(into, os.DirFS(from.Keys)); err != nil {
			return fault.Wrap(fault.Usage, err, "the keys in %q cannot be copied: %v", from.Keys, wholefile.Cause(err))
		}
		return protect(into)
	}
	ids, err := readIdentities(from.Identity)
	if err != nil {
		return err
	}
	plain, err := age.Decrypt(bytes.NewReader(u.keys), ids...)
	if err != nil {
		return fault.Wrap(fault.Usage, err, "the backup's keys cannot be decrypted with %q", from.Identity).WithHint("give the identity of the recipient that the backup was made for")
	}
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	return unpackKeys(plain, into)
}

func readIdentities(file string) ([]age.Identity, error) {
	src, err := wholefile.Read(file, 1<<20)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the identity %q cannot be read: %v", file, wholefile.Cause(err))
	}
	ids, err := age.ParseIdentities(bytes.NewReader(src))
	if err != nil { // its words may hold the key
		return nil, fault.New(fault.Usage, "%q is not a file of age identities", file).WithHint("give the file that age-keygen -o FILE made")
	}
	return ids, nil
}

// protect lets only the owner read the keys.
func protect(keys string) error {
	return filepath.WalkDir(keys, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(file, mode)
	})
}

// syncFolders makes the names of all files survive a loss of power.
func syncFolders(root string) error {
	return filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return wholefile.SyncFolder(dir)
	})
}

// finish moves a restored home to its place: the keys first and the ledger last, since until
// then every command says that the ledger is missing.
func (b *Backups) finish(ctx context.Context) error {
	from := filepath.Join(b.Home.Dir, staged)
	list, err := os.ReadDir(from)
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "%q cannot be read: %v", from, wholefile.Cause(err))
	}
	names := []string{tables.KeyFolder}
	for _, e := range list {
		if name := e.Name(); name != tables.KeyFolder && name != sqlite.File {
			names = append(names, name)
		}
	}
	if b.Home.Database == "" {
		names = append(names, sqlite.File)
	}
	for _, name := range names {
		if !wholefile.Exists(filepath.Join(from, name)) && slices.Contains([]string{tables.KeyFolder, sqlite.File}, name) {
			continue // it was moved before the interruption
		}
		if err := os.Rename(filepath.Join(from, name), filepath.Join(b.Home.Dir, name)); err != nil {
			return fault.Wrap(fault.StoreFailed, err, "%q cannot be restored: %v", name, wholefile.Cause(err))
		}
	}
	if b.Home.Database != "" {
		if err := b.fillDatabase(ctx, from); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(from), wholefile.SyncFolder(b.Home.Dir))
}

// fillDatabase copies a restored ledger into the database, unless a process that died has.
func (b *Backups) fillDatabase(ctx context.Context, from string) error {
	s, err := sqlite.Open(ctx, sqlite.Options{Home: from, ReadOnly: true, Keys: b.Home.Dir})
	if err != nil {
		return err
	}
	st, err := postgres.ReadStatus(ctx, b.Home.Database)
	if err == nil && st.Ledger != s.Origin() {
		err = postgres.Copy(ctx, postgres.Options{Home: b.Home.Dir, URL: b.Home.Database}, s.Store)
	}
	return errors.Join(err, s.Close())
}
