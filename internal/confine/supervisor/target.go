//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pathMax  = 4096
	pageSize = 4096 // a larger page only makes more pieces
)

// ReadString reads a NUL-terminated string of another process, up to PATH_MAX. A string that is none
// is EFAULT, a longer one ENAMETOOLONG.
func ReadString(pid int, at uintptr) (string, error) {
	const usual = 256 // most paths are shorter, and one page is read faster than two
	var short [usual]byte
	n := min(usual, pageSize-int(at%pageSize))
	local := []unix.Iovec{{Base: &short[0], Len: uint64(n)}}
	got, _ := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: n}}, 0) // an error comes again below
	if end := bytes.IndexByte(short[:max(got, 0)], 0); end >= 0 {
		return string(short[:end]), nil
	}
	return readLong(pid, at)
}

// readLong is ReadString for any length.
func readLong(pid int, at uintptr) (string, error) {
	var buf [pathMax]byte
	var remote [2]unix.RemoteIovec
	pieces := remote[:0]
	for got := 0; got < pathMax; { // page by page: the next one may not be there
		n := min(pageSize-int(at+uintptr(got))%pageSize, pathMax-got)
		pieces = append(pieces, unix.RemoteIovec{Base: at + uintptr(got), Len: n})
		got += n
	}
	local := []unix.Iovec{{Base: &buf[0], Len: pathMax}}
	n, err := unix.ProcessVMReadv(pid, local, pieces, 0)
	if err != nil {
		return "", err
	}
	end := bytes.IndexByte(buf[:max(n, 0)], 0)
	switch {
	case end >= 0:
		return string(buf[:end]), nil
	case n == pathMax:
		return "", unix.ENAMETOOLONG
	}
	return "", unix.EFAULT
}

// readMemory fills a value from the memory of another process.
func readMemory[T any](pid int, at uintptr, into *T) unix.Errno {
	size := int(unsafe.Sizeof(*into))
	local := []unix.Iovec{{Base: (*byte)(unsafe.Pointer(into)), Len: uint64(size)}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: size}}, 0)
	if err != nil || n != size {
		return unix.EFAULT
	}
	return 0
}

// procPath is the path of a file in /proc for a thread, as /proc/12/cwd.
func procPath(pid uint32, name string) string {
	b := append(make([]byte, 0, 64), "/proc/"...)
	b = strconv.AppendUint(b, uint64(pid), 10)
	b = append(b, '/')
	return string(append(b, name...))
}

// fdPath is the path of an own descriptor.
func fdPath(fd int) string {
	return string(strconv.AppendInt(append(make([]byte, 0, 32), "/proc/self/fd/"...), int64(fd), 10))
}

// whereIs is the path of a descriptor in the file tree that it was found in.
func (s *Supervisor) whereIs(fd int) (string, unix.Errno) {
	var buf [pathMax]byte
	n, err := unix.Readlinkat(s.self, strconv.Itoa(fd), buf[:])
	if err != nil {
		return "", errnoOf(err)
	}
	if n == len(buf) {
		return "", unix.ENAMETOOLONG
	}
	return string(buf[:n]), 0
}

// status is a part of /proc/PID/status of a thread.
type status struct {
	umask     int
	leader    int    // the process's first thread
	tgid, tid string // in the innermost pid namespace, which is that of its /proc
}

// statusFiles are open files /proc/PID/status, of one answering thread. To read one again takes a third of the time that it
// takes to open it, and an open file is never that of a later thread with the same number.
type statusFiles map[uint32]int

const maxStatusFiles = 32

func (f statusFiles) end() {
	for pid, fd := range f {
		drop(fd)
		delete(f, pid)
	}
}

// read fills buf with the status of a thread.
func (f statusFiles) read(pid uint32, buf []byte) (n int, err error) {
	if fd, ok := f[pid]; ok {
		if n, err = unix.Pread(fd, buf, 0); err == nil && n > 0 {
			return n, nil
		}
		drop(fd) // the thread has ended
		delete(f, pid)
	}
	if len(f) >= maxStatusFiles {
		f.end()
	}
	fd, err := unix.Open(procPath(pid, "status"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	f[pid] = fd
	return unix.Pread(fd, buf, 0)
}

// of returns the status of a thread.
func (f statusFiles) of(pid uint32) (s status, errno unix.Errno) {
	var buf [8 << 10]byte
	n, err := f.read(pid, buf[:])
	if err != nil {
		return s, unix.ESRCH
	}
	for line := range bytes.Lines(buf[:n]) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		words := bytes.Fields(value)
		if len(words) == 0 {
			continue
		}
		switch string(name) {
		case "Umask":
			u, _ := strconv.ParseUint(string(words[0]), 8, 16) // as the kernel writes it
			s.umask = int(u)
		case "Tgid":
			s.leader, _ = strconv.Atoi(string(words[0]))
		case "NStgid":
			s.tgid = string(words[len(words)-1])
		case "NSpid":
			s.tid = string(words[len(words)-1])
			return s, 0
		}
	}
	return s, unix.ESRCH
}

// terminalOf is the name below /dev/pts of a thread's controlling terminal; "": it has none.
func terminalOf(pid uint32) string {
	fd, err := unix.Open(procPath(pid, "stat"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer drop(fd)
	var buf [1 << 10]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return ""
	}
	words := bytes.Fields(buf[bytes.LastIndexByte(buf[:n], ')')+1 : n]) // its name can have any byte
	if len(words) < 5 {
		return ""
	}
	const slaves = 136 // the major number of the terminals in /dev/pts
	dev, err := strconv.ParseUint(string(words[4]), 10, 32)
	if err != nil || unix.Major(dev) != slaves {
		return ""
	}
	return strconv.Itoa(int(unix.Minor(dev)))
}

func drop(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // it was only looked at, or the process has it
	}
}

func errnoOf(err error) unix.Errno {
	var e unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e
	}
	return unix.EIO
}

// digits reports whether a name is a number, as those of processes in /proc.
func digits(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") == ""
}
