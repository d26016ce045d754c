package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// FolderAt is where a command finds its Folder.
const FolderAt = "/session"

// HomeAt is the home folder of a command without a folder of its own ([policy.Chain.Own]).
const HomeAt = "/tmp/home"

// MaxFiles bounds the files and folders in /tmp and in HomeAt together.
const MaxFiles = 100_000

// Folder is a private folder for one command (Command.Folder): all that the
// command sees of files beside the system, and may change. It is made by
// Box.NewFolder, filled before the command runs and read when it has ended, by
// handles that lead nowhere else. It must be closed, which removes it.
type Folder struct {
	root  *os.Root
	path  string // absolute, link-free
	lock  io.Closer
	bytes int64 // most of all files together
	files int   // most files and folders
}

// OpenFolder gives the folder at an absolute path without links, which may hold that
// many bytes and files. Close removes it and closes lock.
func OpenFolder(at string, lock io.Closer, bytes int64, files int) (*Folder, error) {
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	return &Folder{root: root, path: at, lock: lock, bytes: bytes, files: files}, nil
}

// Path is where the folder is on the host: absolute, without links.
func (f *Folder) Path() string { return f.path }

// FolderFile is a file or folder in a Folder.
type FolderFile struct {
	Path string // with slashes, relative to the folder
	Size int64
	// Odd says why the file cannot be taken back: a link, a socket, a name
	// that is not UTF-8; "" for a plain file.
	Odd string
	// Closed: it is a folder that cannot be read; its content is not known.
	Closed bool
}

// localName refuses names that lead elsewhere.
func localName(name string) error {
	if !fs.ValidPath(name) || name == "." || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0) {
		return fault.New(fault.ArgsInvalid, "%q is not a relative path", name)
	}
	return nil
}

// Put makes a file and the folders above it. An existing name is an error.
func (f *Folder) Put(name string, content []byte) error {
	if err := localName(name); err != nil {
		return err
	}
	if err := f.root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
		return notPut(name, err)
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(string(content[:min(len(content), 2)]), "#!") {
		mode = 0o755
	}
	w, err := f.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return notPut(name, err)
	}
	_, err = w.Write(content)
	if err = errors.Join(err, w.Close()); err != nil {
		return notPut(name, err)
	}
	return nil
}

func notPut(name string, err error) error {
	return fault.Wrap(fault.ToolFailed, err, "%q cannot be put into the command's folder: %v", name, RootCause(err))
}

// Files lists all that is in the folder but folders, sorted, following no link.
// More than the folder may hold is fault.LimitReached, and so is a path that is too long.
func (f *Folder) Files(ctx context.Context) (out []FolderFile, err error) {
	total := int64(0)
	w := walk.Walk{Top: f.path, Names: f.files}
	w.Visit = func(in *walk.Folder, name string, kind fs.FileMode) (bool, error) {
		if kind.IsDir() {
			return true, nil
		}
		one := folderFile(in, name, kind)
		if total += one.Size; total > f.bytes {
			return false, fault.New(fault.LimitReached, "the command's folder holds more than %d bytes", f.bytes)
		}
		out = append(out, one)
		return false, nil
	}
	var tooMuch error
	w.Skipped = func(at string, why error) {
		switch {
		case errors.Is(why, walk.ErrMany):
			tooMuch = fault.New(fault.LimitReached, "the command's folder holds more than %d files", f.files)
		case errors.Is(why, walk.ErrDeep):
			tooMuch = fault.New(fault.LimitReached, "the command's folder holds folders deeper than a path can name")
		default:
			out = append(out, FolderFile{Path: at, Odd: "it cannot be looked into", Closed: true})
		}
	}
	if err := cmp.Or(w.Down(ctx, f.root), tooMuch); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b FolderFile) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func folderFile(in *walk.Folder, name string, kind fs.FileMode) FolderFile {
	one := FolderFile{Path: in.At(name), Odd: odd(in.At(name), kind)}
	dir, err := in.Root()
	var info fs.FileInfo
	if err == nil {
		info, err = dir.Lstat(name)
	}
	if err != nil {
		one.Odd = "it cannot be looked at"
	} else if one.Odd == "" {
		one.Size = info.Size()
	}
	return one
}

// odd says why a name is not that of a plain file.
func odd(name string, mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "it is a symbolic link"
	case !mode.IsRegular():
		return "it is not a regular file"
	case !utf8.ValidString(name):
		return "its name is not UTF-8"
	}
	return ""
}

// Read reads a file that Files listed as plain, once the command has ended: a
// link or special file is refused, and nothing is waited for.
func (f *Folder) Read(name string) ([]byte, error) {
	if err := localName(name); err != nil {
		return nil, err
	}
	if info, err := f.root.Lstat(filepath.FromSlash(name)); err == nil && !info.Mode().IsRegular() {
		return nil, fault.New(fault.ToolFailed, "%q in the command's folder is not a regular file", name)
	}
	r, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // no link leads out of the root
	if err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "%q cannot be read from the command's folder: %v", name, RootCause(err))
	}
	defer func() { _ = r.Close() }() // nothing was written through it
	if info, err := r.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fault.New(fault.ToolFailed, "%q in the command's folder is not a regular file", name)
	}
	content, err := io.ReadAll(io.LimitReader(r, f.bytes+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.ToolFailed, err, "%q cannot be read from the command's folder: %v", name, RootCause(err))
	case int64(len(content)) > f.bytes:
		return nil, fault.New(fault.LimitReached, "%q has more than %d bytes", name, f.bytes)
	}
	return content, nil
}

// Close removes the folder and all that is in it.
func (f *Folder) Close() error {
	err := walk.Remove(f.path)
	err = errors.Join(err, f.root.Close(), f.lock.Close())
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the command's folder %q cannot be removed: %v", f.path, err)
	}
	return nil
}

func (f *Folder) String() string { return fmt.Sprintf("a private folder at %s", FolderAt) }
