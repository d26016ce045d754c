//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// apart runs one test of this binary again in a process of its own, which may
// spoil its surroundings: mounts and limits end with it.
func apart(t *testing.T, flags uintptr) (inside bool) {
	t.Helper()
	const name = "REMIT_TEST_APART"
	if os.Getenv(name) == t.Name() {
		return true
	}
	newWorld(t, openPolicy).sh("true") // skips where nothing can be confined
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), name+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func mountsNow(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return string(b)
}

// What kind of file system a workspace is on changes nothing but what that
// itself cannot do.
func TestWorkspacesOfAllKinds(t *testing.T) {
	racetest.Skip(t, oneByOne)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root mounts")
	}
	if !apart(t, syscall.CLONE_NEWNS) {
		return
	}
	mount := func(src, at, kind string, flags uintptr, data string) {
		must(t, os.MkdirAll(at, 0o755))
		if err := unix.Mount(src, at, kind, flags, data); err != nil {
			t.Fatalf("mount %s: %v", kind, err)
		}
	}
	tests := map[string]struct {
		prepare      func(dir string)
		script, want string
	}{
		"a mount": {func(dir string) { mount("x", dir, "tmpfs", 0, "") }, "echo new > out/n && cat out/n", "new"},
		"a mount inside": {func(dir string) {
			mount("x", dir+"/sub", "tmpfs", 0, "")
			must(t, os.WriteFile(dir+"/sub/f", []byte("inner"), 0o644))
		}, "cat sub/f; (echo x > sub/g) 2>/dev/null && echo written", "inner"},
		"a mount in the writable part": {func(dir string) { mount("x", dir+"/out/sub", "tmpfs", 0, "") }, "echo new > out/sub/n && cat out/sub/n", "new"},
		"a read-only one inside": {func(dir string) {
			mount("x", dir+"/out/sub", "tmpfs", 0, "")
			mount("", dir+"/out/sub", "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}, "(echo x > out/sub/n) 2>&1 | grep -o 'Read-only'; echo more > out/n && cat out/n", "Read-only\nmore"},
		"read-only": {func(dir string) {
			must(t, os.WriteFile(dir+"/f", []byte("old"), 0o644))
			mount(dir, dir, "", unix.MS_BIND, "")
			mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}, "cat f; (echo x > out/n) 2>&1 | grep -o 'Read-only file system'", "oldRead-only file system"},
		"an overlay": {func(dir string) {
			parts := t.TempDir()
			mount("x", parts, "tmpfs", 0, "")
			for _, p := range []string{"l/out", "u", "w"} {
				must(t, os.MkdirAll(filepath.Join(parts, p), 0o755))
			}
			must(t, os.WriteFile(parts+"/l/f", []byte("lower"), 0o644))
			mount("x", dir, "overlay", 0, "lowerdir="+parts+"/l,upperdir="+parts+"/u,workdir="+parts+"/w")
		}, "cat f; echo new > out/n && cat out/n", "lowernew"},
		"a full disk": {func(dir string) { mount("x", dir, "tmpfs", 0, "size=64k") },
			"mkdir -p out; (head -c 200000 /dev/zero > out/n) 2>&1 | grep -o 'No space left on device'; echo alive", "No space left on device\nalive"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := mountsNow(t)
			w := newWorld(t, openPolicy)
			tc.prepare(w.dir)
			must(t, os.MkdirAll(w.dir+"/out", 0o755|os.ModeDir)) // on what has been mounted over it
			made := mountsNow(t)
			out := w.sh(tc.script)
			if got := strings.TrimSpace(string(out.Stdout.Data)); got != tc.want {
				t.Errorf("got %q, %s, want %q", got, out.Stderr.Data, tc.want)
			}
			if now := mountsNow(t); now != made {
				t.Errorf("mounts are left:\n%s\nwere\n%s", now, made)
			}
			for range strings.Count(made, "\n") - strings.Count(before, "\n") {
				lines := strings.Split(strings.TrimSpace(mountsNow(t)), "\n")
				must(t, unix.Unmount(strings.Fields(lines[len(lines)-1])[4], unix.MNT_DETACH))
			}
		})
	}
}

// descriptors counts those that are open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// However few descriptors are left, a command runs or is refused with a reason,
// and the next one is not worse off.
func TestNoDescriptorsLeft(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	w := newWorld(t, openPolicy)
	w.sh("true") // Go's own descriptors are there from now on
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv})
	defer func(b *linux.Box) { must(t, b.Close()) }(w.box)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: 128}))
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	ran := false
	for refused := 0; !ran; refused++ {
		if refused > 60 {
			t.Fatal("it never runs")
		}
		out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"echo", "ran"}, Dir: w.dir})
		var f *fault.Error
		switch {
		case err == nil:
			ran = string(out.Stdout.Data) == "ran\n"
			if !ran && !strings.Contains(string(out.Stderr.Data), "Error 24") && !strings.Contains(string(out.Stderr.Data), "oo many open files") {
				t.Errorf("got %+v", out)
			}
		case !errors.As(err, &f) || f.Code == fault.Internal || !strings.Contains(err.Error(), "too many open files"):
			t.Errorf("with %d left: %v", refused, err)
		}
		t.Logf("with %d left: %v", refused, err)
		for range min(1, len(taken)) {
			must(t, unix.Close(taken[len(taken)-1]))
			taken = taken[:len(taken)-1]
		}
	}
	for _, fd := range taken {
		must(t, unix.Close(fd))
	}
	w.sh("true")
	settled := func() int { // spares and their like come and go
		n := descriptors(t)
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			n = min(n, descriptors(t))
		}
		return n
	}
	before := settled()
	for range 20 {
		w.sh("true")
	}
	if after := settled(); after > before+8 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// A limit of this process's own that is lower than the policy's holds, and the
// record says so.
func TestLowerLimitsOfTheRuntimeHold(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200}))
	must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}))
	w := newWorld(t, openPolicy)
	out := w.sh("ulimit -n; ulimit -l")
	if got := string(out.Stdout.Data); got != "200\n64\n" || !strings.HasPrefix(out.Limits["open_files"], "200 ") || !strings.HasPrefix(out.Limits["file_size"], "1024 MiB ") {
		t.Errorf("got %q, %v", got, out.Limits)
	}
}

func TestMoreBadCommands(t *testing.T) {
	w := newWorld(t, strings.Replace(openPolicy, `"**", "EXE **"`, `"**", "./odd"`, 1))
	w.sh("true")
	must(t, os.WriteFile(filepath.Join(w.dir, "odd"), []byte("#!/no/such/interpreter\n"), 0o755))
	many := []string{"echo"}
	for range 100_000 {
		many = append(many, strings.Repeat("x", 100))
	}
	gone := filepath.Join(w.dir, "gone")
	tests := map[string]struct {
		c    sandbox.Command
		want fault.Code
		text string
	}{
		"10 MB in many arguments": {sandbox.Command{Argv: many}, fault.ArgsInvalid, "stdin"},
		"no such interpreter":     {sandbox.Command{Argv: []string{"./odd"}}, fault.ToolFailed, "interpreter"},
		"the folder is gone":      {sandbox.Command{Argv: []string{"true"}, Dir: gone}, fault.NotFound, "gone"},
		"the folder is a file":    {sandbox.Command{Argv: []string{"true"}, Dir: w.dir + "/odd"}, fault.ArgsInvalid, "is not a folder"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.c.Dir == "" {
				tc.c.Dir = w.dir
			}
			out, err := w.box.Run(context.Background(), w.p, tc.c)
			var f *fault.Error
			if !errors.As(err, &f) || !errors.Is(err, tc.want) || !strings.Contains(f.Msg+f.Hint, tc.text) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.text)
			}
			if out.Duration != 0 {
				t.Errorf("it did not run, and took %v", out.Duration)
			}
		})
	}
}

// What root's commands make belongs to root; in what belongs to others they can
// do no more than others can, and the profile says so.
func TestRootsCommandsHaveNoPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root gives files away")
	}
	w := newWorld(t, openPolicy)
	if out := w.sh("echo x > out/mine"); out.ExitCode != 0 || len(out.Notes) != 0 {
		t.Errorf("got %+v", out)
	}
	st, err := os.Stat(w.dir + "/out/mine")
	must(t, err)
	if own := st.Sys().(*syscall.Stat_t); own.Uid != 0 || own.Gid != 0 {
		t.Errorf("the file belongs to %d:%d", own.Uid, own.Gid)
	}
	w.file("out/theirs", "old")
	must(t, os.Chown(w.dir+"/out", 1234, 1234))
	must(t, os.Chown(w.dir+"/out/theirs", 1234, 1234))
	out := w.sh("echo x > out/new; echo x > out/theirs; chmod 777 out; chown 1000 out/theirs; cat out/theirs")
	if got := string(out.Stdout.Data); got != "old" || !strings.Contains(strings.Join(out.Notes, "\n"), "belongs to user 1234") {
		t.Errorf("got %q, %q, notes %q", got, out.Stderr.Data, out.Notes)
	}
	if _, err := os.Stat(w.dir + "/out/new"); err == nil {
		t.Error("a file was made in another's folder")
	}
}
