//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

func init() {
	// hold makes one of everything that another process could find, says so, and
	// stays until a file is there.
	probes["hold"] = func(arg string) error {
		f := strings.Fields(arg) // ready, stop, secret, key
		key, err := strconv.Atoi(f[3])
		if err != nil {
			return err
		}
		if _, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666); err != nil {
			return err
		}
		if err := call(unix.SYS_SEMGET, uintptr(key), 1, unix.IPC_CREAT|0o666); err != nil {
			return err
		}
		for _, at := range []string{"@remit-held", os.TempDir() + "/remit-held.sock"} {
			if _, err := net.Listen("unix", at); err != nil {
				return err
			}
		}
		if _, err := net.Listen("tcp", "127.0.0.1:17113"); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
		if err := os.WriteFile(os.TempDir()+"/remit-held", []byte(f[2]), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(f[0], []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return err
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(f[1]); err == nil {
				return errors.New("stopped")
			}
		}
		return errors.New("nobody stopped it")
	}
	// find looks for each of them, and says which it found.
	probes["find"] = func(arg string) error {
		key, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		for name, try := range map[string]func() error{
			"shared memory": func() error { _, err := unix.SysvShmGet(key, 4096, 0); return err },
			"semaphore":     func() error { return call(unix.SYS_SEMGET, uintptr(key), 1, 0) },
			"abstract":      func() error { return probes["unix"]("@remit-held") },
			"socket":        func() error { return probes["unix"](os.TempDir() + "/remit-held.sock") },
			"file":          func() error { return probes["read"](os.TempDir() + "/remit-held") },
			"listener":      func() error { return probes["dial"]("127.0.0.1:17113") },
			"process": func() error {
				own, _ := os.Executable()
				entries, err := os.ReadDir("/proc")
				for _, e := range entries {
					n, _ := strconv.Atoi(e.Name())
					to, err := os.Readlink("/proc/" + e.Name() + "/exe")
					if err == nil && to == own && n != 0 && n != os.Getpid() && n != os.Getppid() {
						return nil
					}
				}
				return errors.Join(err, errors.New("none"))
			},
		} {
			if err := try(); err == nil {
				fmt.Printf("found %s\n", name)
			}
		}
		return errors.New("that is all")
	}
}

// Two commands at a time find nothing of each other, whether they have the same
// grant or not.
func TestSandboxesDoNotMeet(t *testing.T) { everyTier(t, openPolicy, testSandboxesDoNotMeet) }

func testSandboxesDoNotMeet(t *testing.T, src string) {
	h := newHost(t, src)
	exe, err := os.Executable()
	must(t, err)
	ready, stop := h.w.dir+"/out/ready", h.w.dir+"/out/stop"
	hold := []string{exe, "probe", "hold", fmt.Sprint(ready, " ", stop, " ", h.secret, " ", ipcKey+1)}
	there := func() {
		for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
			if b, err := os.ReadFile(ready); err == nil && len(b) > 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatal("the first command is not ready")
			}
		}
	}
	done := make(chan string, 1)
	go func() {
		out, err := h.w.box.Run(context.Background(), h.w.p, sandbox.Command{Argv: hold, Dir: h.w.dir})
		done <- fmt.Sprintf("%s %v", out.Stdout.Data, err)
	}()
	there()
	find := func(what string, w *world) {
		out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "find", strconv.Itoa(ipcKey + 1)}, Dir: h.w.dir, Timeout: time.Minute})
		if err != nil || string(out.Stdout.Data) != "REFUSED that is all\n" || strings.Contains(string(out.Stderr.Data), h.secret) {
			t.Errorf("%s: got %q, %q, %v", what, out.Stdout.Data, out.Stderr.Data, err)
		}
	}
	find("the same grant", h.w)
	other := newWorld(t, src)
	other.dir = h.w.dir
	other.allow(src + "# another\n")
	find("another grant", other)
	must(t, os.WriteFile(stop, nil, 0o644))
	if got := <-done; !strings.Contains(got, "REFUSED stopped") {
		t.Fatalf("the first command: %s", got)
	}
	must(t, errors.Join(os.Remove(stop), os.Remove(ready)))

	t.Setenv("TMPDIR", h.outside)
	cmd := exec.Command(hold[0], hold[1:]...)
	must(t, cmd.Start())
	there()
	_, all := try(t, outside, []string{"find", strconv.Itoa(ipcKey + 1)})
	must(t, errors.Join(os.WriteFile(stop, nil, 0o644), cmd.Wait()))
	for _, name := range []string{"shared memory", "semaphore", "abstract", "socket", "file", "listener", "process"} {
		if !strings.Contains(all, "found "+name+"\n") {
			t.Errorf("the probe proves nothing: outside the sandbox it does not find the %s: %s", name, all)
		}
	}
	if shm, err := unix.SysvShmGet(ipcKey+1, 4096, 0); err == nil {
		_, err = unix.SysvShmCtl(shm, unix.IPC_RMID, nil)
		sem, _, e := unix.Syscall(unix.SYS_SEMGET, uintptr(ipcKey+1), 1, 0)
		must(t, errors.Join(err, call(unix.SYS_SEMCTL, sem, 0, unix.IPC_RMID)))
		if e != 0 {
			t.Error(e)
		}
	}
}

// What one command takes of what the kernel counts for a user, others can do
// without.
func TestOneSandboxCannotStarveAnother(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	exe, err := os.Executable()
	must(t, err)
	ready, stop := w.dir+"/out/ready", w.dir+"/out/stop"
	errs := make(chan error, 1)
	p := w.p // allow, below, changes it
	go func() {
		_, err := w.box.Run(context.Background(), p, sandbox.Command{Argv: []string{exe, "probe", "exhaust", ready + " " + stop}, Dir: w.dir, Timeout: 2 * time.Minute})
		errs <- err
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(ready); err == nil && len(b) > 0 {
			t.Logf("it took %s", b)
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is not ready")
		}
	}
	for _, src := range []string{openPolicy, openPolicy + tiers[1].policy} {
		w.allow(src)
		for range 3 {
			if out := w.sh("echo x | cat > /tmp/y; cat /tmp/y; echo z > out/z"); string(out.Stdout.Data) != "x\n" || out.ExitCode != 0 {
				t.Errorf("got %+v", out)
			}
		}
	}
	must(t, os.WriteFile(stop, nil, 0o644))
	must(t, <-errs)
}

// The private folders hold so many files and no more.
func TestFilesOfPrivateFoldersAreCounted(t *testing.T) {
	w := newWorld(t, openPolicy)
	if got := string(w.sh("stat -f -c %c /tmp").Stdout.Data); got != "100000\n" {
		t.Errorf("/tmp holds %q files", got)
	}
	if os.Getenv("REMIT_SOAK") == "" {
		return
	}
	if got := w.confined("many-files", "/tmp"); !strings.HasPrefix(got, "REFUSED") || !strings.Contains(got, "no space left") {
		t.Errorf("got %q", got)
	}
	w.sh("true")
}

// Descriptors that this process has open for its children do not reach a
// sandbox, also not by the spawner.
func TestNoDescriptorIsInherited(t *testing.T) { everyTier(t, openPolicy, testNoDescriptor) }

func testNoDescriptor(t *testing.T, src string) {
	h := newHost(t, src)
	fd, err := unix.Open(h.outside, unix.O_RDONLY|unix.O_DIRECTORY, 0) // on purpose without O_CLOEXEC
	must(t, err)
	defer func() { must(t, unix.Close(fd)) }()
	box := linux.New(linux.Config{Getenv: os.LookupEnv}) // its spawner could inherit it
	defer func() { must(t, box.Close()) }()
	h.w.box = box
	h.attempts([]attempt{
		{no: 53, name: "any", probe: []string{"fds"}},
		{no: 54, name: "a folder outside", probe: []string{"inherited", "canary"}, leaks: true},
	}, tierOf(src), true)
}

// The program that a command runs, and the one that made its sandbox, are still
// what they were when it has ended.
func TestProgramsAreNotOverwritten(t *testing.T) {
	h := newHost(t, openPolicy)
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	copied := filepath.Join(h.outside, "program")
	must(t, os.WriteFile(copied, self, 0o755))
	h.attempts([]attempt{
		{no: 11, name: "its own", probe: []string{"overwrite-exe", "/proc/self/exe"}, control: needless, why: "below"},
		{no: 11, name: "the first process's", probe: []string{"overwrite-exe", "/proc/1/exe"}, control: needless, why: "below"},
	}, "fresh", false)
	out, err := exec.Command(copied, "probe", "overwrite-exe", "/proc/self/exe").CombinedOutput()
	now, rerr := os.ReadFile(copied)
	if err != nil || rerr != nil || string(out) != "SUCCEEDED\n" || len(now) != len(self)+1 {
		t.Errorf("the probe proves nothing: outside the sandbox: %s, %v, %v", out, err, rerr)
	}
}

// A setuid program of another's runs as whoever starts it.
func TestSetuidProgramsGiveNothing(t *testing.T) {
	name := os.Getenv("REMIT_TEST_SETUID")
	w := newWorld(t, openPolicy)
	if os.Getuid() == 0 {
		name = setuidCopy(t, w.dir, 1234)
	}
	if name == "" {
		t.Skip("NOT TESTED: only root makes programs of others'")
	}
	who, err := exec.Command(name, "-u").Output()
	must(t, err)
	if got := strings.TrimSpace(string(who)); got == strconv.Itoa(os.Getuid()) {
		t.Skipf("NOT TESTED: setuid has no effect in %s", name)
	}
	must(t, os.Symlink("/usr/bin/id", w.dir+"/plain"))
	w.allow(strings.Replace(openPolicy, `"EXE **"`, strconv.Quote(name+" **"), 1))
	plain := strings.TrimSpace(string(w.sh("id -u").Stdout.Data))
	out, err := w.run(sandbox.Command{Argv: []string{name, "-u"}, Timeout: time.Minute})
	if got := strings.TrimSpace(string(out.Stdout.Data)); err != nil || got != plain || got == "" {
		t.Errorf("it runs as %q, others as %q, %v %s", got, plain, err, out.Stderr.Data)
	}
}

// setuidCopy makes a program that tells as whom it runs.
func setuidCopy(t *testing.T, dir string, owner int) string {
	t.Helper()
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	name := filepath.Join(dir, "id")
	must(t, errors.Join(os.WriteFile(name, id, 0o755), os.Chown(name, owner, owner), os.Chmod(name, 0o755|os.ModeSetuid)))
	return name
}

// What is typed for others on a terminal arrives, where the kernel lets it; from
// a sandbox it does not, on its own terminal or any.
func TestTypingForOthers(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	w := newWorld(t, openPolicy)
	w.sh("true")
	for _, probe := range []string{"inject", "inject-wide"} {
		w.allow(strings.Replace(openPolicy, `read:  {allow: ["**"]}`, `read:  {allow: ["**", "EXE"]}`, 1))
		got := w.onTerminal(exe + " probe " + probe + ` ""; sleep 0.2; read -t 1 x 2>/dev/null; true`)
		if !strings.Contains(got, "REFUSED") || strings.Contains(got, "SUCCEEDED") {
			t.Errorf("%s on its own terminal: %q", probe, got)
		}
		if said := typing(t, exe, probe); !strings.Contains(said, "SUCCEEDED") && probe == "inject" {
			t.Logf("NO CONTROL: this kernel lets nobody type for others: %q", said)
		}
	}
}

// typing runs a probe outside on a terminal of its own.
func typing(t *testing.T, exe, probe string) string {
	t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	defer func() { must(t, main.Close()) }()
	must(t, unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(main.Fd()), unix.TIOCGPTN)
	must(t, err)
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer func() { must(t, side.Close()) }()
	cmd := exec.Command(exe, "probe", probe, "")
	cmd.Stdin = side
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	said, err := io.ReadAll(out)
	must(t, errors.Join(err, cmd.Wait()))
	return string(said)
}
