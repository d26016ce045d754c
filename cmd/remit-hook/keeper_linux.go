package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/doors/hookwire"
)

var (
	errNoHome   = errors.New("the folder is not known")
	errNotOurs  = errors.New("the folder belongs to another user, or others can write to it")
	errStranger = errors.New("another user answers at the socket")
	errTooLate  = errors.New("no answer in time")
)

// dialKeeper connects to the keeper of a home folder. Where none listens it starts one, for the next calls.
func (h hook) dialKeeper(dir string) (conn int, err error) {
	if dir == "" {
		return -1, errNoHome
	}
	folder, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(folder, &st); err != nil {
		return -1, err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return -1, errNotOurs
	}
	conn, err = dial(hookwire.KeeperSocket(folder))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		h.start(dir, folder)
	}
	if err == nil {
		if err = sameUser(conn); err != nil {
			_ = unix.Close(conn)
		}
	}
	return conn, err
}

// sameUser checks who listens at the other end of a connection.
func sameUser(conn int) error {
	peer, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(peer.Uid) != os.Geteuid() {
		err = errStranger
	}
	return err
}

// dial connects to a socket.
func dial(path string) (int, error) {
	conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(int64(hookwire.SendTime))
	if err = unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err == nil {
		err = unix.Connect(conn, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		_ = unix.Close(conn)
	}
	return conn, err
}

// exchange sends a request and returns the answer.
func exchange(conn int, request []byte, until time.Time) (hookwire.Answer, error) {
	if err := send(conn, request, nil); err != nil {
		return hookwire.Answer{}, err
	}
	var b []byte
	buf := make([]byte, 8<<10)
	for len(b) <= hookwire.MaxAnswer {
		left := time.Until(until)
		if len(b) == 0 {
			left = hookwire.GreetingTime
		}
		if left < time.Millisecond {
			return hookwire.Answer{}, errTooLate
		}
		n, err := receive(conn, buf, left)
		if err != nil {
			return hookwire.Answer{}, err
		}
		if n == 0 {
			return hookwire.ParseAnswer(b)
		}
		b = append(b, buf[:n]...)
	}
	return hookwire.Answer{}, errTooLate
}

// send sends a whole request, with descriptors in the form of unix.UnixRights, and says that it is whole.
func send(conn int, b, rights []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(conn, b, rights, nil, unix.MSG_NOSIGNAL)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			b, rights = b[n:], nil
		}
	}
	return unix.Shutdown(conn, unix.SHUT_WR)
}

// receive reads some bytes within a time. 0 is no limit.
func receive(conn int, b []byte, limit time.Duration) (int, error) {
	t := unix.NsecToTimeval(int64(limit))
	if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t); err != nil {
		return 0, err
	}
	for {
		if n, err := unix.Read(conn, b); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// start starts a keeper, if no other process does. The lock that shows this passes to the keeper.
// Without a keeper each call is only slower, so nothing is reported.
func (h hook) start(dir string, folder int) {
	lock, err := unix.Openat(folder, hookwire.LockFile, unix.O_CREAT|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil || unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	program, err := remit()
	if err != nil {
		return
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	// Pipes of the agent that were passed on would stay open as long as the keeper.
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		return
	}
	_, _ = syscall.ForkExec(program, []string{program, "keeper", "--home", dir, "--lock", strconv.Itoa(3)}, &syscall.ProcAttr{
		Dir: "/", Env: hookwire.KeeperEnv(h.lookup), Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(lock)}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}
