package changeset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// quote shows an untrusted name.
func quote(s string) string {
	if len(s) > 300 {
		return strconv.Quote(s[:300]) + "..."
	}
	return strconv.Quote(s)
}

func again[T any](do func() (T, error)) (T, error) {
	for {
		v, err := do()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

// shut closes a descriptor that nothing was written through.
func shut(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// openFolder opens a folder in a folder, through no link.
func openFolder(dir int, name string) (int, error) {
	return again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// rootFolder opens an absolute path's folder name by name, through no link.
func rootFolder(abs string) (int, error) {
	fd, err := openFolder(unix.AT_FDCWD, "/")
	if err != nil {
		return -1, err
	}
	defer shut(fd)
	return openBelow(fd, strings.TrimPrefix(path.Clean(abs), "/"))
}

// openBelow opens the folder at a clean relative path name by name.
func openBelow(root int, rel string) (int, error) {
	fd, err := openFolder(root, ".")
	if err != nil || rel == "." || rel == "" {
		return fd, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		if name == ".." || name == "." || name == "" {
			shut(fd)
			return -1, unix.EINVAL
		}
		next, err := openFolder(fd, name)
		shut(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

func statAt(dir int, name string) (unix.Stat_t, error) {
	return again(func() (st unix.Stat_t, err error) {
		return st, unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func typeOf(st *unix.Stat_t) Type {
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Folder
	case unix.S_IFLNK:
		return Link
	}
	return Special
}

// key shows whether a name is unchanged, without reading it.
type key struct {
	Type     Type   `json:"type"`
	Dev      uint64 `json:"dev"`
	Ino      uint64 `json:"ino"`
	Size     int64  `json:"size"`
	Mode     uint32 `json:"mode"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
	Changed  int64  `json:"changed"`
}

func keyOf(st *unix.Stat_t) key {
	k := key{Type: typeOf(st), Dev: uint64(st.Dev), Ino: st.Ino, Mode: uint32(st.Mode)}
	if k.Type != Folder { // the content of a folder is compared name by name
		k.Size, k.Modified, k.Changed = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
	}
	return k
}

// errMoved: a name changed while it was looked at.
var errMoved = errors.New("it changes while it is read")

// found describes a name.
type found struct {
	Node
	st     unix.Stat_t
	odd    string // an attribute that is not carried over, "" if there is none
	mark   string // the fault of the overlay's notes, or ""
	opaque bool   // the overlay hides the lower folder

	mounted bool // something else is mounted there
}

// nodeAt describes a name, with the digest of a file's content.
func nodeAt(dir int, name string) (Node, unix.Stat_t, error) {
	f, err := look(dir, name)
	return f.Node, f.st, err
}

// look does so, and tells the rest as well.
func look(dir int, name string) (f found, err error) {
	f.st, err = statAt(dir, name)
	if absent(err) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	return f, f.fill(dir, name)
}

// fill reads the file of a name whose status is known.
func (f *found) fill(dir int, name string) (err error) {
	f.Node = Node{Type: typeOf(&f.st), Mode: uint32(f.st.Mode) & 0o7777}
	switch f.Type {
	case File:
		fd, err := openFile(dir, name, &f.st)
		if err != nil {
			return err
		}
		defer shut(fd)
		if err = f.notes(fd); err == nil {
			f.Hash, f.Size, err = hashOf(fd, -1)
		}
		return err
	case Folder:
		fd, err := openFolder(dir, name)
		if err != nil {
			return nil // an unlistable folder is reported when it is entered
		}
		defer shut(fd)
		return f.notes(fd)
	case Link:
		f.Mode = 0
		f.Target, err = readlink(dir, name)
	}
	return err
}

// notes reads the extended attributes.
func (f *found) notes(fd int) error {
	list, err := listAttrs(fd)
	if err != nil {
		return fmt.Errorf("its extended attributes: %w", err)
	}
	f.mark, f.opaque = marks(fd, list)
	f.Attrs, f.odd, err = attrs(fd, list)
	return err
}

// openFile opens the regular file that was looked at, and no other.
func openFile(dir int, name string, was *unix.Stat_t) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Ino != was.Ino || st.Dev != was.Dev || typeOf(&st) != File) {
		err = errMoved
	}
	if err != nil {
		shut(fd)
		return -1, err
	}
	return fd, nil
}

var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// maxGrowth is by how many bytes a file may grow while it is read.
const maxGrowth = 16 << 20

// hashOf reads an open file to the end, and copies it to another one if to is not
// below 0. A file that grows as fast as it is read is errMoved. Plain descriptors: ten thousand times the poller's
// bookkeeping is half a second.
func hashOf(from, to int) (string, int64, error) {
	st, err := statFD(from)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	buf, _ := buffers.Get().(*[128 << 10]byte) // it holds nothing else
	defer buffers.Put(buf)
	for size := int64(0); ; {
		n, err := again(func() (int, error) { return unix.Read(from, buf[:]) })
		if err != nil {
			return "", size, err
		}
		if n == 0 {
			return hex.EncodeToString(h.Sum(nil)), size, nil
		}
		if size += int64(n); size > st.Size+maxGrowth {
			return "", size, errMoved
		}
		h.Write(buf[:n]) // it never fails
		if to >= 0 {
			if err := writeAll(to, buf[:n]); err != nil {
				return "", size, err
			}
		}
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := again(func() (int, error) { return unix.Write(fd, b) })
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func readlink(dir int, name string) (string, error) {
	buf := make([]byte, 4097)
	n, err := again(func() (int, error) { return unix.Readlinkat(dir, name, buf) })
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// names lists an open folder, sorted. More than is left of the budget is fault.LimitReached.
func names(ctx context.Context, fd int, rel string, b *walk.Budget) ([]string, error) {
	own, err := openFolder(fd, ".")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), ".")
	defer func() { _ = f.Close() }() // nothing was written
	out, err := walk.Names(ctx, f, b)
	if errors.Is(err, walk.ErrMany) {
		return nil, tooMuch(rel)
	}
	return out, err
}

// tooMuch is the error for more changes than a changeset keeps in memory, up to a folder.
func tooMuch(rel string) error {
	return fault.New(fault.LimitReached, "the changes up to %s are too many: more than %d names, or more than %d MiB of names, paths and links", quote(rel), maxChanges, walk.Most().Bytes>>20)
}

// tooDeep is the error for a folder that a changeset does not look into.
func tooDeep(rel string) error {
	return fault.New(fault.LimitReached, "%s is more than %d folders deep, or its path is longer than %d bytes", quote(rel), maxDepth, walk.MaxPath)
}

// parents remembers the folder that was opened last: paths come in order.
type parents struct {
	root int
	path string
	fd   int
}

func newParents(root int) *parents { return &parents{root: root, fd: -1} }

// at opens the folder that holds a path. It stays open until the next call.
func (p *parents) at(rel string) (dir int, name string, err error) {
	d := path.Dir(rel)
	if p.fd >= 0 && p.path == d {
		return p.fd, path.Base(rel), nil
	}
	p.close()
	if p.fd, err = openBelow(p.root, d); err != nil {
		p.fd = -1
		return -1, "", err
	}
	p.path = d
	return p.fd, path.Base(rel), nil
}

func (p *parents) close() {
	shut(p.fd)
	p.fd = -1
}
