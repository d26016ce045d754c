package network

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// DialSocket connects to a Unix socket of this machine by its path, in which no part may be a
// link: the connection goes to the socket that is at the path now.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.ELOOP {
		return nil, linked(path)
	}
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "the socket %q cannot be opened", path)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return nil, linked(path)
		}
		return nil, fault.New(fault.HandleRefused, "%q is not a socket", path)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
}

func linked(path string) error {
	return fault.New(fault.HandleRefused, "a link leads to the socket %q", path).WithHint("write the path without links")
}
