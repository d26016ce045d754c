package walktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// Bounds limit the memory and the open files of a walk at any time.
type Bounds struct {
	MiB   int // of the heap
	Files int // that are open
}

// soon is how often a walk may ask a context that has ended.
const soon = 5

// Check runs a walk twice. The first must stay within the bounds and close all files. The
// second has a context that ends under way: the walk must return its error, and ask the
// context at most a few times more.
func Check(t *testing.T, b Bounds, walk func(ctx context.Context) error) {
	t.Helper()
	looks := measure(t, b, walk)
	if looks < 8 {
		t.Errorf("the walk asked its context %d times", looks)
		return
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	over := 0
	c := &watched{Context: ctx, look: func(n int) {
		if n == looks/8 {
			stop()
		}
		if n > looks/8 {
			over++
		}
	}}
	if err := walk(c); !errors.Is(err, context.Canceled) || over > soon {
		t.Errorf("the context ended under way: got %v after %d further looks at it", err, over)
	}
}

// Ends runs a walk again and again: its context ends when it is asked the first time, the
// second time, and so on, until the walk is over first. Each that was ended must say so.
func Ends(t *testing.T, walk func(ctx context.Context) error) {
	t.Helper()
	for at := 1; ; at++ {
		ctx, stop := context.WithCancel(t.Context())
		c := &watched{Context: ctx, look: func(n int) {
			if n == at {
				stop()
			}
		}}
		err := walk(c)
		over := ctx.Err() == nil
		stop()
		if over {
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended when it was asked for the %dth time: got %v", at, err)
		}
	}
}

// measure runs a walk and checks what it uses. It gives how often the context was asked.
func measure(t *testing.T, b Bounds, walk func(ctx context.Context) error) int {
	t.Helper()
	c := &watched{Context: t.Context()}
	m := meter(t)
	c.look = func(n int) {
		if n%100 == 0 {
			m.look(t)
		}
	}
	err := walk(c)
	m.end(t, b)
	if err != nil {
		t.Errorf("the walk failed: %v", err)
	}
	return c.asked
}

// Uses runs a walk without a context, or a short one, and checks its memory and files at the end.
func Uses(t *testing.T, b Bounds, walk func()) {
	t.Helper()
	m := meter(t)
	walk()
	m.end(t, b)
}

// measured is the memory and the open files of a walk.
type measured struct {
	gc                     int
	heap, most             int64
	files, mostFiles, left int
}

func meter(t testing.TB) *measured {
	gc := debug.SetGCPercent(25)
	runtime.GC()
	m := &measured{gc: gc, heap: heap(), files: openFiles(t)}
	m.look(t)
	return m
}

func (m *measured) look(t testing.TB) {
	m.left = openFiles(t) - m.files
	m.most, m.mostFiles = max(m.most, heap()-m.heap), max(m.mostFiles, m.left)
}

func (m *measured) end(t *testing.T, b Bounds) {
	t.Helper()
	m.look(t)
	debug.SetGCPercent(m.gc)
	if used := m.most >> 20; used > int64(b.MiB) && !racetest.On() {
		t.Errorf("%d MiB were in use; want at most %d", used, b.MiB)
	}
	if m.mostFiles > b.Files {
		t.Errorf("%d files were open; want at most %d", m.mostFiles, b.Files)
	}
	if m.left > 0 {
		t.Errorf("%d files stay open", m.left)
	}
}

// watched tells of each time that somebody asks whether it has ended.
type watched struct {
	context.Context
	mu    sync.Mutex
	asked int
	look  func(n int)
}

func (w *watched) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.look(w.asked)
	return w.Context.Err()
}

// Swapping gives a folder with folders in which, each time that a walk asks the context,
// one is replaced by a link to a folder outside, or put back. Outside is a folder "secret" with a file "secret".
func Swapping(t testing.TB) (dir string, ctx context.Context) {
	t.Helper()
	dir, outside := Folder(t), Folder(t)
	must(t, errors.Join(os.Mkdir(filepath.Join(outside, "secret"), 0o755), os.WriteFile(filepath.Join(outside, "secret", "secret"), nil, 0o644)))
	const folders = 50
	for i := range folders {
		must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("d%02d", i), "sub"), 0o755))
	}
	return dir, &watched{Context: t.Context(), look: func(n int) {
		at := filepath.Join(dir, fmt.Sprintf("d%02d", n/2%folders))
		if os.Remove(at) == nil { // it was the link
			must(t, os.Rename(at+".moved", at))
			return
		}
		must(t, errors.Join(os.Rename(at, at+".moved"), os.Symlink(outside, at)))
	}}
}

// heap is how many bytes of the heap are in use.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

func openFiles(t testing.TB) int {
	t.Helper()
	f, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0 // not on this system
	}
	defer func() { _ = f.Close() }() // only read
	names, err := f.Readdirnames(-1)
	must(t, err)
	return len(names)
}
