package walk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/walk/walktest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBoundsOfMemoryAndFiles(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	if dir := os.Getenv("REMIT_TEST_REMOVE"); dir != "" {
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 400, Max: 400}))
		debug.SetMemoryLimit(16 << 20)
		must(t, walk.Remove(dir))
		return
	}
	dir := walktest.Hostile(t)
	down := func(ctx context.Context, at string, closed bool) (visited, deep int, err error) {
		root, err := os.OpenRoot(at)
		must(t, err)
		defer func() { must(t, root.Close()) }()
		w := walk.Walk{Top: at, Names: 2_000_000,
			Visit: func(*walk.Folder, string, fs.FileMode) (bool, error) { visited++; return true, nil },
			Skipped: func(at string, why error) {
				if errors.Is(why, walk.ErrDeep) {
					deep++
				} else if !closed {
					t.Errorf("%.100s was left out: %v", at, why)
				}
			}}
		err = w.Down(ctx, root)
		return visited, deep, err
	}
	for _, c := range walktest.Trees() {
		visited, deep, err := down(t.Context(), filepath.Join(dir, c.Name), c.Closed)
		must(t, err)
		if c.Names != 0 && visited != c.Names || (deep > 0) != c.Deep {
			t.Errorf("%s: %d names were visited, want %d; %d folders were too deep", c.Name, visited, c.Names, deep)
		}
	}
	walktest.Check(t, walktest.Bounds{MiB: 4, Files: 300}, func(ctx context.Context) error {
		_, _, err := down(ctx, dir, true)
		return err
	})
	remove(t, dir)
}

// A listing takes no more than its budget, and ends with its context.
func TestNames(t *testing.T) {
	dir := walktest.Folder(t)
	walktest.Crowd(t, dir, 600, 100, false)
	f, err := os.Open(dir)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	ended, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		b    walk.Budget
		want error
	}{
		"enough":         {t.Context(), walk.Budget{Names: 600, Bytes: 60_000}, nil},
		"too many names": {t.Context(), walk.Budget{Names: 599, Bytes: 60_000}, walk.ErrMany},
		"too many bytes": {t.Context(), walk.Budget{Names: 600, Bytes: 59_999}, walk.ErrMany},
		"no budget":      {t.Context(), walk.Budget{}, walk.ErrMany},
		"ended":          {ended, *walk.Most(), context.Canceled},
	} {
		_, err := f.Seek(0, io.SeekStart)
		must(t, err)
		names, err := walk.Names(c.ctx, f, &c.b)
		if !errors.Is(err, c.want) || len(names) > 600 {
			t.Errorf("%s: %d names, %v; want %v", name, len(names), err, c.want)
		}
		if c.want == nil && (len(names) != 600 || !slices.IsSorted(names) || c.b != walk.Budget{}) {
			t.Errorf("%s: %d names, and %+v is left", name, len(names), c.b)
		}
	}
}

// remove has a process of its own remove a folder, which may open few files.
func remove(t *testing.T, dir string) {
	t.Helper()
	outside := walktest.Folder(t)
	must(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o644))
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, "-test.run", "^TestBoundsOfMemoryAndFiles$")
	cmd.Env = append(os.Environ(), "REMIT_TEST_REMOVE="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "kept")); err != nil {
		t.Error(err)
	}
	use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if most := int64(64 << 20); !ok || runtime.GOOS == "linux" && use.Maxrss<<10 > most {
		t.Errorf("%+v, want at most %d bytes of memory", use, most)
	}
}

// A folder that is replaced by a link while the walk goes on does not lead outside.
func TestWalkOfAChangingFolder(t *testing.T) {
	dir, outside := walktest.Folder(t), walktest.Folder(t)
	must(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o644))
	for i := range 50 {
		must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint("d", i), "sub"), 0o755))
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer func() { must(t, root.Close()) }()
	w := walk.Walk{Top: dir, Names: 1000, Skipped: func(string, error) {}}
	w.Visit = func(in *walk.Folder, name string, _ fs.FileMode) (bool, error) {
		if name == "secret" {
			t.Error("the walk went outside")
		}
		at := filepath.Join(dir, in.Path, name)
		if strings.HasPrefix(name, "d") {
			must(t, os.Rename(at, at+".moved"))
			must(t, os.Symlink(outside, at))
		}
		return true, nil
	}
	must(t, w.Down(context.Background(), root))
}

func TestWalkStops(t *testing.T) {
	dir := walktest.Folder(t)
	walktest.Crowd(t, dir, 600, 5, false)
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer func() { must(t, root.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	visited := 0
	var why error
	w := walk.Walk{Top: dir, Names: 300, Skipped: func(_ string, err error) { why = err }}
	w.Visit = func(*walk.Folder, string, fs.FileMode) (bool, error) { visited++; return true, nil }
	if err := w.Down(ctx, root); err != nil || !errors.Is(why, walk.ErrMany) || visited > 300 {
		t.Errorf("%v, %v, %d names", err, why, visited)
	}
	w.Names = 1000
	w.Visit = func(*walk.Folder, string, fs.FileMode) (bool, error) { stop(); return true, nil }
	if err := w.Down(ctx, root); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	failed := errors.New("failed")
	w.Visit = func(*walk.Folder, string, fs.FileMode) (bool, error) { return true, failed }
	w.Names = 1000
	if err := w.Down(context.Background(), root); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
