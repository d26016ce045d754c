//go:build linux && (amd64 || arm64)

package supervisor

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiver is a thread that receives calls and answers them, one after the other. There is one at a time: a
// call wakes every thread that waits for one, which doubles the time of an answer. A receiver that is slow is
// relieved.
type receiver struct {
	turn  atomic.Uint64 // odd: it answers a call
	files statusFiles
}

const (
	slow         = 5 * time.Millisecond // an answer that takes longer keeps no other call waiting
	maxReceivers = 16
	quiet        = 40 // how often the supervisor looks at a receiver without a call before it stops looking
)

// receive answers calls on a thread without privileges, until the thread is relieved or nothing can come. It calls
// begun once it is the receiver.
func (s *Supervisor) receive(begun func()) error {
	defer s.receivers.Add(-1)
	return unprivileged(func() {
		r := &receiver{files: statusFiles{}}
		defer r.files.end()
		s.receiver.Store(r)
		begun()
		undisturbed(func(usual *unix.Sigset_t) { s.serve(r, usual) })
	})
}

func (s *Supervisor) serve(r *receiver, usual *unix.Sigset_t) {
	tid := unix.Gettid()
	s.mu.Lock()
	s.threads[tid] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.threads, tid)
		s.mu.Unlock()
	}()
	poll := []unix.PollFd{{Fd: int32(s.listener.file.Fd()), Events: unix.POLLIN}, {Fd: int32(s.wakeup), Events: unix.POLLIN}}
	for !s.over.Load() && s.receiver.Load() == r {
		if waitForEvent(poll, usual) != 0 {
			continue // a signal
		}
		if poll[0].Revents&unix.POLLHUP != 0 && poll[0].Revents&unix.POLLIN == 0 && poll[1].Revents == 0 { // POLLERR: a signal disturbed the look
			return // all processes are gone
		}
		r.turn.Add(1)
		s.lookAfter()
		s.next(r, poll[1].Revents != 0)
		r.turn.Add(1)
	}
}

// waitForEvent waits for an event. Only meanwhile, other signals are blocked than before. (unix.Ppoll gives the kernel no
// size of the signal set.)
func waitForEvent(poll []unix.PollFd, blocked *unix.Sigset_t) unix.Errno {
	const setSize = 8
	_, _, errno := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll[0])), uintptr(len(poll)), 0, uintptr(unsafe.Pointer(blocked)), setSize, 0)
	return errno
}

// next answers a call that was approved, or a new one.
func (s *Supervisor) next(r *receiver, approved bool) {
	if approved {
		if c := s.takeAnew(); c != nil {
			c.files = r.files
			c.carryOut()
		}
		return
	}
	var n Notification
	if s.listener.receive(&n) == 0 {
		s.answer(&n, r.files)
	}
}

// lookAfter has the receiver relieved when it is slow.
func (s *Supervisor) lookAfter() {
	if !s.looking.Load() && s.looking.CompareAndSwap(false, true) {
		s.running.Go(s.look)
	}
}

// look looks at the receiver again and again, and relieves it when it is at the same call twice. It ends some time after
// the last call.
func (s *Supervisor) look() {
	tick := time.NewTicker(slow)
	defer tick.Stop()
	var last *receiver
	var turn uint64
	for same := 0; !s.over.Load(); same++ {
		<-tick.C
		r := s.receiver.Load()
		if now := r.turn.Load(); r != last || now != turn {
			last, turn, same = r, now, 0
			continue
		}
		switch {
		case turn%2 == 1:
			_ = s.relieve() // without a thread, calls only wait longer
		case same >= quiet:
			s.looking.Store(false)
			if r.turn.Load() == turn || !s.looking.CompareAndSwap(false, true) {
				return
			}
		}
	}
}

// relieve makes another thread the receiver, if not too many are slow already.
func (s *Supervisor) relieve() error {
	if s.receivers.Add(1) > maxReceivers {
		s.receivers.Add(-1)
		return nil
	}
	begun := make(chan error, 2)
	s.running.Go(func() { begun <- s.receive(func() { begun <- nil }) })
	return <-begun
}
