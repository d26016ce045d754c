//go:build linux && (amd64 || arm64)

package supervisor

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// idle are threads without privileges that wait for something to do.
var idle = make(chan chan func(), 4*maxTogether)

// unprivileged does something on a thread that has no privileges, and a umask of its own, and waits for its
// end. Such a thread never ends: Go may have started a process on it before, which the kernel is to kill
// when the thread that started it ends (PR_SET_PDEATHSIG of prctl(2)).
func unprivileged(do func()) error {
	var thread chan func()
	select {
	case thread = <-idle:
	default:
		thread = make(chan func())
		ready := make(chan error)
		go serveThread(thread, ready)
		if err := <-ready; err != nil {
			return err
		}
	}
	done := make(chan struct{})
	thread <- func() { defer close(done); do() }
	<-done
	select {
	case idle <- thread:
	default: // it waits for ever: so many never work at once
	}
	return nil
}

// serveThread gives up the privileges of its thread, and does what comes.
func serveThread(thread <-chan func(), ready chan<- error) {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = dropPrivileges()
	}
	ready <- err
	for do := range thread { // after an error nobody sends
		do()
	}
}

// interrupting is a signal that nothing else uses. Go has a handler for it, which does nothing.
const interrupting = unix.Signal(62)

// prepareToInterrupt has the handler end a system call, with EINTR. The kernel restarts one that Go's
// handlers interrupt.
var prepareToInterrupt = sync.OnceFunc(func() {
	const saRestart, setSize = 0x10000000, 8
	var action struct{ handler, flags, restorer, mask uint64 } // struct sigaction of the kernel
	if _, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(interrupting), 0, uintptr(unsafe.Pointer(&action)), setSize, 0, 0); errno != 0 {
		panic("the arguments are fixed: any test finds it")
	}
	action.flags &^= saRestart
	_, _, _ = unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(interrupting), uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0) // the same call succeeded
})

// interrupt ends the system call that a thread waits in.
func interrupt(tid int) {
	prepareToInterrupt()
	_ = unix.Tgkill(os.Getpid(), tid, interrupting) // it may have ended
}
