package tree

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/remitrun/remit/internal/base/fault"
)

// Node is what one path was when it was scanned.
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
}

// Scan describes a folder: all files, folders and links that include accepts. No link is
// followed. The folder must stay open as long as the Snapshot is used.
func Scan(root *os.Root, include func(path string) bool) (*Snapshot, error) {
	s := &Snapshot{Nodes: map[string]Node{}, root: root, lists: map[string][]byte{}, files: map[string]string{}}
	var err error
	if s.Root, _, err = s.folder(root, "", include); err != nil {
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
func (s *Snapshot) folder(dir *os.Root, at string, include func(string) bool) (d Digest, used bool, err error) {
	entries, st, err := list(dir)
	if err != nil {
		return d, false, err
	}
	used = at == "" || include(at)
	out := Directory{Mode: uint32(st.Mode().Perm())}
	for _, e := range entries {
		p := path.Join(at, e.Name())
		if CheckName(e.Name()) != nil || strings.Count(p, "/") >= maxDepth {
			s.omit(p)
			continue
		}
		if len(s.Nodes) >= MaxNames {
			return d, false, fault.New(fault.LimitReached, "the workspace has more than %d names that may be read, too many to be sent to a worker", MaxNames).
				WithHint("deny what the command does not need in files.read")
		}
		shown := true
		switch {
		case e.IsDir():
			shown, err = s.subfolder(dir, e.Name(), p, &out, include)
		case !include(p):
			continue
		case e.Type()&fs.ModeSymlink != 0:
			s.link(dir, e.Name(), p, &out)
		case e.Type().IsRegular():
			err = s.file(dir, e.Name(), p, &out)
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
		s.Nodes[at] = Node{Mode: out.Mode, Folder: true}
	}
	return d, used, nil
}

func list(dir *os.Root) ([]fs.DirEntry, fs.FileInfo, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, st, err
}

func (s *Snapshot) subfolder(dir *os.Root, name, p string, out *Directory, include func(string) bool) (bool, error) {
	sub, err := enter(dir, name)
	if err != nil {
		s.omit(p) // not readable, or replaced meanwhile
		return false, nil
	}
	defer func() { _ = sub.Close() }() // only read
	d, used, err := s.folder(sub, p, include)
	if used {
		out.Directories = append(out.Directories, Folder{name, d})
	}
	return used, err
}

// enter opens a folder in a folder, and no link.
func enter(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := sub.Stat(".")
	if err != nil || !before.IsDir() || !os.SameFile(before, after) {
		_ = sub.Close() // only looked at
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return sub, nil
}

func (s *Snapshot) link(dir *os.Root, name, p string, out *Directory) {
	target, err := dir.Readlink(name)
	if err != nil || CheckTarget(p, target) != nil {
		s.omit(p)
		return
	}
	out.Symlinks = append(out.Symlinks, Link{name, target})
	s.Nodes[p] = Node{Target: target}
}

func (s *Snapshot) file(dir *os.Root, name, p string, out *Directory) error {
	f, st, err := openFile(dir, name)
	if err != nil {
		s.omit(p)
		return nil // it is missing on the worker, and the outcome says so
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the file %q cannot be sent to a worker", p)
	}
	if s.bytes += n; s.bytes > MaxBytes {
		return fault.New(fault.LimitReached, "the files of the workspace that may be read have more than %d GiB, too many to be sent to a worker", MaxBytes>>30).
			WithHint("deny what the command does not need in files.read")
	}
	d := Digest{hex.EncodeToString(h.Sum(nil)), n}
	mode := uint32(st.Mode().Perm())
	out.Files = append(out.Files, File{name, d, mode})
	s.files[d.Hash] = p
	s.Nodes[p] = Node{Mode: mode, Hash: d.Hash}
	return nil
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
	at := root
	for _, part := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' }) {
		sub, err := enter(at, part)
		if at != root {
			_ = at.Close() // only looked at
		}
		if err != nil {
			return nil, nil, err
		}
		at = sub
	}
	f, st, err := openFile(at, name)
	if at != root {
		_ = at.Close() // only looked at
	}
	return f, st, err
}
