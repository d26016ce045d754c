package files

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// File is an open regular file. Close it; its reading is noted then.
type File struct {
	Info
	f    *Files
	path string
	os   *os.File
	read int64
}

// Open opens a regular file for reading, following links as far as policy
// allows where they lead. Opening a folder or a special file fails.
func (f *Files) Open(asked string) (*File, error) {
	var out *File
	err := f.at(how{kind: tool.FileRead, follow: true}, asked, func(pl *place) error {
		file, info, err := f.openRegular(pl, unix.O_RDONLY)
		if err != nil {
			return err
		}
		out = &File{Info: info, f: f, path: pl.path, os: file}
		return nil
	})
	return out, err
}

// openRegular looks before it opens, opens without blocking, and looks again.
func (f *Files) openRegular(pl *place, flags int) (*os.File, Info, error) {
	before, err := statAt(pl.dir, pl.base)
	if err != nil {
		return nil, Info{}, err
	}
	if err := f.regular(pl, before); err != nil {
		return nil, Info{}, err
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(pl.dir, pl.base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, Info{}, err
	}
	info, err := statFD(fd, pl.base)
	if err == nil {
		err = f.regular(pl, info)
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		closeFD(fd)
		return nil, Info{}, err
	}
	return os.NewFile(uintptr(fd), pl.base), info, nil
}

// regular fails for anything but a regular file. The policy allowed the path, so
// that is a mistake of the caller and not a refusal.
func (f *Files) regular(pl *place, i Info) error {
	name := quote(Rel(f.env, pl.path))
	switch t := i.Mode.Type(); {
	case t == fs.ModeSymlink:
		return errSwapped
	case t == fs.ModeDir:
		return fault.New(fault.ToolFailed, "%s is a folder, not a file", name).WithHint("fs.list lists folders")
	case t != 0:
		return fault.New(fault.ToolFailed, "%s is a %s, not a regular file", name, TypeName(i.Mode))
	case pl.dirOnly:
		return fault.New(fault.NotFound, "%s is a file; the path ends as a folder's", name).WithHint("leave the last slash out")
	}
	return nil
}

// TypeName names the type of a file in one word.
func TypeName(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "folder"
	case fs.ModeSymlink:
		return "link"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// Read reads on; an ended permit ends it.
func (r *File) Read(b []byte) (int, error) {
	if !r.f.p.Live() {
		return 0, r.f.p.Check(tool.Action{Kind: tool.FileRead, Path: r.path})
	}
	n, err := r.os.Read(b)
	r.read += int64(n)
	if err != nil && err != io.EOF {
		err = about(r.f.env, r.path, err)
	}
	return n, err
}

// Skip moves on to an offset from the file's beginning, in bytes.
func (r *File) Skip(offset int64) error {
	if _, err := r.os.Seek(offset, io.SeekStart); err != nil {
		return about(r.f.env, r.path, err)
	}
	return nil
}

// Close notes the bytes that were read.
func (r *File) Close() error {
	r.f.note(tool.FSRead, r.path, r.read)
	return r.os.Close()
}

// ReadAll reads a file of at most ReadCap bytes.
func (f *Files) ReadAll(asked string) ([]byte, error) {
	file, err := f.Open(asked)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	limit := f.ReadCap()
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fault.New(fault.LimitReached, "%s has more than the %d bytes that the policy lets be read", quote(f.Show(asked)), limit)
	}
	return b, nil
}

// Stat tells of what a path leads to, links followed.
func (f *Files) Stat(asked string) (Info, error) {
	i, _, err := f.stat(asked, true)
	return i, err
}

// Lstat tells of the path itself, and where it is a link, its target as
// written.
func (f *Files) Lstat(asked string) (Info, string, error) { return f.stat(asked, false) }

func (f *Files) stat(asked string, follow bool) (i Info, target string, err error) {
	err = f.at(how{kind: tool.FileRead, follow: follow}, asked, func(pl *place) error {
		if i, err = statAt(pl.dir, pl.base); err != nil {
			return err
		}
		isLink := i.Mode.Type() == fs.ModeSymlink
		if pl.dirOnly && !isLink && !i.Mode.IsDir() {
			return unix.ENOTDIR
		}
		if isLink && follow {
			return errSwapped
		}
		if isLink {
			target, err = readlinkAt(pl.dir, pl.base)
		}
		return err
	})
	if err == nil {
		f.note(tool.FSRead, f.abs(asked), 0)
	}
	return i, target, err
}

// abs is Clean for a path that was cleaned before.
func (f *Files) abs(asked string) string {
	clean, err := Clean(f.env, asked)
	if err != nil {
		return asked
	}
	return clean
}
