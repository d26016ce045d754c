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
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return err
	}
	if int(peer.Uid) != os.Geteuid() || int(peer.Gid) != os.Getegid() {
		return errStranger
	}
	if theirs, err := standing("/proc/" + strconv.Itoa(int(peer.Pid))); err != nil || theirs != k.standing {
		return errStranger
	}
	return nil
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
