//go:build linux && (amd64 || arm64)

package supervisor

import (
	"strings"

	"golang.org/x/sys/unix"
)

// FileID tells a file from one that gets its number later.
type FileID struct {
	major, minor uint32
	number       uint64
	born         unix.StatxTimestamp // zero where the file system does not know it
}

// Identify describes what a path in a folder leads to, or, with "", a descriptor. It follows no link at the end.
func Identify(dir int, path string) (id FileID, st unix.Statx_t, err error) {
	err = unix.Statx(dir, path, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE|unix.STATX_NLINK|unix.STATX_INO|unix.STATX_BTIME, &st)
	return FileID{st.Dev_major, st.Dev_minor, st.Ino, st.Btime}, st, err
}

// tell has Changed told of a file.
func (c *call) tell(path string, file int) {
	if c.Changed != nil {
		c.Changed(path, file)
	}
}

// tellNamed has Changed told of the file or folder that has a name now.
func (c *call) tellNamed(s spot) {
	if c.Changed == nil {
		return
	}
	file, errno := c.open(s.dir, strings.TrimRight(s.name, "/"), unix.O_NOFOLLOW)
	if errno != 0 {
		file = -1
	}
	c.Changed(s.real, file)
}

// last prepares to tell Gone of the file of a name. removed is called when the name was removed, and tells of a file without another one.
func (c *call) last(s spot) (removed func()) {
	if c.Gone == nil {
		return func() {}
	}
	file, errno := c.open(s.dir, strings.TrimRight(s.name, "/"), unix.O_NOFOLLOW)
	return func() {
		if now, unknown := at(file); errno == 0 && unknown == 0 && now.st.Nlink == 0 {
			c.Gone(file)
		}
	}
}
