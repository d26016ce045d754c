// Package backups writes backups of $REMIT_HOME with its ledger, and restores them. Start at
// [Backups.Write] and [Backups.Restore].
//
// A backup is a tar archive: keys.age, only if asked for; remit.db, the ledger as a SQLite file,
// wherever it is kept; the other files of $REMIT_HOME below home/; and last backup.note, which the
// ledger's key signed. The note has the SHA-256 of everything before it. Tar shows the contents,
// and nothing in it is newer than the note.
package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/store/tables"
	"github.com/remitrun/remit/internal/service/home"
)

// Backups writes and restores backups of one $REMIT_HOME.
type Backups struct {
	Home *home.Home
}

// Contents describes a backup.
type Contents struct {
	File   string    `json:"file"`
	Origin string    `json:"ledger"`
	Made   time.Time `json:"made"`
	Events uint64    `json:"events"`
	Root   string    `json:"root"` // of the log, base64
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`     // of the archive
	Keys   bool      `json:"with_keys"` // the backup has the ledger's keys, encrypted
}

// partial is a folder beside a backup that is being written. Its lock is held meanwhile, and
// the next backup to the same folder clears what a process that died left.
const (
	partial     = ".remit-backup.partial"
	partialLock = ".remit-backup.lock"
)

// Write writes a backup to a new file, or to a new file of a folder. recipients are the age
// recipients that can decrypt the keys, one a line; "": the backup has no keys. The ledger's copy
// is verified before the backup gets its name.
func (b *Backups) Write(ctx context.Context, to, recipients string) (out Contents, err error) {
	folder, name := filepath.Split(to)
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		folder, name = to, ""
	}
	seal, err := keySealer(recipients)
	if err != nil {
		return out, err
	}
	if name != "" && wholefile.Exists(to) {
		return out, errThere(to)
	}
	st, err := b.Home.Ledger(ctx)
	if err != nil {
		return out, err
	}
	err = b.Home.Recorded("backup.write", ledger.OperatorAction{Target: to}, func() error {
		temp, unlock, err := stage(filepath.Join(folder, partial))
		if err != nil {
			return err
		}
		defer unlock()
		if out, err = b.write(ctx, st, temp, seal); err == nil {
			out.File, err = publish(filepath.Join(temp, archiveFile), folder, name, out)
		}
		return errors.Join(err, os.RemoveAll(temp))
	})
	return out, err
}

func errThere(file string) error {
	return fault.New(fault.Conflict, "%q is there already", file).WithHint("name a new file, or a folder: backups never replace one another")
}

// stage makes an empty folder and locks it. It clears what a process that died left in it.
func stage(dir string) (temp string, unlock func(), err error) {
	bad := func(err error) error {
		return fault.Wrap(fault.StoreFailed, err, "the backup's folder %q cannot be written: %v", filepath.Dir(dir), wholefile.Cause(err))
	}
	if st, err := os.Stat(filepath.Dir(dir)); err != nil || !st.IsDir() {
		return "", nil, bad(errors.Join(err, errors.New("it is not a folder")))
	}
	unlock, err = wholefile.Lock(filepath.Join(filepath.Dir(dir), partialLock))
	if err != nil {
		return "", nil, bad(err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		unlock()
		return "", nil, bad(err)
	}
	return dir, unlock, nil
}

// publish gives a finished archive its name.
func publish(archive, folder, name string, c Contents) (string, error) {
	if name == "" {
		short, _, _ := strings.Cut(filepath.Base(c.Origin), "-")
		name = fmt.Sprintf("remit-%s-%s.tar", short, c.Made.Format("20060102T150405Z"))
	}
	file := filepath.Join(folder, name)
	if err := os.Link(archive, file); errors.Is(err, os.ErrExist) {
		return "", errThere(file)
	} else if err != nil { // a file system without hard links
		if wholefile.Exists(file) {
			return "", errThere(file)
		}
		if err := os.Rename(archive, file); err != nil {
			return "", fault.Wrap(fault.StoreFailed, err, "%q cannot be written: %v", file, wholefile.Cause(err))
		}
	}
	return file, wholefile.SyncFolder(filepath.Dir(file))
}

// tablesOf gives the tables of a ledger.
func tablesOf(st store.Backend) (*tables.Store, error) {
	switch s := st.(type) {
	case *sqlite.Store:
		return s.Store, nil
	case *postgres.Store:
		return s.Store, nil
	}
	return nil, fault.New(fault.Internal, "a ledger of the type %T has no tables", st)
}

// write makes the archive in a folder.
func (b *Backups) write(ctx context.Context, st store.Backend, temp string, seal keySeal) (out Contents, err error) {
	from, err := tablesOf(st)
	if err != nil {
		return out, err
	}
	checkpoint, err := st.Checkpoint(ctx)
	if err != nil {
		return out, err
	}
	out.Made = time.Now().UTC().Truncate(time.Second)
	if err := sqlite.Copy(ctx, temp, from); err != nil {
		return out, err
	}
	if _, err := st.Checkpoint(ctx); err != nil { // all that was copied is durable now
		return out, err
	}
	rep, err := verifyFile(ctx, temp, b.Home.Dir, checkpoint)
	if err == nil && !rep.OK {
		p := rep.Problems[0]
		err = fault.New(fault.VerifyFailed, "the ledger was altered, so it is not backed up: %s %s: %s", p.Table, p.Key, p.Message).ForOperator("remit verify names all that was changed")
	}
	if err != nil {
		return out, err
	}
	out.Origin, out.Events, out.Root, out.Keys = st.Origin(), rep.Size, rep.Root, seal != nil
	err = b.archive(temp, seal, &out, st.SignNote)
	return out, err
}

// verifyFile verifies the ledger in a folder with the keys of a home.
func verifyFile(ctx context.Context, folder, keys string, checkpoint []byte) (rep store.VerifyReport, err error) {
	s, err := sqlite.Open(ctx, sqlite.Options{Home: folder, ReadOnly: true, Keys: keys})
	if err != nil {
		return rep, err
	}
	rep, err = s.Verify(ctx, store.VerifyOptions{Checkpoint: checkpoint})
	return rep, errors.Join(err, s.Close())
}

// noteHead is the first line of a backup's note. Nothing else that a ledger's key signs
// begins with it.
const noteHead = "remit backup v1\n"

// digests are the digests of a backup's entries, by their names.
type digests map[string]string

// describe is the text of a backup's note.
func describe(c Contents, names []string, sums digests) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s%s\n%s\n%d\n%s\n", noteHead, c.Origin, c.Made.Format(time.RFC3339), c.Events, c.Root)
	for _, name := range names {
		fmt.Fprintf(&t, "%s %+q\n", sums[name], name)
	}
	return t.String()
}

// openNote checks a backup's note, and that it fits the files that were read.
func openNote(signed []byte, keys *tables.Keys, read digests) (c Contents, err error) {
	n, err := note.Open(signed, keys.Verifiers())
	if err != nil {
		return c, fault.Wrap(fault.VerifyFailed, err, "the backup is not of the ledger %s", keys.Origin()).
			WithHint("give the keys of the ledger that it was made of")
	}
	damaged := fault.New(fault.VerifyFailed, "the backup was altered: its files differ from the signed ones")
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(n.Text, noteHead), "\n"), "\n")
	if !strings.HasPrefix(n.Text, noteHead) || len(lines) < 4 || lines[0] != keys.Origin() || len(lines)-4 != len(read) {
		return c, damaged
	}
	c.Origin, c.Root = lines[0], lines[3]
	c.Made, err = time.Parse(time.RFC3339, lines[1])
	if err == nil {
		c.Events, err = strconv.ParseUint(lines[2], 10, 64)
	}
	if err != nil {
		return c, damaged
	}
	for _, line := range lines[4:] {
		at := strings.Index(line, ` "`)
		name, err := strconv.Unquote(line[at+1:])
		if at < 0 || err != nil || read[name] != line[:at] {
			return c, damaged
		}
		c.Files++
	}
	return c, nil
}
