package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/doors/hookrelay"
	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/service/home"
)

// Serve answers hooks and runs scripts until ctx ends, no call came for some time, or a newer process is
// needed. Hooks that it has read are answered before it returns. The end of ctx ends the scripts; a
// newer process is not kept waiting by them. Another keeper of the folder is fault.Conflict.
func (k *Keeper) Serve(ctx context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	unlock, err := k.lock()
	if err != nil {
		return err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	folder, err := os.Open(k.Home)
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%s cannot be opened: %v", k.Home, wholefile.Cause(err))
	}
	defer func() { _ = folder.Close() }()
	l, is, err := listen(folder)
	if err != nil {
		return fault.Wrap(fault.Usage, err, "the socket in %s cannot be made: %v", k.Home, err)
	}
	k.since = time.Now()
	k.last = k.since
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { k.watch(ctx, l, is, ended) })
	relay := hookrelay.Relay{
		Answer: k.answer, Admit: k.admit, Max: hookwire.MaxRequest, Time: hookwire.DecisionTime, Finish: true,
		Shell: func(conn *net.UnixConn, r hookwire.Request, files []int) { k.shell(running, conn, r, files) },
	}
	err = relay.Serve(l)
	close(ended)
	watch.Wait()
	if ctx.Err() == nil {
		unlock()
	}
	k.scripts.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fault.Wrap(fault.Internal, err, "the socket in %s failed: %v", k.Home, err)
}

// check refuses a folder that others can write to: they could answer in the keeper's place.
func (k *Keeper) check() (err error) {
	if k.program, err = hookwire.Identify("/proc/self/exe"); err != nil {
		return fault.Wrap(fault.Internal, err, "this program cannot be identified: %v", err)
	}
	if k.standing, err = standing("/proc/self"); err != nil {
		return fault.Wrap(fault.Internal, err, "this process cannot be described: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(k.Home, &st); err != nil {
		return fault.Wrap(fault.Usage, err, "%s cannot be used: %v", k.Home, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fault.New(fault.Usage, "%s belongs to another user, or others can write to it", k.Home).WithHint("chmod 700 %s", k.Home)
	}
	return nil
}

// lock takes the lock that only one keeper of a folder has, or checks that Lock has it.
func (k *Keeper) lock() (unlock func(), err error) {
	name := filepath.Join(k.Home, hookwire.LockFile)
	if k.Lock == nil {
		unlock, err = wholefile.TryLock(name)
		if err != nil {
			return nil, fault.Wrap(fault.StoreReadOnly, err, "%s cannot be locked: %v", name, wholefile.Cause(err))
		}
		if unlock != nil {
			return unlock, nil
		}
	} else if err = unix.Flock(int(k.Lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		is, ferr := k.Lock.Stat()
		if err = ferr; err == nil && same(name, is) {
			return func() { _ = k.Lock.Close() }, nil
		}
	}
	return nil, fault.Wrap(fault.Conflict, err, "another process is the keeper of %s", k.Home).WithHint("remit keeper status describes it")
}

// listen makes the socket. The lock is held, so a socket that is there is one of a dead keeper.
func listen(folder *os.File) (*net.UnixListener, os.FileInfo, error) {
	path := hookwire.KeeperSocket(int(folder.Fd()))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, wholefile.Cause(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	l.SetUnlinkOnClose(false) // it may be another keeper's by then
	err = os.Chmod(path, 0o600)
	is, serr := os.Lstat(path)
	if err = errors.Join(err, serr); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, is, nil
}

// watch closes the listener when the keeper has to end.
func (k *Keeper) watch(ctx context.Context, l *net.UnixListener, socket os.FileInfo, ended <-chan struct{}) {
	tick := time.NewTicker(k.Look)
	defer tick.Stop()
	path := filepath.Join(k.Home, filepath.Base(hookwire.KeeperSocket(0)))
	for done := false; !done; {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			done = true
		case <-tick.C:
			done = k.idle() || k.replaced() || !same(path, socket)
		}
	}
	if same(path, socket) {
		_ = os.Remove(path) // clients find out in any case
	}
	_ = l.Close() // Serve reports errors of the listener
}

// same reports whether a file is still at its path.
func same(path string, is os.FileInfo) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, is)
}

// replaced reports whether a process that starts now would be another program, or have another home.
func (k *Keeper) replaced() bool {
	exe, err := os.Executable()
	if err != nil {
		return true
	}
	now, err := hookwire.Identify(exe)
	return err != nil || now != k.program || k.Stale()
}

func (k *Keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now == 0 && k.Kept() == 0 && time.Since(k.last) >= k.Idle
}

// answer answers one request. It declines what a process of the client's own could decide otherwise.
func (k *Keeper) answer(ctx context.Context, r hookwire.Request) (out hookwire.Answer) {
	switch {
	case r.Port:
		return k.port(ctx, r)
	case len(r.Args) == 0 && r.Program == "":
		return k.status()
	}
	k.begin(false)
	defer func() {
		if recover() != nil {
			out = hookwire.Answer{Decline: true}
		}
		k.end(false, out.Decline)
	}()
	if !k.takes(r) {
		return hookwire.Answer{Decline: true}
	}
	return k.Answer(ctx, r)
}

// takes reports whether a process of the client's own would be this program, with the same home.
func (k *Keeper) takes(r hookwire.Request) bool {
	env := home.Lookup(r.Env)
	dir, _ := env("REMIT_HOME") // a relative one is relative to the folder of the client
	return r.Program == k.program && filepath.IsAbs(r.Dir) && (dir == "" || filepath.IsAbs(dir)) && hookwire.SameProcess(env, k.Env) && !k.replaced()
}

// begin counts a call, and reports whether it may run.
func (k *Keeper) begin(shell bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now++
	if shell {
		k.shells++
	}
	return k.shells <= mostScripts
}

func (k *Keeper) end(shell, declined bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now--
	if shell {
		k.shells--
	}
	k.last = time.Now()
	if declined {
		k.declined++
	} else {
		k.calls++
	}
}

// status answers a request without arguments.
func (k *Keeper) status() hookwire.Answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := json.Marshal(Status{PID: os.Getpid(), Version: k.Version, Since: k.since.UTC().Truncate(time.Second), Calls: k.calls, Declined: k.declined, Sandboxes: k.Kept()})
	return hookwire.Answer{Out: b, Decline: err != nil}
}

// Ask returns the status of a folder's keeper. Without one the error is fault.NotFound.
func Ask(ctx context.Context, dir string) (s Status, err error) {
	a, err := ask(ctx, dir, hookwire.Request{})
	if err == nil {
		err = json.Unmarshal(a.Out, &s)
	}
	return s, err
}

// ask sends a request to the keeper of a folder.
func ask(ctx context.Context, dir string, q hookwire.Request) (hookwire.Answer, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return hookwire.Answer{}, none(dir, err)
	}
	defer func() { _ = folder.Close() }()
	a, err := hookrelay.Forward(ctx, hookwire.KeeperSocket(int(folder.Fd())), q)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return a, none(dir, err)
	}
	return a, err
}

func none(dir string, err error) error {
	return fault.Wrap(fault.NotFound, err, "no keeper of %s is running", dir)
}

// Stop ends the keeper of a folder, and returns when it has ended.
func Stop(ctx context.Context, dir string) (Status, error) {
	s, err := Ask(ctx, dir)
	if err != nil {
		return s, err
	}
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil {
		return s, fault.Wrap(fault.Internal, err, "the keeper, process %d, cannot be stopped: %v", s.PID, err)
	}
	for {
		unlock, err := wholefile.TryLock(filepath.Join(dir, hookwire.LockFile))
		if unlock != nil {
			unlock()
		}
		if unlock != nil || err != nil {
			return s, err
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return s, fault.Wrap(fault.ToolTimeout, err, "the keeper, process %d, has not ended yet", s.PID)
		}
	}
}
