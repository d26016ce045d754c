package walk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// nest makes folders in each other, and a file in the last.
func nest(t *testing.T, dir, name string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, errors.Join(err, unix.Close(at)))
		at = next
	}
	fd, err := unix.Openat(at, "last", unix.O_WRONLY|unix.O_CREAT, 0o644)
	must(t, errors.Join(err, unix.Close(fd), unix.Close(at)))
}

// crowd makes many names of a length in one folder.
func crowd(t *testing.T, dir string, names, bytes int, folders bool) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for i := range names {
		name := fmt.Sprintf("%0*d", bytes, i)
		if folders {
			must(t, unix.Mkdirat(at, name, 0o755))
			continue
		}
		fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT, 0o644)
		must(t, errors.Join(err, unix.Close(fd)))
	}
	must(t, unix.Close(at))
}

// tree is what somebody left in a folder.
type tree struct {
	fill   func(t *testing.T, dir string)
	names  int  // that are visited; 0: not counted
	deep   bool // some is not reached
	closed bool // some cannot be read by an ordinary user
}

func trees() map[string]tree {
	many, levels := 20_000, 2100
	if os.Getenv("REMIT_SOAK") != "" {
		many, levels = 1_000_000, 10_000
	}
	long := strings.Repeat("n", 255)
	return map[string]tree{
		"empty":                {fill: func(*testing.T, string) {}},
		"as deep as a path":    {fill: func(t *testing.T, dir string) { nest(t, dir, "d", 1800) }, names: 1801},
		"short and deep":       {fill: func(t *testing.T, dir string) { nest(t, dir, "d", levels) }, deep: true},
		"long and deep":        {fill: func(t *testing.T, dir string) { nest(t, dir, long, levels) }, deep: true},
		"many names":           {fill: func(t *testing.T, dir string) { crowd(t, dir, many, 12, false) }, names: many},
		"many folders":         {fill: func(t *testing.T, dir string) { crowd(t, dir, many/8, 12, true) }, names: many / 8},
		"long names":           {fill: func(t *testing.T, dir string) { crowd(t, dir, many/8, 255, false) }, names: many / 8},
		"several deep folders": {fill: func(t *testing.T, dir string) { several(t, dir) }, names: 3 * (1 + 201)},
		"links in a circle": {fill: func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
			must(t, os.Symlink("..", filepath.Join(dir, "a", "b", "up")))
			must(t, os.Symlink("self", filepath.Join(dir, "self")))
			must(t, os.Symlink("/", filepath.Join(dir, "a", "all")))
		}, names: 5},
		"closed folders": {fill: func(t *testing.T, dir string) {
			for _, mode := range []fs.FileMode{0, 0o100, 0o200, 0o400, 0o500} {
				at := filepath.Join(dir, fmt.Sprint("m", uint32(mode)), "in")
				must(t, os.MkdirAll(at, 0o755))
				must(t, os.WriteFile(filepath.Join(at, "f"), nil, 0))
				must(t, os.Chmod(at, mode))
				must(t, os.Chmod(filepath.Dir(at), mode))
			}
		}, closed: true},
	}
}

func several(t *testing.T, dir string) {
	for _, name := range []string{"x", "y", "z"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		nest(t, filepath.Join(dir, name), "d", 200)
	}
}

// bounded runs do and checks the memory that is in use at most, and the open files.
func bounded(t *testing.T, do func(look func())) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	files := open(t)
	most, mostFiles, n := uint64(0), 0, 0
	do(func() {
		if n++; n%500 != 0 {
			return
		}
		runtime.ReadMemStats(&now)
		most, mostFiles = max(most, now.HeapAlloc), max(mostFiles, open(t))
	})
	if used := int64(most) - int64(before.HeapAlloc); used > 48<<20 {
		t.Errorf("%d MiB were in use", used>>20)
	}
	if mostFiles-files > 300 {
		t.Errorf("%d files were open", mostFiles-files)
	}
	if left := open(t) - files; left > 0 {
		t.Errorf("%d files stay open", left)
	}
}

func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not on this system
	}
	return len(list)
}

func TestBoundsOfMemoryAndFiles(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	if dir := os.Getenv("REMIT_TEST_REMOVE"); dir != "" {
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 400, Max: 400}))
		debug.SetMemoryLimit(16 << 20)
		must(t, walk.Remove(dir))
		return
	}
	for name, c := range trees() {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			c.fill(t, dir)
			root, err := os.OpenRoot(dir)
			must(t, err)
			visited, deep := 0, 0
			bounded(t, func(look func()) {
				w := walk.Walk{Top: dir, Names: 2_000_000,
					Visit: func(*walk.Folder, string, fs.FileMode) (bool, error) { visited++; look(); return true, nil },
					Skipped: func(at string, why error) {
						if errors.Is(why, walk.ErrDeep) {
							deep++
						} else if !c.closed {
							t.Errorf("%.100s was left out: %v", at, why)
						}
					}}
				must(t, w.Down(context.Background(), root))
				must(t, root.Close())
			})
			if c.names != 0 && visited != c.names || (deep > 0) != c.deep {
				t.Errorf("%d names were visited, want %d; %d folders were too deep", visited, c.names, deep)
			}
			remove(t, dir)
		})
	}
}

// remove has a process of its own remove a folder, which may open few files.
func remove(t *testing.T, dir string) {
	t.Helper()
	outside := folder(t)
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

// folder is removed by the package itself.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "remit-walk-")
	must(t, err)
	t.Cleanup(func() {
		if err := walk.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A folder that is replaced by a link while the walk goes on does not lead outside.
func TestWalkOfAChangingFolder(t *testing.T) {
	dir, outside := folder(t), folder(t)
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
	dir := folder(t)
	crowd(t, dir, 600, 5, false)
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
