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

// askKeeper asks the keeper of the home folder. Where none listens it starts one, for the next calls.
func (h hook) askKeeper(request []byte) (hookwire.Answer, error) {
	dir := h.home()
	if dir == "" {
		return hookwire.Answer{}, errNoHome
	}
	folder, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return hookwire.Answer{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(folder, &st); err != nil {
		return hookwire.Answer{}, err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return hookwire.Answer{}, errNotOurs
	}
	answer, err := exchange(hookwire.KeeperSocket(folder), request, sameUser)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		h.start(dir, folder)
	}
	return answer, err
}

// sameUser checks who listens at the other end of a connection.
func sameUser(conn int) error {
	peer, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(peer.Uid) != os.Geteuid() {
		err = errStranger
	}
	return err
}

// exchange sends a request to a socket and returns the answer.
func exchange(path string, request []byte, check func(conn int) error) (hookwire.Answer, error) {
	until := time.Now().Add(hookwire.AnswerTime)
	conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return hookwire.Answer{}, err
	}
	defer func() { _ = unix.Close(conn) }()
	limit := unix.NsecToTimeval(int64(hookwire.SendTime))
	if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return hookwire.Answer{}, err
	}
	if err := unix.Connect(conn, &unix.SockaddrUnix{Name: path}); err != nil {
		return hookwire.Answer{}, err
	}
	if check != nil {
		if err := check(conn); err != nil {
			return hookwire.Answer{}, err
		}
	}
	if err := send(conn, request); err != nil {
		return hookwire.Answer{}, err
	}
	b, err := receive(conn, until)
	if err != nil {
		return hookwire.Answer{}, err
	}
	return hookwire.ParseAnswer(b)
}

// send sends a whole request, and says that it is whole.
func send(conn int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(conn, b, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		b = b[max(n, 0):]
	}
	return unix.Shutdown(conn, unix.SHUT_WR)
}

// receive reads until the other end closes the connection.
func receive(conn int, until time.Time) ([]byte, error) {
	var b []byte
	buf := make([]byte, 8<<10)
	for len(b) <= hookwire.MaxAnswer {
		left := time.Until(until)
		if len(b) == 0 {
			left = hookwire.GreetingTime
		}
		if left < time.Millisecond {
			return nil, errTooLate
		}
		limit := unix.NsecToTimeval(int64(left))
		if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
			return nil, err
		}
		n, err := unix.Read(conn, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == 0:
			return b, nil
		default:
			b = append(b, buf[:n]...)
		}
	}
	return nil, errTooLate
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
