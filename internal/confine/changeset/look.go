package changeset

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// looked is one name in both layers.
type looked struct {
	up, base       found
	upErr, baseErr error
	gone           error // the upper layer's name itself cannot be looked at
}

// bad says why the upper layer's side cannot be carried over, or "".
func (l *looked) bad() string {
	switch odd := suspect(&l.up.st); {
	case odd != "":
		return odd
	case l.up.mark != "":
		return l.up.mark
	case l.up.opaque:
		return "it carries a mark of the overlay that belongs on folders"
	case l.upErr != nil:
		return "it cannot be read: " + plain(l.upErr)
	case l.up.odd != "":
		return oddAttr(l.up.odd)
	}
	return ""
}

func oddAttr(name string) string {
	if name == "security.capability" {
		return "it has file capabilities"
	}
	return fmt.Sprintf("it has an extended attribute that is not carried over (%s)", quote(name))
}

const mountedThere = "another file system or folder is mounted there"

// isWhiteout: what overlayfs leaves where a name of the base is deleted.
func isWhiteout(st *unix.Stat_t) bool {
	return uint32(st.Mode)&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// look looks at the names of an open folder of the upper layer, some at a time:
// reading small files is mostly waiting for the system.
func (d *differ) look(rel string, upper, base int, list []string) []looked {
	out := make([]looked, len(list))
	each(len(list), 8, func(i int) { out[i] = d.lookAt(join(rel, list[i]), upper, base, list[i]) })
	return out
}

// each calls do for 0 to n-1 from a few goroutines, with at least few for each
// of them, and waits.
func each(n, few int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), 4, n/few)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

func (d *differ) lookAt(rel string, upper, base int, name string) (l looked) {
	if l.up.st, l.gone = statAt(upper, name); l.gone != nil {
		return l
	}
	if isWhiteout(&l.up.st) {
		return l // its content is looked at where it is deleted
	}
	r, then := d.then[rel]
	switch {
	case typeOf(&l.up.st) == Folder: // opened later
	case then && r.Held != nil && r.Refused == "" && *r.Held == keyOf(&l.up.st):
		l.up.Node = r.To
	default:
		l.upErr = l.up.fill(upper, name)
	}
	if base >= 0 {
		l.base, l.baseErr = d.there(rel, base, name)
	}
	return l
}

// there looks at a name of the base.
func (d *differ) there(rel string, base int, name string) (f found, err error) {
	f.st, err = statAt(base, name)
	if absent(err) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	if f.mounted = f.st.Dev != d.dev || mountOf(base, name) != d.mount; f.mounted {
		f.Node = Node{Type: typeOf(&f.st), Mode: uint32(f.st.Mode) & 0o7777}
		return f, nil // the run never saw it
	}
	if r, ok := d.then[rel]; ok && r.Was != nil && r.Refused == "" && *r.Was == keyOf(&f.st) {
		f.Node = r.From
		return f, nil
	}
	return f, f.fill(base, name)
}

// recorded is a change as the review wrote it down, with the keys by which a later
// change of either side shows.
type recorded struct {
	Change
	Was  *key `json:"was,omitempty"`
	Held *key `json:"held,omitempty"`
}

// known is what a review recorded, by path.
type known map[string]*recorded

// tick is more than the steps of any clock that a local file system stamps with.
const tick = 100 * time.Millisecond

// records prepares changes to be written down. A file of the workspace that was
// touched just before it was read could be touched again under the same stamp,
// so that it is read again; nobody writes to the upper layer any more.
func records(list []Change, read time.Time) []recorded {
	out := make([]recorded, len(list))
	for i, c := range list {
		r := recorded{Change: c}
		if c.was.Type == File && c.was.Changed%int64(time.Second) != 0 && c.was.Changed < read.Add(-tick).UnixNano() {
			r.Was = &c.was
		}
		if c.held.Type == File {
			r.Held = &c.held
		}
		out[i] = r
	}
	return out
}

func knownOf(list []recorded) known {
	out := make(known, len(list))
	for i := range list {
		out[list[i].Path] = &list[i]
	}
	return out
}
