package wasm

import (
	"errors"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

// writer is a file that is open for writing. Its content, or the content to be added to it, is held
// in memory until it is stored.
type writer struct {
	esys.UnimplementedFile

	v      *view
	name   string
	buf    []byte
	at     int64
	read   bool // it may be read, too
	append bool // writes go to the end
	adds   bool // buf is only the added part, to content that is not known
	dirty  bool
	gone   bool // the file was removed or replaced since
	closed bool
}

// openWriter opens a file for writing, and makes it where the flags say so: a refusal comes now,
// and not when it is stored.
func (v *view) openWriter(n string, flag esys.Oflag) (esys.File, esys.Errno) {
	if v.onTheWay(n) {
		return nil, esys.EISDIR
	}
	if errno := v.mayChange(n); errno != 0 {
		return nil, errno
	}
	if err := v.p.Check(tool.Action{Kind: tool.FileWrite, Path: v.handlePath(n)}); err != nil {
		return nil, v.errno(tool.FileWrite, n, err)
	}
	w := &writer{v: v, name: n, append: flag&esys.O_APPEND != 0, read: flag&esys.O_RDWR != 0 && v.covers(tool.FileRead, n)}
	made, errno := v.make(n, flag)
	if errno == 0 && !made {
		errno = w.begin(flag)
	}
	if errno != 0 {
		return nil, errno
	}
	v.open++
	v.writers = append(v.writers, w)
	return w, 0
}

// make makes an empty file where the flags say so and there is none.
func (v *view) make(n string, flag esys.Oflag) (bool, esys.Errno) {
	if flag&esys.O_CREAT == 0 {
		return false, 0
	}
	_, err := v.files.Write(v.handlePath(n), nil, files.WriteOptions{Mode: files.Create, Parents: v.first(n)})
	if errors.Is(err, fault.Conflict) && flag&esys.O_EXCL == 0 {
		return false, 0
	}
	return err == nil, v.errno(tool.FileWrite, n, err)
}

// begin takes up a file that is there.
func (w *writer) begin(flag esys.Oflag) esys.Errno {
	readable := w.v.covers(tool.FileRead, w.name)
	switch {
	case flag&esys.O_TRUNC != 0:
		w.dirty = true
		if flag&esys.O_CREAT != 0 {
			return 0 // it was seen to be there
		}
	case !readable && w.append:
		w.adds = true
		return 0
	}
	if !readable {
		return esys.EACCES // its content would have to be read
	}
	if flag&esys.O_TRUNC != 0 {
		st, _, errno := w.v.stat(w.name, true)
		if errno == 0 && st.Mode.IsDir() {
			return esys.EISDIR
		}
		return errno
	}
	b, err := w.v.files.ReadAll(w.v.handlePath(w.name))
	if err != nil {
		return w.v.errno(tool.FileRead, w.name, err)
	}
	if errno := w.grow(int64(len(b))); errno != 0 {
		return errno
	}
	copy(w.buf, b)
	return 0
}

// grow makes the held content size bytes long, as far as it may be.
func (w *writer) grow(size int64) esys.Errno {
	if most := w.v.files.WriteCap(); size > most {
		return w.v.errno(tool.FileWrite, w.name, fault.New(fault.LimitReached, "the file would have %d bytes; the policy lets %d be written", size, most))
	}
	more := size - int64(len(w.buf))
	if more > w.v.room {
		return w.v.errno(tool.FileWrite, w.name, fault.New(fault.LimitReached, "the files that the module has open for writing hold more than its memory"))
	}
	w.v.room -= more
	if more < 0 {
		clear(w.buf[size:])
		w.buf = w.buf[:size]
		return 0
	}
	w.buf = append(w.buf, make([]byte, more)...)
	return 0
}

// Stat implements esys.File.
func (w *writer) Stat() (sys.Stat_t, esys.Errno) {
	return sys.Stat_t{Ino: number(w.name), Mode: 0o644, Nlink: 1, Size: int64(len(w.buf))}, 0
}

// Ino implements esys.File.
func (w *writer) Ino() (sys.Inode, esys.Errno) { return number(w.name), 0 }

// IsAppend implements esys.File.
func (w *writer) IsAppend() bool { return w.append }

// SetAppend implements esys.File.
func (w *writer) SetAppend(enable bool) esys.Errno {
	if w.adds && !enable {
		return esys.EACCES // the content that would be overwritten is not known
	}
	w.append = enable
	return 0
}

// Read implements esys.File.
func (w *writer) Read(b []byte) (int, esys.Errno) {
	n, errno := w.Pread(b, w.at)
	w.at += int64(n)
	return n, errno
}

// Pread implements esys.File.
func (w *writer) Pread(b []byte, at int64) (int, esys.Errno) {
	switch {
	case w.closed || !w.read || w.adds:
		return 0, esys.EBADF
	case at < 0:
		return 0, esys.EINVAL
	case at >= int64(len(w.buf)):
		return 0, 0
	}
	return copy(b, w.buf[at:]), 0
}

// Seek implements esys.File.
func (w *writer) Seek(offset position, whence int) (int64, esys.Errno) {
	if w.closed {
		return 0, esys.EBADF
	}
	at, errno := seek(offset, whence, w.at, int64(len(w.buf)))
	if errno == 0 {
		w.at = at
	}
	return at, errno
}

// Write implements esys.File.
func (w *writer) Write(b []byte) (int, esys.Errno) {
	n, errno := w.Pwrite(b, w.at)
	if w.append {
		w.at = int64(len(w.buf))
	} else {
		w.at += int64(n)
	}
	return n, errno
}

// Pwrite implements esys.File.
func (w *writer) Pwrite(b []byte, at int64) (int, esys.Errno) {
	if w.append {
		at = int64(len(w.buf))
	}
	switch {
	case w.closed:
		return 0, esys.EBADF
	case at < 0:
		return 0, esys.EINVAL
	case len(b) == 0:
		return 0, 0
	}
	if end := at + int64(len(b)); end < 0 || end > int64(len(w.buf)) {
		if end < 0 {
			return 0, esys.EINVAL
		}
		if errno := w.grow(end); errno != 0 {
			return 0, errno
		}
	}
	w.dirty = true
	return copy(w.buf[at:], b), 0
}

// Truncate implements esys.File.
func (w *writer) Truncate(size int64) esys.Errno {
	switch {
	case w.closed:
		return esys.EBADF
	case size < 0:
		return esys.EINVAL
	case w.adds:
		return esys.EACCES
	}
	w.dirty = true
	return w.grow(size)
}

// Sync implements esys.File.
func (w *writer) Sync() esys.Errno { return w.store() }

// Datasync implements esys.File.
func (w *writer) Datasync() esys.Errno { return w.store() }

// store writes the held content. A call that is over, or goes wrong, stores nothing more; one whose
// time is over between two files has lost the others, and has failed.
func (w *writer) store() esys.Errno {
	if !w.dirty || w.gone || w.v.over {
		return 0
	}
	if err := w.v.ctx.Err(); err != nil {
		if w.v.failed == nil {
			w.v.failed = err
		}
		return esys.EIO
	}
	mode := files.Replace
	if w.adds {
		mode = files.Append
	}
	_, err := w.v.files.Write(w.v.handlePath(w.name), w.buf, files.WriteOptions{Mode: mode})
	if err != nil && w.v.failed == nil {
		w.v.failed = err
	}
	if err == nil {
		w.dirty = false
		if w.adds {
			w.release()
			w.at = 0
		}
	}
	return w.v.errno(tool.FileWrite, w.name, err)
}

func (w *writer) release() {
	w.v.room += int64(len(w.buf))
	w.buf = nil
}

// Close implements esys.File.
func (w *writer) Close() esys.Errno {
	if w.closed {
		return 0
	}
	errno := w.store()
	w.closed = true
	w.release()
	w.v.open--
	for i, other := range w.v.writers {
		if other == w {
			w.v.writers = append(w.v.writers[:i:i], w.v.writers[i+1:]...)
			break
		}
	}
	return errno
}
