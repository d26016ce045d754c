//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// openContent opens a file to read. It does not block on a FIFO and follows no link.
func openContent(p string) (*os.File, error) {
	return os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}

// ChangedAt is when a file, one of its names or its attributes were changed last. No program can set it. It is zero where the
// system does not tell.
func ChangedAt(st fs.FileInfo) time.Time {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return time.Unix(0, changed(s))
	}
	return time.Time{}
}

// largeState identifies a version of a large file. No program can set the change
// time. The device is left out: it differs between two mounts of one overlay.
func largeState(st fs.FileInfo) string {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("version:%d-%d-%d", s.Ino, st.Size(), changed(s))
}
