package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// Node describes one path at the time of the scan.
type Node struct {
	Mode   uint32
	Hash   string // of a file
	Target string // of a link
	Folder bool
}

// Snapshot is a scanned folder.
type Snapshot struct {
	Root    Digest
	Nodes   map[string]Node // by path below the root
	Omitted []string        // links that lead out, and names that cannot be sent; the first few
	Missing int             // how many were omitted in all

	root  *os.Root
	lists map[string][]byte // encoded directories, by hash
	files map[string]string // paths of files, by hash
	bytes int64
	left  *walk.Budget
}

// Scan describes a folder: all files, folders and links that include accepts. No link is
// followed. The folder must stay open as long as the Snapshot is used.
func Scan(ctx context.Context, root *os.Root, include func(path string) bool) (*Snapshot, error) {
	return scan(ctx, root, include, walk.Most())
}

func scan(ctx context.Context, root *os.Root, include func(path string) bool, left *walk.Budget) (*Snapshot, error) {
	s := &Snapshot{Nodes: map[string]Node{}, root: root, lists: map[string][]byte{}, files: map[string]string{}, left: left}
	var err error
	if s.Root, _, err = s.folder(ctx, root, "", include); err != nil {
		if errors.Is(err, ctx.Err()) {
			err = fault.Wrap(fault.ToolCancelled, err, "cancelled before the workspace was sent to a worker")
		}
		return nil, err
	}
	return s, nil
}

const maxOmitted = 5

func (s *Snapshot) omit(p string) {
	if s.Missing++; len(s.Omitted) < maxOmitted {
		s.Omitted = append(s.Omitted, p)
	}
}

// folder describes one folder; used says that it is shown, or something in it.
func (s *Snapshot) folder(ctx context.Context, dir *os.Root, at string, include func(string) bool) (d Digest, used bool, err error) {
	entries, mode, err := s.list(ctx, dir)
	if err != nil {
		return d, false, err
	}
	used = at == "" || include(at)
	out := Directory{Mode: uint32(mode)}
	for _, e := range entries {
		p := path.Join(at, e.Name())
		if err := ctx.Err(); err != nil {
			return d, false, err
		}
		if CheckName(e.Name()) != nil || strings.Count(p, "/") >= maxDepth || len(p) > walk.MaxPath {
			s.omit(p)
			continue
		}
		if len(s.Nodes) >= MaxNames {
			return d, false, tooMuch()
		}
		shown := true
		switch {
		case e.IsDir():
			shown, err = s.subfolder(ctx, dir, e.Name(), p, &out, include)
		case !include(p):
			continue
		case e.Type()&fs.ModeSymlink != 0:
			err = s.link(dir, e.Name(), p, &out)
		case e.Type().IsRegular():
			err = s.file(ctx, dir, e.Name(), p, &out)
		default:
			s.omit(p) // a device, FIFO or socket
		}
		if err != nil {
			return d, false, err
		}
		used = used || shown
	}
	b, err := out.encode()
	if err != nil {
		return d, false, err
	}
	d = DigestOf(b)
	if used {
		s.lists[d.Hash] = b
		err = s.add(at, Node{Mode: out.Mode, Folder: true}, len(b))
	}
	return d, used, err
}

// add keeps the node of a path, with a number of further bytes.
func (s *Snapshot) add(p string, n Node, more int) error {
	s.Nodes[p] = n
	if s.left.Take(0, len(p)+len(n.Hash)+len(n.Target)+more) != nil {
		return tooMuch()
	}
	return nil
}

// list lists a folder in order, and gives its mode.
func (s *Snapshot) list(ctx context.Context, dir *os.Root) ([]fs.DirEntry, fs.FileMode, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	entries, err := walk.Entries(ctx, f, s.left)
	if errors.Is(err, walk.ErrMany) {
		err = tooMuch()
	}
	return entries, st.Mode().Perm(), err
}

func tooMuch() error {
	return fault.New(fault.LimitReached, "the workspace has more than %d names that may be read, or more than %d MiB of names and paths, too many to be sent to a worker", MaxNames, walk.Most().Bytes>>20).
		WithHint("deny unneeded files in files.read")
}

func (s *Snapshot) subfolder(ctx context.Context, dir *os.Root, name, p string, out *Directory, include func(string) bool) (bool, error) {
	sub, err := walk.Enter(dir, name)
	if err != nil {
		s.omit(p) // not readable, or replaced meanwhile
		return false, nil
	}
	defer func() { _ = sub.Close() }() // only read
	d, used, err := s.folder(ctx, sub, p, include)
	if used {
		out.Directories = append(out.Directories, Folder{name, d})
	}
	return used, err
}

func (s *Snapshot) link(dir *os.Root, name, p string, out *Directory) error {
	target, err := dir.Readlink(name)
	if err != nil || CheckTarget(p, target) != nil {
		s.omit(p)
		return nil //nolint:nilerr // the result counts it
	}
	out.Symlinks = append(out.Symlinks, Link{name, target})
	return s.add(p, Node{Target: target}, 0)
}

func (s *Snapshot) file(ctx context.Context, dir *os.Root, name, p string, out *Directory) error {
	f, st, err := openFile(dir, name)
	if err != nil {
		s.omit(p)
		return nil // it is missing on the worker, and the outcome says so
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	n, err := io.Copy(h, walk.Reader(ctx, f))
	if err != nil && !errors.Is(err, ctx.Err()) {
		return fault.Wrap(fault.ToolFailed, err, "the file %q cannot be sent to a worker", p)
	}
	if err != nil {
		return err
	}
	if s.bytes += n; s.bytes > MaxBytes {
		return fault.New(fault.LimitReached, "the files of the workspace that may be read have more than %d GiB, too many to be sent to a worker", MaxBytes>>30).
			WithHint("deny unneeded files in files.read")
	}
	d := Digest{hex.EncodeToString(h.Sum(nil)), n}
	mode := uint32(st.Mode().Perm())
	out.Files = append(out.Files, File{name, d, mode})
	s.files[d.Hash] = p
	return s.add(p, Node{Mode: mode, Hash: d.Hash}, 0)
}

// openFile opens a regular file in a folder, and no link.
func openFile(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	if err == nil {
		var named fs.FileInfo
		if named, err = dir.Lstat(name); err == nil && !os.SameFile(named, st) { // os.Root follows a link that stays inside
			err = &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
		}
	}
	if err != nil {
		_ = f.Close() // only looked at
		return nil, nil, err
	}
	return f, st, nil
}

// Hashes are the digests that the snapshot consists of.
func (s *Snapshot) Hashes() []string {
	out := make([]string, 0, len(s.lists)+len(s.files))
	for h := range s.lists {
		out = append(out, h)
	}
	for h := range s.files {
		if s.lists[h] == nil {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return out
}

// Open opens the content of a digest. Its bytes must be checked: a file may have changed.
func (s *Snapshot) Open(hash string) (io.ReadCloser, int64, error) {
	if b := s.lists[hash]; b != nil {
		return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
	}
	p, ok := s.files[hash]
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "the worker asks for the content %.20q, which is not of this workspace", hash)
	}
	f, st, err := OpenPath(s.root, p)
	if err != nil {
		return nil, 0, fault.Wrap(fault.Conflict, err, "the file %q changed while it was sent to a worker", p)
	}
	return f, st.Size(), nil
}

// OpenPath opens a file below a folder and follows no link on the way.
func OpenPath(root *os.Root, p string) (*os.File, fs.FileInfo, error) {
	dir, name := path.Split(p)
	if dir == "" {
		return openFile(root, name)
	}
	at, err := walk.EnterPath(root, path.Clean(dir))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = at.Close() }() // only looked at
	return openFile(at, name)
}
