package wasm

import (
	"errors"
	"io"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

// reading is a file that is open for reading.
type reading struct {
	esys.UnimplementedFile

	v      *view
	name   string
	file   *files.File
	st     sys.Stat_t
	at     int64 // where the module reads on
	behind int64 // where the file itself is
	most   int64 // the policies let that much of a file be read
	closed bool
}

// Stat implements esys.File.
func (r *reading) Stat() (sys.Stat_t, esys.Errno) { return r.st, 0 }

// Ino implements esys.File.
func (r *reading) Ino() (sys.Inode, esys.Errno) { return r.st.Ino, 0 }

// Read implements esys.File.
func (r *reading) Read(b []byte) (int, esys.Errno) {
	n, errno := r.Pread(b, r.at)
	r.at += int64(n)
	return n, errno
}

// Pread implements esys.File.
func (r *reading) Pread(b []byte, at int64) (int, esys.Errno) {
	switch {
	case r.closed:
		return 0, esys.EBADF
	case at < 0:
		return 0, esys.EINVAL
	case len(b) == 0:
		return 0, 0
	}
	if at >= r.most {
		b = b[:1] // to tell the end of the file from the end of the readable part
	} else {
		b = b[:min(int64(len(b)), r.most-at)]
	}
	if at != r.behind {
		if err := r.file.Skip(at); err != nil {
			return 0, esys.EIO
		}
		r.behind = at
	}
	n, err := r.file.Read(b)
	r.behind += int64(n)
	if at >= r.most && n > 0 {
		return 0, r.v.errno(tool.FileRead, r.name, fault.New(fault.LimitReached, "the file has more than the %d bytes that the policy lets be read", r.most))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, r.v.errno(tool.FileRead, r.name, err)
	}
	return n, 0
}

// Seek implements esys.File.
func (r *reading) Seek(offset position, whence int) (int64, esys.Errno) {
	if r.closed {
		return 0, esys.EBADF
	}
	at, errno := seek(offset, whence, r.at, r.st.Size)
	if errno == 0 {
		r.at = at
	}
	return at, errno
}

// position is a place in a file, in bytes. It has a name because vet takes every
// Seek of an int64 for that of io.Seeker, and the engine's has another result.
type position = int64

func seek(offset int64, whence int, at, size int64) (int64, esys.Errno) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += at
	case io.SeekEnd:
		offset += size
	default:
		return 0, esys.EINVAL
	}
	if offset < 0 { // also where the sum was too large
		return 0, esys.EINVAL
	}
	return offset, 0
}

// Write implements esys.File.
func (r *reading) Write([]byte) (int, esys.Errno) { return 0, esys.EBADF }

// Pwrite implements esys.File.
func (r *reading) Pwrite([]byte, int64) (int, esys.Errno) { return 0, esys.EBADF }

// Truncate implements esys.File.
func (r *reading) Truncate(int64) esys.Errno { return esys.EBADF }

// Close implements esys.File.
func (r *reading) Close() esys.Errno {
	if r.closed {
		return 0
	}
	r.closed = true
	r.v.open--
	if err := r.file.Close(); err != nil {
		return esys.EIO
	}
	return 0
}

// folder is an open folder.
type folder struct {
	esys.DirFile

	v       *view
	name    string
	st      sys.Stat_t
	entries []esys.Dirent // nil: not read yet
	at      int
	closed  bool
}

// Stat implements esys.File.
func (f *folder) Stat() (sys.Stat_t, esys.Errno) { return f.st, 0 }

// Dev implements esys.File.
func (f *folder) Dev() (uint64, esys.Errno) { return 0, 0 }

// Ino implements esys.File.
func (f *folder) Ino() (sys.Inode, esys.Errno) { return f.st.Ino, 0 }

// Readdir implements esys.File.
func (f *folder) Readdir(n int) ([]esys.Dirent, esys.Errno) {
	if f.closed {
		return nil, esys.EBADF
	}
	if f.entries == nil {
		list, errno := f.v.list(f.name)
		if errno != 0 {
			return nil, errno
		}
		f.entries = append([]esys.Dirent{}, list...)
	}
	rest := f.entries[f.at:]
	if n > 0 && n < len(rest) {
		rest = rest[:n]
	}
	f.at += len(rest)
	return rest, 0
}

// Seek implements esys.File: back to the beginning, which reads anew.
func (f *folder) Seek(offset position, whence int) (int64, esys.Errno) {
	if offset != 0 || whence != io.SeekStart {
		return 0, esys.EINVAL
	}
	f.entries, f.at = nil, 0
	return 0, 0
}

// Sync implements esys.File.
func (f *folder) Sync() esys.Errno { return 0 }

// Datasync implements esys.File.
func (f *folder) Datasync() esys.Errno { return 0 }

// Utimens implements esys.File.
func (f *folder) Utimens(int64, int64) esys.Errno { return esys.ENOTSUP }

// Close implements esys.File.
func (f *folder) Close() esys.Errno {
	if !f.closed {
		f.closed = true
		f.v.open--
	}
	return 0
}
