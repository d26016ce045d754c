package changeset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// meter bounds an upper layer. To count it takes a look at every
// file, so that between two counts the file system's free space tells whether
// there can have been enough writing for another.
type meter struct {
	upper string
	limit int64 // bytes; 0: none

	mu      sync.Mutex
	counted time.Time
	took    time.Duration
	used    int64 // bytes, at the last count
	names   int
	free    int64 // bytes of the file system, at the last count
	noted   int64 // bytes announced since
}

// rest is how long a count is good for, in the time that it took and at least.
const (
	restTimes = 20
	restLeast = time.Second
)

// room fails if n more bytes would be too many.
func (m *meter) room(ctx context.Context, n int64) error {
	if m.limit <= 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var fs unix.Statfs_t
	if err := unix.Statfs(m.upper, &fs); err != nil {
		return fault.Wrap(fault.StoreFailed, err, "what the run holds cannot be measured: %s", plain(err))
	}
	free := int64(fs.Bavail) * int64(fs.Bsize)
	may := m.used + max(m.free-free, m.noted) + n
	since := time.Since(m.counted)
	old := n == 0 && since > max(restLeast, restTimes*m.took) // others' files that went may hide what came
	if m.counted.IsZero() || old || may > m.limit && (n > 0 || since > 2*m.took) {
		if err := m.count(ctx, free); err != nil {
			return err
		}
	}
	if n == 0 && m.used > m.limit || n > 0 && m.used+m.noted+n > m.limit {
		return fault.New(fault.LimitReached, "disk limit %s reached", bytesOf(m.limit)).
			WithHint("that is how much a run may hold; commands.disk in the policy sets it")
	}
	if m.names > maxChanges {
		return fault.New(fault.LimitReached, "disk limit of %d names reached", maxChanges)
	}
	m.noted += n
	return nil
}

// count looks at everything in the layer. Where a folder keeps its owner from
// looking, what the file system lost since counts as well.
func (m *meter) count(ctx context.Context, free int64) error {
	begun := time.Now()
	w := usage{seen: map[[2]uint64]bool{}}
	root, err := os.OpenRoot(m.upper)
	if err == nil {
		err = w.add(ctx, root)
		_ = root.Close() // it was only read
	}
	if err != nil && errors.Is(err, ctx.Err()) {
		return cancelled(ctx)
	}
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "what the run holds cannot be measured: %s", plain(err))
	}
	if w.hidden {
		w.bytes = max(w.bytes, m.used+max(m.free-free, m.noted))
	}
	m.counted, m.took = time.Now(), time.Since(begun)
	m.used, m.names, m.free, m.noted = w.bytes, w.names, free, 0
	return nil
}

// usage adds up a tree.
type usage struct {
	bytes  int64
	names  int
	hidden bool // something could not be looked at
	seen   map[[2]uint64]bool
}

// add looks at one name more than a layer may have: room refuses that.
func (u *usage) add(ctx context.Context, root *os.Root) error {
	w := walk.Walk{Names: maxChanges, Visit: u.visit, Skipped: u.skipped}
	err := w.Down(ctx, root)
	u.names = maxChanges - w.Names
	return err
}

func (u *usage) skipped(_ string, why error) { u.hidden = u.hidden || !absent(why) }

func (u *usage) visit(in *walk.Folder, name string, _ fs.FileMode) (enter bool, err error) {
	dir, err := in.Dir()
	var st unix.Stat_t
	if err == nil {
		st, err = statAt(int(dir.Fd()), name)
	}
	if err != nil {
		u.skipped(name, err)
		return false, nil
	}
	if id := [2]uint64{uint64(st.Dev), st.Ino}; st.Nlink > 1 && typeOf(&st) == File {
		if u.seen[id] {
			return false, nil
		}
		u.seen[id] = true
	}
	u.bytes += st.Blocks * 512
	return true, nil
}

func bytesOf(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
