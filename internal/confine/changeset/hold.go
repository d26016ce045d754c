package changeset

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// Hold is a changeset while its run goes on: what the run's calls see instead of
// the workspace. The kernel does not let two overlays share an upper layer, so
// that in-process tools (any number at a time) and confined commands (each
// alone) take turns. Close it when the run is over.
type Hold struct {
	set   *Set
	meter *meter
	mount func(lower, upper, work string) (int, error)

	mu    sync.Mutex
	turn  *sync.Cond
	root  int // of the mounted overlay, or -1
	users int
	alone bool
	over  bool
}

// Hold opens the changeset to the run's calls. mount puts the layers together
// and gives the root of what they show.
func (s *Set) Hold(mount func(lower, upper, work string) (int, error)) *Hold {
	_, upper, _ := s.Layers()
	h := &Hold{set: s, mount: mount, root: -1, meter: &meter{upper: upper}}
	h.turn = sync.NewCond(&h.mu)
	return h
}

// Bound limits how many bytes the run may hold; 0 means no limit. It is called
// before the run's first call.
func (h *Hold) Bound(bytes int64) { h.meter.limit = bytes }

// Room fails with fault.LimitReached if the run holds too much for n more bytes.
func (h *Hold) Room(ctx context.Context, n int64) error { return h.meter.room(ctx, n) }

func (h *Hold) closed() error {
	return fault.New(fault.HandleRefused, "the run whose changes are held is over")
}

// Enter gives the folder that stands for the workspace, until leave is called.
// It may be entered again before that.
func (h *Hold) Enter(ctx context.Context) (root int, leave func(), err error) {
	defer context.AfterFunc(ctx, h.wake)()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.alone && !h.over {
		if ctx.Err() != nil {
			return -1, nil, cancelled(ctx)
		}
		h.turn.Wait()
	}
	if h.over {
		return -1, nil, h.closed()
	}
	if h.root < 0 {
		h.set.unmark()
		if h.root, err = h.mount(h.set.Layers()); err != nil {
			h.root = -1
			return -1, nil, err
		}
	}
	h.users++
	return h.root, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.users--
		h.turn.Broadcast()
	}), nil
}

// Alone gives the layers to somebody who mounts them elsewhere, once nobody
// else uses them, until leave is called.
func (h *Hold) Alone(ctx context.Context) (lower, upper, work string, leave func(), err error) {
	defer context.AfterFunc(ctx, h.wake)()
	h.mu.Lock()
	defer h.mu.Unlock()
	for (h.alone || h.users > 0) && !h.over && ctx.Err() == nil {
		h.turn.Wait()
	}
	if ctx.Err() != nil {
		return "", "", "", nil, cancelled(ctx)
	}
	if h.over {
		return "", "", "", nil, h.closed()
	}
	h.unmount()
	h.set.unmark()
	h.alone = true
	lower, upper, work = h.set.Layers()
	return lower, upper, work, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.alone = false
		h.turn.Broadcast()
	}), nil
}

func cancelled(ctx context.Context) error {
	return fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "cancelled while another call used the held changes")
}

func (h *Hold) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn.Broadcast()
}

// unmark takes away the mark of a volatile overlay that was mounted before: its
// upper layer is whole as long as the machine has not crashed, and after a
// crash the run that wrote it is over.
func (s *Set) unmark() {
	_, _, work := s.Layers()
	mark := work
	for _, name := range []string{"work", "incompat", "volatile"} {
		mark = filepath.Join(mark, name)
		if os.Chmod(mark, 0o700) != nil { // the kernel gives them no permissions at all
			return // there is no mark; if there is one, the mount fails and says so
		}
	}
	_, _ = unix.Unlink(filepath.Join(mark, "dirty")), unix.Rmdir(mark)
}

func (h *Hold) unmount() {
	if h.root >= 0 {
		_ = unix.Close(h.root) // nothing was written through it
		h.root = -1
	}
}

// Close waits for those who use the layers and takes them away.
func (h *Hold) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.turn.Broadcast()
	for h.users > 0 || h.alone {
		h.turn.Wait()
	}
	h.unmount()
}
