package files

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Mode is the treatment of an existing file by a write.
type Mode uint8

// The modes. The zero Mode touches nothing that exists.
const (
	Create  Mode = iota // fail where the file exists
	Replace             // make or replace
	Append              // make or add at the end
)

// WriteOptions says how to write.
type WriteOptions struct {
	Mode    Mode
	Parents bool         // make missing folders on the way
	If      *tool.Digest // the file must exist with exactly this content
}

// Written is the result of a write.
type Written struct {
	Created bool
	Size    int64 // of the file afterwards, bytes
}

// Write writes a file. Create and Replace write beside it, sync, and rename,
// so that a reader sees all or nothing and other hard links keep their content;
// the file's permissions stay, without set-id bits. Append writes in
// place and refuses a file with several hard links.
//
// The guard If holds against every change that was made before the rename
// begins; a writer outside of Remit can still slip in during it.
func (f *Files) Write(asked string, data []byte, o WriteOptions) (Written, error) {
	if limit := f.WriteCap(); int64(len(data)) > limit {
		return Written{}, f.tooLarge(asked, int64(len(data)), limit)
	}
	var w Written
	err := f.at(how{kind: tool.FileWrite, follow: true, parents: o.Parents}, asked, func(pl *place) error {
		var err error
		w, err = f.writeAt(pl, data, o)
		return err
	})
	return w, err
}

func (f *Files) tooLarge(asked string, size, limit int64) error {
	return fault.New(fault.LimitReached, "%s would have %d bytes; the policy lets %d be written", quote(f.Show(asked)), size, limit)
}

func (f *Files) writeAt(pl *place, data []byte, o WriteOptions) (Written, error) {
	old, err := statAt(pl.dir, pl.base)
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Written{}, err
	case exists:
		if err := f.regular(pl, old); err != nil {
			return Written{}, err
		}
	case pl.dirOnly:
		return Written{}, fault.New(fault.NotFound, "the folder %s does not exist, and a folder has no content", quote(Rel(f.env, pl.path)))
	}
	if exists && o.Mode == Create {
		return Written{}, fs.ErrExist
	}
	if o.If != nil {
		if old, err = f.guard(pl, exists, *o.If); err != nil {
			return Written{}, err
		}
	}
	need := int64(len(data))
	if exists && o.Mode == Append {
		need += old.Size // the layer gets all of the file
	}
	if err := f.room(need); err != nil {
		return Written{}, err
	}
	if exists && o.Mode == Append {
		return f.appendAt(pl, data)
	}
	w := Written{Created: !exists, Size: int64(len(data))}
	return w, f.replaceAt(pl, data, old, exists, o.Mode)
}

// guard compares the file's content with the digest that the caller expects.
func (f *Files) guard(pl *place, exists bool, want tool.Digest) (Info, error) {
	name := quote(Rel(f.env, pl.path))
	if !exists {
		return Info{}, fault.New(fault.Conflict, "%s does not exist, so it does not have the content that if_sha256 names", name)
	}
	file, info, err := f.openRegular(pl, unix.O_RDONLY)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return Info{}, err
	}
	if tool.Digest(h.Sum(nil)) != want {
		return Info{}, fault.New(fault.Conflict, "%s has changed: its content is not the one that if_sha256 names", name).
			WithHint("read it again")
	}
	return info, nil
}

// appendAt adds to a file in place.
func (f *Files) appendAt(pl *place, data []byte) (Written, error) {
	file, info, err := f.openRegular(pl, unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return Written{}, err
	}
	if err = f.appendable(pl, info, int64(len(data))); err == nil {
		err = f.unmoved(tool.FileWrite, pl)
	}
	if err == nil {
		err = f.keeping(pl.real, pl.dir, pl.base, func() error {
			n, err := file.Write(data)
			f.note(tool.FSWrite, pl.path, int64(n))
			if err == nil {
				err = file.Sync()
			}
			return err
		})
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return Written{Size: info.Size + int64(len(data))}, err
}

func (f *Files) appendable(pl *place, i Info, more int64) error {
	if i.Links > 1 {
		return fault.New(fault.ToolFailed, "%s has %d names (hard links), and appending would change the file under all of them",
			quote(Rel(f.env, pl.path)), i.Links).WithHint("replace the file instead: the other names keep their content")
	}
	if limit := f.WriteCap(); i.Size+more > limit {
		return f.tooLarge(pl.path, i.Size+more, limit)
	}
	return nil
}

// replaceAt writes a file beside the old one and renames it over it. The keeper
// is told before anything is written, so that it knows where to look after a crash.
func (f *Files) replaceAt(pl *place, data []byte, old Info, exists bool, mode Mode) error {
	tmp := ".remit-" + rand.Text() + ".tmp" // package changeset clears away what a killed process leaves
	err := f.keeping(pl.real, pl.dir, pl.base, func() error {
		file, err := f.writeTemp(pl, tmp, data, old, exists)
		if err == nil {
			err = errors.Join(f.commit(pl, tmp, old, exists, mode), file.Close())
		}
		if err != nil {
			// Left behind only if even this fails; the write is reported as failed either way.
			_ = unix.Unlinkat(pl.dir, tmp, 0)
		}
		return err
	})
	if err != nil {
		return err
	}
	f.note(tool.FSWrite, pl.path, int64(len(data)))
	return syncDir(pl.dir)
}

// writeTemp makes the file and leaves it open: its lock tells others that somebody
// is writing it.
func (f *Files) writeTemp(pl *place, tmp string, data []byte, old Info, exists bool) (*os.File, error) {
	perm := uint32(0o666) // less the umask
	if exists {
		perm = 0o600
	}
	if err := f.unmoved(tool.FileWrite, pl); err != nil {
		return nil, err
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(pl.dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	})
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), tmp)
	_ = unix.Flock(fd, unix.LOCK_EX) // where it cannot be locked, it may be cleared away, and is written again
	_, err = file.Write(data)
	if err == nil && exists {
		err = keepMode(file, old)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// keepMode gives the new file the old one's owner, where the system permits
// that, and its permissions without set-id bits.
func keepMode(file *os.File, old Info) error {
	if err := file.Chown(old.uid, old.gid); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return file.Chmod(old.Mode.Perm())
}

// commit makes the new file visible if nothing changed meanwhile.
func (f *Files) commit(pl *place, tmp string, old Info, exists bool, mode Mode) error {
	if err := f.unmoved(tool.FileWrite, pl); err != nil {
		return err
	}
	if !exists {
		err := renameNew(pl.dir, tmp, pl.dir, pl.base)
		if errors.Is(err, unix.EEXIST) && mode != Create || errors.Is(err, unix.ENOENT) {
			return errSwapped // somebody else made it, or cleared the new one away: look again
		}
		return err
	}
	now, err := statAt(pl.dir, pl.base)
	if err != nil || !now.same(old) {
		return errSwapped
	}
	err = unix.Renameat(pl.dir, tmp, pl.dir, pl.base)
	if errors.Is(err, unix.ENOENT) {
		return errSwapped
	}
	return err
}

// syncDir makes a rename durable. A folder that can be searched but not read
// cannot be synced; the content itself is safe by then.
func syncDir(dir int) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if err := unix.Fsync(fd); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
