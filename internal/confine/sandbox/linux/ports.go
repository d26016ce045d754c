//go:build linux && (amd64 || arm64)

package linux

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// Open lists the sandboxes of agents' sessions, the last used first, with the ports at which programs of them listen.
func (s *Sandboxes) Open() []sandbox.OpenSession {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	var out []sandbox.OpenSession
	for session, one := range s.agents.open {
		out = append(out, sandbox.OpenSession{ID: session.id, Workspace: session.workspace, Last: one.last, Running: one.running, Ports: listening(one.zygote.PID())})
	}
	slices.SortFunc(out, func(a, b sandbox.OpenSession) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.ID, b.ID), strings.Compare(a.Workspace, b.Workspace))
	})
	return out
}

// Sockets makes the sockets of one connection in the network of a session's sandbox, until ctx ends. They are not connected; see
// [DialInside]. The sandbox stays as it does after a command. Without a sandbox the error is fault.NotFound.
func (s *Sandboxes) Sockets(ctx context.Context, id, workspace string) ([]*os.File, error) {
	one := s.agents.takeExisting(agentSession{id, workspace})
	if one == nil {
		return nil, fault.New(fault.NotFound, "the session %q has no sandbox", id)
	}
	ctx, stop := context.WithTimeout(ctx, socketsTime)
	defer stop()
	var child *spawn.Child
	defer func() { s.agents.leave(one, child, ctx.Err() != nil) }() // a sandbox that stops the process is of no use
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	if err := one.begin(); err != nil {
		return nil, err
	}
	at := int(null.Fd())
	if child, err = one.zygote.Start(sharedSockets(), [3]int{at, at, at}); err != nil {
		return nil, notStarted(err)
	}
	defer continueUntil(ctx, child)()
	var out []*os.File
	for range families() {
		f := child.TakeUntil(ctx.Done())
		if f == nil || familyOf(f) == 0 {
			child.Kill()
			closeFiles(append(out, f))
			go func() { // what comes later
				for f := child.Take(); f != nil; f = child.Take() {
					_ = f.Close()
				}
			}()
			return nil, fault.New(fault.ToolFailed, "the sandbox gave no socket")
		}
		out = append(out, f)
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
	}
	return out, nil
}

// socketsTime bounds [Sandboxes.Sockets]: programs of the sandbox may stop the process that makes the sockets.
const socketsTime = 2 * time.Second

// continueUntil lets the process of a command go on again and again, until ctx or stop ends that.
func continueUntil(ctx context.Context, child *spawn.Child) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		for pause.For(ctx, 50*time.Millisecond) == nil {
			child.Continue()
		}
	}()
	return stop
}

// takeExisting returns a session's sandbox, or nil. The caller calls leave.
func (s *agentSandboxes) takeExisting(session agentSession) *agentSandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[session]
	if s.closed || one == nil || !one.zygote.Alive() {
		return nil
	}
	one.running++
	one.taken++
	return one
}

// sharedSockets is the program that hands out the sockets of one connection, and starts no command.
func sharedSockets() *spawn.Program {
	b := &builder{Program: spawn.NewProgram(16)}
	b.fd = b.Reg()
	b.HandSelf("process", b.Reg())
	b.dialer()
	b.Fork()
	b.Call("end", unix.SYS_EXIT_GROUP, none)
	return b.Program
}

func closeFiles(list []*os.File) {
	for _, f := range list {
		if f != nil {
			_ = f.Close()
		}
	}
}

// DialInside connects one of the sockets of [Sandboxes.Sockets] to a port of the sandbox's loopback addresses, and closes the
// others.
func DialInside(ctx context.Context, sockets []*os.File, port uint16) (net.Conn, error) {
	defer closeFiles(sockets)
	var failed error
	for _, f := range sockets {
		conn, err := dialInside(ctx.Done(), f, familyOf(f), port)
		if err == nil {
			return conn, nil
		}
		failed = cmp.Or(failed, err)
	}
	return nil, cmp.Or(failed, errors.New("no socket"))
}

// familyOf returns the family of a TCP socket; 0: it is none. Other programs of the sandbox might have sent it.
func familyOf(f *os.File) (family uint64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // the descriptor is open
		n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		protocol, perr := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if of := uint64(n); err == nil && perr == nil && protocol == unix.IPPROTO_TCP && slices.Contains(families(), of) { //nolint:gosec // a family is a small number
			family = of
		}
	})
	return family
}

// listening lists the ports at which programs listen in the network of a process, without those of Remit itself.
func listening(pid int) []uint16 {
	var out []uint16
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			continue // it has ended, or there is no IPv6
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if port, is := listener(lines.Text()); is && !ownPort(port) {
				out = append(out, port)
			}
		}
		_ = f.Close()
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// listener reads a line of /proc/net/tcp: its number, the local address, the remote one, and the state, which is 0A for a socket
// that listens.
func listener(line string) (uint16, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[3] != "0A" {
		return 0, false
	}
	_, port, _ := strings.Cut(fields[1], ":")
	n, err := strconv.ParseUint(port, 16, 16)
	return uint16(n), err == nil
}

// ownPort reports whether Remit itself may listen at a port of each sandbox.
func ownPort(port uint16) bool {
	return port == dnsPort || port == proxyPort || port >= firstPort && port <= lastPort
}
