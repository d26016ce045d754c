package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// port answers a request of remit port: the list of sessions, or the sockets of one connection to one of them. Its status is not 0
// if the session has no sandbox.
func (k *Keeper) port(ctx context.Context, r hookwire.Request) (a hookwire.Answer) {
	defer func() {
		if recover() != nil {
			a = hookwire.Answer{Decline: true}
		}
	}()
	if len(r.Args) == 0 {
		b, err := json.Marshal(k.Open())
		return hookwire.Answer{Out: b, Decline: err != nil}
	}
	if len(r.Args) != 2 {
		return hookwire.Answer{Decline: true}
	}
	files, err := k.Sockets(ctx, r.Args[0], r.Args[1])
	if err != nil {
		return hookwire.Answer{Status: 1, Err: []byte(fault.Message(err))}
	}
	for _, f := range files {
		fd, derr := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if derr == nil {
			a.Files = append(a.Files, fd)
		}
		err = errors.Join(err, derr, f.Close())
	}
	if err != nil {
		closeAll(a.Files)
		return hookwire.Answer{Status: 1, Err: []byte(err.Error())}
	}
	return a
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}

// Sessions lists the sandboxes that the keeper of a folder has for sessions of agents, the last used first. Without a keeper the
// error is fault.NotFound.
func Sessions(ctx context.Context, dir string) (list []sandbox.OpenSession, err error) {
	a, err := ask(ctx, dir, hookwire.Request{Port: true})
	if err == nil {
		err = json.Unmarshal(a.Out, &list)
	}
	return list, err
}

// Dialer returns a function that connects to a port of the loopback addresses in a session's sandbox. Without a keeper, or without
// that sandbox, the function's error is fault.NotFound.
func Dialer(dir string, in sandbox.OpenSession, port uint16) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		made, err := sockets(ctx, dir, in)
		if err != nil {
			return nil, err
		}
		return linux.DialInside(ctx, made, port)
	}
}

// sockets makes the sockets of one connection in the network of a session's sandbox.
func sockets(ctx context.Context, dir string, in sandbox.OpenSession) (out []*os.File, err error) {
	ctx, stop := context.WithTimeout(ctx, hookwire.AnswerTime)
	defer stop()
	a, err := ask(ctx, dir, hookwire.Request{Port: true, Args: []string{in.ID, in.Workspace}})
	if err == nil && (a.Status != 0 || len(a.Files) == 0) {
		err = fault.New(fault.NotFound, "%s", string(a.Err))
	}
	if err != nil {
		closeAll(a.Files)
		return nil, err
	}
	for _, fd := range a.Files {
		out = append(out, os.NewFile(uintptr(fd), "socket"))
	}
	return out, nil
}
