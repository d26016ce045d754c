package keeper

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errStranger refuses a client. It is not told why.
var errStranger = errors.New("not a process of this user outside of a sandbox")

// admit refuses clients of other users and groups, and clients with other namespaces or fewer rights,
// which every sandboxed process has. Their calls are decided by processes of their own.
func (k *Keeper) admit(conn *net.UnixConn) error {
	peer, err := peerOf(conn)
	if err != nil {
		return err
	}
	if int(peer.Uid) != os.Geteuid() || int(peer.Gid) != os.Getegid() {
		return errStranger
	}
	if theirs, err := standing(procOf(peer)); err != nil || theirs != k.standing {
		return errStranger
	}
	return nil
}

// alike reports whether commands of a client's own would have the same limits as those of this process.
func (k *Keeper) alike(conn *net.UnixConn) bool {
	peer, err := peerOf(conn)
	return err == nil && limits(procOf(peer), int(peer.Pid)) == limits("/proc/self", 0)
}

func peerOf(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return nil, cerr
	}
	return peer, err
}

func procOf(peer *unix.Ucred) string { return "/proc/" + strconv.Itoa(int(peer.Pid)) }

// limits describes what a process passes on to its commands: namespaces, limits, control groups, priority,
// and the label of a security module.
func limits(proc string, pid int) string {
	var out strings.Builder
	for _, name := range []string{"/limits", "/cgroup", "/oom_score_adj", "/attr/current"} {
		b, _ := os.ReadFile(proc + name) // not every kernel has all of them
		out.Write(append(b, '\n'))
	}
	for _, name := range []string{"/ns/ipc", "/ns/uts", "/ns/cgroup", "/ns/time"} {
		to, _ := os.Readlink(proc + name)
		out.WriteString(to + "\n")
	}
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, pid)
	return out.String() + strconv.Itoa(nice)
}

// standing describes a process: its namespaces, root, user, groups, capabilities and system call filter.
func standing(proc string) (string, error) {
	var out strings.Builder
	for _, name := range []string{"/ns/mnt", "/ns/user", "/ns/pid", "/ns/net", "/root"} {
		to, err := os.Readlink(proc + name)
		if err != nil {
			return "", err
		}
		out.WriteString(to + "\n")
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(status) {
		for _, name := range []string{"Uid:", "Gid:", "Groups:", "CapEff:", "NoNewPrivs:", "Seccomp:"} {
			if bytes.HasPrefix(line, []byte(name)) {
				out.Write(line)
			}
		}
	}
	return out.String(), nil
}
