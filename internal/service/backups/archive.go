package backups

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/store/tables"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// The names in an archive.
const (
	archiveFile = "archive.tar" // the archive itself, until it has its name
	keysFile    = "keys.age"
	noteFile    = "backup.note"
	homeFolder  = "home/"
)

// maxNote and maxKeys bound the data read into memory, in bytes.
const (
	maxNote = 64 << 20
	maxKeys = 16 << 20
)

// leftOut are the names in $REMIT_HOME that a backup does not copy. The ledger and its keys are
// stored in another form. The others are files of running processes, files that Remit can make
// again, and layers of held runs, which only the kernel that made them can read.
var leftOut = map[string]bool{
	sqlite.File: true, sqlite.File + "-wal": true, sqlite.File + "-shm": true, tables.KeyFolder: true, tables.VerifiedFile: true, witnesses.SeenFile: true,
	"owners": true, "logs": true, "cache": true, "surveys": true, "responses": true, "chat_history": true, "ui": true,
	"changes": true, "undo": true, "confined": true, "outbox": true, "lost+found": true,
}

func isLeftOut(name string) bool {
	return leftOut[name] || strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, sqlite.File+".")
}

// keySeal encrypts for the recipients of the keys.
type keySeal func(to io.Writer) (io.WriteCloser, error)

// keySealer reads age recipients; nil if there are none.
func keySealer(recipients string) (keySeal, error) {
	if strings.TrimSpace(recipients) == "" {
		return nil, nil
	}
	list, err := age.ParseRecipients(strings.NewReader(recipients))
	if err != nil {
		return nil, fault.New(fault.Usage, "the recipient of the keys is not an age recipient").WithHint("make one with: age-keygen -o FILE; it prints the recipient, age1...")
	}
	return func(to io.Writer) (io.WriteCloser, error) { return age.Encrypt(to, list...) }, nil
}

// archiver writes an archive.
type archiver struct {
	tar   *tar.Writer
	names []string
	sums  digests
}

// archive writes the archive of the ledger in a folder, and signs its note.
func (b *Backups) archive(temp string, seal keySeal, c *Contents, sign func(string) (string, error)) error {
	f, err := os.OpenFile(filepath.Join(temp, archiveFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		a := &archiver{tar: tar.NewWriter(f), sums: digests{}}
		err = b.fill(a, temp, seal, c, sign)
		if err == nil {
			c.Bytes, err = f.Seek(0, io.SeekCurrent)
		}
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if code := fault.CodeOf(err); err != nil && code == fault.Internal {
		err = fault.Wrap(fault.StoreFailed, err, "the backup cannot be written: %v", wholefile.Cause(err))
	}
	return err
}

func (b *Backups) fill(a *archiver, temp string, seal keySeal, c *Contents, sign func(string) (string, error)) error {
	if seal != nil {
		keys, err := sealKeys(filepath.Join(b.Home.Dir, tables.KeyFolder), seal)
		if err == nil {
			err = a.add(keysFile, keys)
		}
		if err != nil {
			return err
		}
	}
	if err := a.addFile(sqlite.File, filepath.Join(temp, sqlite.File)); err != nil {
		return err
	}
	if err := a.addTree(b.Home.Dir, isLeftOut, homeFolder); err != nil {
		return err
	}
	c.Files = len(a.names)
	signed, err := sign(describe(*c, a.names, a.sums))
	if err == nil {
		err = a.add(noteFile, []byte(signed))
	}
	return errors.Join(err, a.tar.Close())
}

// sealKeys encrypts the folder of keys, as a tar archive.
func sealKeys(folder string, seal keySeal) ([]byte, error) {
	var out bytes.Buffer
	w, err := seal(&out)
	if err != nil {
		return nil, err
	}
	a := &archiver{tar: tar.NewWriter(w), sums: digests{}}
	err = errors.Join(a.addTree(folder, func(string) bool { return false }, ""), a.tar.Close(), w.Close())
	return out.Bytes(), err
}

// addTree adds the files, folders and links below a folder. skip is asked about the names in
// it. The programs of extensions can write to some folders: no link is followed.
func (a *archiver) addTree(folder string, skip func(string) bool, as string) error {
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only read
	var failed error
	w := walk.Walk{Top: folder, Names: walk.Most().Names, Sort: walk.Most()}
	w.Visit = func(in *walk.Folder, name string, kind fs.FileMode) (enter bool, err error) {
		if in.Path == "." && skip(name) {
			return false, nil
		}
		err = a.addName(in, name, as+in.At(name), kind)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // it was removed meanwhile
		}
		return true, err
	}
	w.Skipped = func(at string, why error) {
		if !errors.Is(why, fs.ErrNotExist) && failed == nil {
			failed = fault.Wrap(fault.StoreFailed, why, "the folder %.1000q cannot be backed up: %v", filepath.Join(folder, at), wholefile.Cause(why))
		}
	}
	return cmp.Or(w.Down(context.Background(), root), failed)
}

func (a *archiver) addName(in *walk.Folder, name, as string, kind fs.FileMode) error {
	dir, err := in.Root()
	if err != nil {
		return err
	}
	switch {
	case kind.IsDir():
		return a.head(&tar.Header{Typeflag: tar.TypeDir, Name: as + "/", Mode: 0o700}, nil)
	case kind == fs.ModeSymlink:
		to, err := dir.Readlink(name)
		if err != nil {
			return err
		}
		return a.head(&tar.Header{Typeflag: tar.TypeSymlink, Name: as, Linkname: to, Mode: 0o600}, []byte(to))
	case kind.IsRegular():
		f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return a.addOpen(as, f)
	}
	return nil // a socket or the like
}

// digest is how a note lists an entry: the SHA-256 of its content, its kind and its mode.
func digest(h *tar.Header, content hash.Hash) string {
	return fmt.Sprintf("%x %c%03o", content.Sum(nil), h.Typeflag, h.Mode&0o700)
}

func sha256Of(b []byte) hash.Hash {
	h := sha256.New()
	h.Write(b)
	return h
}

// head adds an entry without content; data is what its digest covers.
func (a *archiver) head(h *tar.Header, data []byte) error {
	a.list(h, sha256Of(data))
	return a.tar.WriteHeader(h)
}

func (a *archiver) list(h *tar.Header, content hash.Hash) {
	a.names = append(a.names, h.Name)
	a.sums[h.Name] = digest(h, content)
}

func (a *archiver) add(name string, data []byte) error {
	err := a.head(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: time.Now()}, data)
	if err == nil {
		_, err = a.tar.Write(data)
	}
	return err
}

func (a *archiver) addFile(name, file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed meanwhile
	}
	if err != nil {
		return err
	}
	return a.addOpen(name, f)
}

// addOpen adds an open file, and closes it. It leaves out a file that is not regular any more.
func (a *archiver) addOpen(name string, f *os.File) error {
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(st.Mode().Perm()), Size: st.Size(), ModTime: st.ModTime()}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	if n, err := io.Copy(io.MultiWriter(a.tar, sum), io.LimitReader(f, st.Size())); err != nil {
		return err
	} else if n != st.Size() {
		return fault.New(fault.Conflict, "%q became shorter while it was read", name).WithHint("make the backup again")
	}
	a.list(h, sum)
	return nil
}

// unpacked holds the contents read from an archive.
type unpacked struct {
	sums digests
	keys []byte // encrypted; nil: it has none
	note []byte
}

// unpack writes the files of an archive into an empty folder, and nowhere else. Nothing of
// it may be used before its note was checked.
func unpack(archive io.Reader, into string) (out unpacked, err error) {
	root, err := os.OpenRoot(into)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	out.sums = digests{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err != nil && out.note != nil && errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil || out.note != nil || out.sums[h.Name] != "" {
			return out, errCut(err)
		}
		if err := out.entry(root, r, h); err != nil {
			return out, err
		}
	}
}

func (u *unpacked) entry(root *os.Root, r *tar.Reader, h *tar.Header) error {
	switch h.Name {
	case noteFile:
		return readAll(&u.note, r, maxNote)
	case keysFile:
		if err := readAll(&u.keys, r, maxKeys); err != nil {
			return err
		}
		u.sums[h.Name] = digest(h, sha256Of(u.keys))
		return nil
	}
	name, below := strings.CutPrefix(h.Name, homeFolder)
	top, _, _ := strings.Cut(name, "/")
	if below == (h.Name == sqlite.File) || below && isLeftOut(top) {
		return fault.New(fault.VerifyFailed, "the backup has the unexpected file %+q", h.Name).WithHint("it is not a backup that remit wrote")
	}
	sum := sha256.New()
	err := extract(root, name, r, h, sum)
	u.sums[h.Name] = digest(h, sum)
	if err != nil && fault.CodeOf(err) == fault.Internal {
		err = fault.Wrap(fault.StoreFailed, err, "%+q cannot be restored: %v", name, wholefile.Cause(err))
	}
	return err
}

func readAll(into *[]byte, r io.Reader, most int64) error {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil || int64(len(b)) > most {
		return errCut(err)
	}
	*into = append([]byte{}, b...)
	return nil
}

// extract writes one entry below root, and its content also to sum.
func extract(root *os.Root, name string, r io.Reader, h *tar.Header, sum hash.Hash) error {
	if dir := path.Dir(strings.TrimSuffix(name, "/")); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(strings.TrimSuffix(name, "/"), 0o700)
	case tar.TypeSymlink:
		sum.Write([]byte(h.Linkname))
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
	default:
		return fault.New(fault.VerifyFailed, "the backup has %+q, which is neither a file nor a folder", h.Name)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode)&0o700)
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.MultiWriter(f, sum), r); errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut(err)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func errCut(err error) error {
	return fault.Wrap(fault.VerifyFailed, err, "the file is not a whole backup: it was cut off, or altered").WithHint("use another copy of it")
}

// unpackKeys writes decrypted keys into an empty folder.
func unpackKeys(plain io.Reader, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a handle
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errCut(err)
		}
		if err := extract(root, h.Name, r, h, sha256.New()); err != nil {
			return err
		}
	}
}
