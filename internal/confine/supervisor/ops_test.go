//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/supervisor"
)

// carryOutOps makes random system calls in the working folder, and prints what each returned.
func carryOutOps(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	dir, err := unix.Open("a", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	fmt.Println("a", err)
	at := func() int {
		if r.IntN(3) == 0 {
			return dir
		}
		return unix.AT_FDCWD
	}
	here, _ := os.Getwd()
	path := func() string {
		starts := []string{"", "", "", "", here + "/", "/proc/self/cwd/", "/proc/self/fd/" + strconv.Itoa(dir) + "/", "/proc/thread-self/cwd/", "./"}
		p := starts[r.IntN(len(starts))]
		names := []string{"a", "b", "c", "f", "g", "l", "up", "abs", "loop", "dang", "cwd", ".", "..", "new", "dead"}
		for i := range 1 + r.IntN(4) {
			if i > 0 {
				p += strings.Repeat("/", 1+r.IntN(5)/4)
			}
			p += names[r.IntN(len(names))]
		}
		switch r.IntN(12) {
		case 0:
			p += "/"
		case 1:
			p = names[r.IntN(len(names))]
		case 2:
			p = ""
		}
		return p
	}
	flag := func(list ...int) (out int) {
		for _, f := range list {
			if r.IntN(3) == 0 {
				out |= f
			}
		}
		return out
	}
	for range 400 {
		var name string
		var err error
		p, q := path(), path()
		switch r.IntN(14) {
		case 0, 1, 2, 3:
			flags := r.IntN(3) | flag(unix.O_CREAT, unix.O_EXCL, unix.O_TRUNC, unix.O_DIRECTORY, unix.O_NOFOLLOW, unix.O_APPEND) | unix.O_NONBLOCK | flag(unix.O_CLOEXEC)
			var fd int
			fd, err = unix.Openat(at(), p, flags, uint32(r.IntN(0o1000)))
			name = fmt.Sprintf("open %#x", flags)
			if err == nil {
				var st unix.Stat_t
				on, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				fl, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				fmt.Print("fd ", fd, " ", unix.Fstat(fd, &st), " ", st.Mode, " ", st.Size, " ", on, " ", fl&^unix.O_NOFOLLOW, " ")
				_, _ = unix.Write(fd, []byte(name))
				_ = unix.Close(fd)
			}
		case 4:
			name, err = "mkdir", unix.Mkdirat(at(), p, uint32(r.IntN(0o1000)))
		case 5:
			name, err = "unlink", unix.Unlinkat(at(), p, flag(unix.AT_REMOVEDIR))
		case 6, 7:
			flags := uint([]int{0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE}[r.IntN(4)])
			name, err = "rename", unix.Renameat2(at(), p, at(), q, flags)
		case 8:
			name, err = "link", unix.Linkat(at(), p, at(), q, flag(unix.AT_SYMLINK_FOLLOW))
		case 9:
			name, err = "symlink", unix.Symlinkat(q, at(), p)
		case 10:
			name, err = "chmod", syscall.Fchmodat(at(), p, uint32(0o700|r.IntN(0o100)), 0)
		case 11:
			name, err = "truncate", unix.Truncate(p, int64(r.IntN(100)))
		case 12:
			name, err = "times", unix.UtimesNanoAt(at(), p, []unix.Timespec{{Sec: 1}, {Sec: int64(r.IntN(1000))}}, flag(unix.AT_SYMLINK_NOFOLLOW))
		default:
			name, err = "mknod", unix.Mknodat(at(), p, unix.S_IFIFO|uint32(r.IntN(0o1000)), 0)
		}
		var errno unix.Errno
		errors.As(err, &errno)
		fmt.Println(name, strings.ReplaceAll(p, here, "HERE"), strings.ReplaceAll(q, here, "HERE"), int(errno), unix.ErrnoName(errno))
	}
}

// plant makes what the calls begin with.
func plant(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "1/2/3/4/5") // the paths have at most as many ".."
	for _, p := range []string{"a/b", "c"} {
		must(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
	}
	for _, p := range []string{"f", "a/f", "a/b/g"} {
		must(t, os.WriteFile(filepath.Join(dir, p), []byte(p), 0o644))
	}
	for p, to := range map[string]string{"l": "a", "a/up": "..", "abs": dir + "/a", "loop": "loop", "dang": "new", "cwd": "/proc/self/cwd", "a/b/l": "../../c", "c/dead": "nothing/x"} {
		must(t, os.Symlink(to, filepath.Join(dir, p)))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree lists what a folder has.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a folder that its owner may not read
		}
		var st unix.Stat_t
		must(t, unix.Lstat(p, &st))
		link, _ := os.Readlink(p)
		rel, _ := filepath.Rel(dir, p)
		size := st.Size
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			size = 0
		}
		fmt.Fprintln(&b, rel, strconv.FormatUint(uint64(st.Mode), 8), st.Nlink, size, strings.ReplaceAll(link, dir, "HERE"))
		return nil
	}))
	return b.String()
}

// TestCallsReturnWhatTheKernelReturns: random calls with random paths, flags and links give the same
// results, and leave the same files, as without a supervisor.
func TestCallsReturnWhatTheKernelReturns(t *testing.T) {
	seeds := 30
	if os.Getenv("REMIT_SOAK") != "" {
		seeds = 600
	}
	for seed := range seeds {
		sameOps(t, "-ops", seed, allow)
	}
}

// sameOps compares the random calls of a seed under a supervisor with those without one.
func sameOps(t *testing.T, ops string, seed int, decide supervisor.Decide) {
	t.Helper()
	one, two := plant(t), plant(t)
	want, _ := bare(t, one, os.Args[0], ops, strconv.Itoa(seed))
	s := supervised{dir: two, decide: decide}
	got, _ := s.run(t, os.Args[0], ops, strconv.Itoa(seed))
	if g, w := got+tree(t, two), want+tree(t, one); g != w {
		gl, wl := strings.Split(g, "\n"), strings.Split(w, "\n")
		for i := range min(len(gl), len(wl)) {
			if gl[i] != wl[i] {
				t.Fatalf("seed %d, line %d:\n%s\nwithout supervisor:\n%s", seed, i, gl[i], wl[i])
			}
		}
		t.Fatalf("seed %d: %d lines, without supervisor %d", seed, len(gl), len(wl))
	}
}
