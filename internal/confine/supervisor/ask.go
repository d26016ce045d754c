//go:build linux && (amd64 || arm64)

package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Ask is an error of [Decide]: the decision takes time, as that of a person does. Only the call waits
// for it, not the threads that answer other calls.
//
// After an approval the call begins anew: its path may lead to another file by then. Decide is called
// again for each of its requests. If it returns an Ask about the same for a request that was approved for this call, the
// request is allowed. Another request, and another Ask about it, is asked about in turn.
type Ask struct {
	About string // the part of the request that needs approval; a request can have several

	// Wait returns nil if the request is approved. ctx ends when nobody waits for the answer: the process
	// was killed, or the supervisor stops. Wait must return then.
	Wait func(ctx context.Context) error
}

// Error implements error.
func (*Ask) Error() string { return "the request needs approval" }

const (
	maxAsking    = 1000                   // calls that wait for approval, of one supervisor
	maxQuestions = 4                      // of one call
	maxWaiting   = 250                    // calls that wait on threads of their own, of one supervisor
	maxTogether  = 500                    // and of all: without a thread, the whole program would end
	lookInterval = 100 * time.Millisecond // how often the supervisor looks whether a process still waits
)

var (
	errManyAsking = errors.New("too many calls wait for approval")
	errChanging   = errors.New("the path led to another file after each approval")
)

// question is a request that waits for approval.
type question struct {
	about Request
	ask   *Ask
}

// of reports whether an answer to the question is one about a request.
func (q question) of(r Request, ask *Ask) bool { return q.ask.About == ask.About && r.alike(q.about) }

// await asks the question of a call, and has the call begin anew when it is approved. It does not wait.
func (c *call) await() {
	q := c.question
	refuse := func(err error) {
		c.Denied(q.about, err)
		c.listener.fail(c.n, unix.EACCES)
	}
	switch {
	case len(c.approved) == maxQuestions:
		refuse(errChanging)
		return
	case c.asking.Add(1) > maxAsking:
		c.asking.Add(-1)
		refuse(errManyAsking)
		return
	}
	n := *c.n
	next := &call{Supervisor: c.Supervisor, n: &n, root: c.root, approved: append(slices.Clip(c.approved), q)}
	c.n = &n
	c.running.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		defer c.whenGone(&n, cancel)()
		err := q.ask.Wait(ctx)
		if ctx.Err() == nil && err == nil {
			c.beginAnew(next)
			return
		}
		c.asking.Add(-1)
		if ctx.Err() != nil {
			c.listener.fail(&n, unix.EINTR)
		} else {
			refuse(err)
		}
	})
}

// beginAnew hands a call to one of the answering threads.
func (s *Supervisor) beginAnew(c *call) {
	s.anew <- c                         // it has room for all that are counted in asking
	one := [8]byte{1}                   // both architectures are little-endian
	_, _ = unix.Write(s.wakeup, one[:]) // it holds far more than there can be calls
}

// takeAnew returns a call that was approved, or nil.
func (s *Supervisor) takeAnew() *call {
	var count [8]byte
	if _, err := unix.Read(s.wakeup, count[:]); err != nil {
		return nil // another thread has it
	}
	s.asking.Add(-1)
	return <-s.anew
}

// whenGone has gone called, maybe more than once, when the process of a call no longer waits or the
// supervisor stops. remove ends that.
func (s *Supervisor) whenGone(n *Notification, gone func()) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched == nil {
		s.watched = map[*Notification]func(){}
		s.running.Go(s.watch)
	}
	s.watched[n] = gone
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watched, n)
	}
}

// watch looks after the calls of whenGone until there are none.
func (s *Supervisor) watch() {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for range tick.C {
		s.mu.Lock()
		for n, gone := range s.watched {
			if s.over.Load() || !s.listener.valid(n) {
				gone()
			}
		}
		none := len(s.watched) == 0
		if none {
			s.watched = nil
		}
		s.mu.Unlock()
		if none {
			return
		}
	}
}

// together has a place for each call of all supervisors that waits on a thread of its own.
var together = make(chan struct{}, maxTogether)

// enter counts a call that is about to wait, if not too many do.
func (s *Supervisor) enter() (leave func(), ok bool) {
	if s.waiting.Add(1) <= maxWaiting {
		select {
		case together <- struct{}{}:
			return func() { s.waiting.Add(-1); <-together }, true
		default:
		}
	}
	s.waiting.Add(-1)
	return nil, false
}

// apart goes on with a call that may wait for long, on a thread of its own. do is repeated while signals
// interrupt it.
func (c *call) apart(do func(c *call) (int, unix.Errno)) (int, unix.Errno) {
	leave, ok := c.enter()
	if !ok {
		return -1, unix.ENFILE
	}
	n := *c.n
	after := &call{Supervisor: c.Supervisor, n: &n, root: c.root, opened: c.opened, early: c.early, files: statusFiles{}}
	c.opened = nil
	c.running.Go(func() {
		defer leave()
		defer after.end()
		defer after.files.end()
		fd, errno := -1, unix.EINTR
		err := unprivileged(func() {
			tid := unix.Gettid()
			defer c.whenGone(&n, func() { interrupt(tid) })()
			for errno == unix.EINTR && !c.over.Load() && c.listener.valid(&n) {
				fd, errno = do(after)
			}
			undisturbed(func(*unix.Sigset_t) { after.finish(fd, errno) })
		})
		if err != nil {
			c.listener.fail(&n, errnoOf(err))
		}
	})
	return -1, errLater
}

// Errors that are no answer: the call is answered later, or when its question was answered.
const (
	errLater = unix.Errno(1<<16 + iota)
	errAsk
)
