//go:build linux && (amd64 || arm64)

package linux

import (
	"sync"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// spares are sandboxes made ahead: new namespaces with the system in them, which
// nothing has run in and which hold nothing of any policy's files. Each is used
// once, by a command whose program begins with exactly the same calls. The policy's files
// are added then, as in any other sandbox.
type spares struct {
	mu     sync.Mutex
	closed bool
	ran    bool // the first command was alone with its sandbox: there may be no second
	ready  []spare
	coming int // are being made
	timer  *time.Timer
	making sync.WaitGroup
}

type spare struct {
	head  string // the calls that it has done
	child *spawn.Child
	by    *spawn.Spawner
}

// maxSpares bounds how many wait, spareTime how long.
const (
	maxSpares = 2
	spareTime = 15 * time.Second
)

// start starts a command in a spare if there is one that fits, and has another
// one made meanwhile.
func (s *spares) start(sp *spawn.Spawner, p *spawn.Program, files [3]int) (*spawn.Child, error) {
	child, refill, err := s.prepared(sp, p)
	defer refill()
	if err != nil {
		return nil, err
	}
	if err := child.Resume(p, files); err != nil {
		child.Kill()
		child.Wait()
		return nil, err
	}
	return child, nil
}

// prepared gives a sandbox in which the head of p is done. The caller
// calls refill once p is no longer in use, which has another one made meanwhile.
func (s *spares) prepared(sp *spawn.Spawner, p *spawn.Program) (child *spawn.Child, refill func(), err error) {
	head := string(p.Head())
	child, more := s.take(sp, head)
	refill = func() {
		if more {
			s.refill(sp, p, head)
		}
	}
	if child == nil {
		child, err = sp.Prepare(p, cloneFlags)
	}
	return child, refill, err
}

// take gives a spare that fits, or nil, and says whether to make one.
func (s *spares) take(sp *spawn.Spawner, head string) (fits *spawn.Child, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.ready[:0]
	var old []spare
	for _, one := range s.ready {
		switch {
		case one.by != sp || one.head != head:
			old = append(old, one)
		case fits == nil:
			fits = one.child
		default:
			kept = append(kept, one)
		}
	}
	s.ready = kept
	more = s.ran && !s.closed && len(kept)+s.coming < maxSpares
	s.ran = true
	s.drop(old)
	return fits, more
}

// refill makes a spare in the background.
func (s *spares) refill(sp *spawn.Spawner, p *spawn.Program, head string) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.coming++
	s.making.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.making.Done()
		child, err := sp.Prepare(p, cloneFlags)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.coming--
		if err != nil {
			return // the next command has a sandbox made for it, and its error names the fault
		}
		if s.closed || len(s.ready) >= maxSpares {
			s.drop([]spare{{child: child}})
			return
		}
		s.ready = append(s.ready, spare{head: head, child: child, by: sp})
		if s.timer == nil {
			s.timer = time.AfterFunc(spareTime, s.expire)
		}
		s.timer.Reset(spareTime)
	}()
}

// drop ends spares. It is called with the lock held.
func (s *spares) drop(list []spare) {
	for _, one := range list {
		s.making.Add(1)
		go func() {
			defer s.making.Done()
			one.child.Drop()
		}()
	}
}

// expire ends spares that nobody needed for a while.
func (s *spares) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.drop(s.ready)
		s.ready = nil
	}
}

// close ends all spares and waits for unfinished ones.
func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.drop(s.ready)
	s.ready = nil
	s.mu.Unlock()
	s.making.Wait()
}
