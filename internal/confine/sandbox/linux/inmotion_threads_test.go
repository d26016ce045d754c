//go:build linux && (amd64 || arm64)

package linux_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func init() {
	probes["flips"] = flips
	probes["random"] = random
	probes["shares"] = shares
	probes["crosses"] = crosses
}

// flips opens what other threads change meanwhile: the text of the path, the working folder, what a descriptor stands for, and
// what the names in it lead to.
func flips(string) error {
	const at = 100 // the descriptor that changes
	text := append([]byte("good"), 0)
	if err := errors.Join(os.MkdirAll("flip/a", 0o755), os.MkdirAll("flip/b", 0o755), os.WriteFile("flip/good", []byte("good"), 0o644), os.WriteFile("flip/a/f", []byte("good"), 0o644),
		os.Symlink("../.env", "flip/b/f"), os.Symlink("../sub/.env", "flip/c")); err != nil {
		return err
	}
	open := func(p string) int {
		fd, _ := unix.Open(p, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return fd
	}
	home, sub, flip := open("."), open("sub"), open("flip")
	if err := unix.Dup3(flip, at, unix.O_CLOEXEC); err != nil {
		return err
	}
	var over atomic.Bool
	var running sync.WaitGroup
	for _, change := range []func(){
		func() { copy(text, ".env"); copy(text, "good") },
		func() { _ = unix.Dup3(sub, at, unix.O_CLOEXEC); _ = unix.Dup3(flip, at, unix.O_CLOEXEC) },
		func() { _ = unix.Fchdir(sub); _ = unix.Fchdir(flip) },
		func() { _ = unix.Renameat2(flip, "a", flip, "b", unix.RENAME_EXCHANGE) },
		func() { _ = unix.Renameat2(flip, "c", flip, "good", unix.RENAME_EXCHANGE) },
	} {
		running.Go(func() {
			for !over.Load() {
				change()
			}
		})
	}
	read := map[string]int{}
	for i := range rounds(300) {
		flags := []uintptr{unix.O_RDONLY, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY}[i%3] | unix.O_CLOEXEC
		here := unix.AT_FDCWD
		dir := []uintptr{uintptr(here), at}[i/3%2]
		path := []uintptr{uintptr(unsafe.Pointer(&text[0])), cstring("f"), cstring("a/f"), cstring("good")}[i/6%4]
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, dir, path, flags, 0o644, 0, 0)
		if errno != 0 {
			continue
		}
		var buf [100]byte
		n, _ := unix.Read(int(fd), buf[:])
		if n > 0 {
			read[string(buf[:n])]++
		}
		if flags&unix.O_ACCMODE != unix.O_RDONLY {
			_, _ = unix.Pwrite(int(fd), []byte("good"), 0)
		}
		_ = unix.Close(int(fd))
	}
	over.Store(true)
	running.Wait()
	if err := unix.Fchdir(home); err != nil {
		return err
	}
	fmt.Println(read)
	if read["good"] == 0 {
		return nil
	}
	return errors.New("all")
}

// random makes calls with arguments that mean little.
func random(seed string) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(n, n))
	page, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if err := unix.Mprotect(page[4096:], unix.PROT_NONE); err != nil {
		return err
	}
	names := []string{"", ".", "..", "/", "out", "out/x", ".env", "sub/.env", "/proc/self/fd/3", "out/", "out/x/", "\x01\x00" + ".env", "\x01\x00", "\x01\x00\x00abstract", strings.Repeat("a", 300), strings.Repeat("../", 300), "\xff\n\x1b"}
	calls := randomCalls()
	for range rounds(3000) {
		var args [6]uintptr
		for i := range args {
			switch r.IntN(6) {
			case 0:
				args[i] = uintptr(r.Uint64())
			case 1:
				args[i] = uintptr(r.IntN(12))
			case 2:
				args[i] = uintptr(^uint64(99)) // AT_FDCWD
			case 3: // a text that ends with the memory, or does not end in it
				name := names[r.IntN(len(names))]
				at := 4096 - len(name) - r.IntN(2)
				copy(page[at:], name+"\x00"[:min(1, 4096-at-len(name))])
				args[i] = uintptr(unsafe.Pointer(&page[at]))
			case 4:
				binary.NativeEndian.PutUint64(page[64:], r.Uint64())
				args[i] = uintptr(unsafe.Pointer(&page[64]))
			default:
				args[i] = uintptr(r.Uint64() & (1<<r.IntN(20) - 1))
			}
		}
		nr := calls[r.IntN(len(calls))]
		if (nr == unix.SYS_FCHMOD || nr == unix.SYS_FCHOWN) && args[0] < 3 {
			continue
		}
		fd, _, errno := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
		if errno == 0 && fd > 2 && fd < 1000 {
			_ = unix.Close(int(fd))
		}
	}
	return errors.New("all")
}

// randomCalls are calls that the supervisor carries out, and that do not wait.
func randomCalls() []uintptr {
	return append([]uintptr{unix.SYS_OPENAT, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_FCHMODAT,
		unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_TRUNCATE, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR,
		unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_BIND, unix.SYS_CONNECT}, randomCallsHere...)
}

// shares opens files from many threads and children that share descriptors, while the table changes and children come by vfork.
func shares(string) error {
	var over atomic.Bool
	var running, changing sync.WaitGroup
	changing.Go(func() { // the number that the next open would get is taken and given back
		for !over.Load() {
			if fd, err := unix.Dup(1); err == nil {
				_ = unix.Close(fd)
			}
		}
	})
	errs := make(chan error, 64)
	for i := range 8 {
		running.Go(func() {
			name := fmt.Sprintf("out/share-%d", i)
			for j := range rounds(6) {
				want := fmt.Sprint(i, j)
				if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
					errs <- err
					return
				}
				if b, err := os.ReadFile(name); err != nil || string(b) != want {
					errs <- fmt.Errorf("%s holds %q, want %q: %w", name, b, want, err)
					return
				}
				if _, err := os.ReadFile(".env"); err == nil {
					fmt.Println(motionSecret)
				}
			}
		})
	}
	running.Go(func() {
		for range rounds(4) { // by CLONE_VFORK and CLONE_VM
			if out, err := exec.Command("/bin/cat", "locked/f").Output(); err != nil || string(out) != "locked" {
				errs <- fmt.Errorf("a child read %q: %w", out, err)
				return
			}
		}
	})
	running.Wait()
	over.Store(true)
	changing.Wait()
	if len(errs) > 0 {
		fmt.Println(<-errs)
		return nil
	}
	return errors.New("all")
}

// TestThreadsChangeWhatIsDecided: what is opened is what was decided on, whatever other threads change meanwhile.
func TestThreadsChangeWhatIsDecided(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, motionPolicy, func(t *testing.T, src string) {
		for _, probe := range []string{"flips", "shares"} {
			t.Run(probe, func(t *testing.T) { motion{probe: []string{probe, ""}, verdict: "REFUSED all"}.try(t, src) })
		}
	})
}

// TestRandomCallsHarmNothing: whatever a process passes to the calls, the runtime goes on, and nothing protected changes.
func TestRandomCallsHarmNothing(t *testing.T) {
	racetest.Skip(t, oneByOne)
	for seed := range 2 {
		open := func(w *world) bool { // it may have changed their modes
			return os.Chmod(w.dir, 0o755) == nil && os.Chmod(w.dir+"/out", 0o755) == nil
		}
		motion{probe: []string{"random", strconv.Itoa(seed)}, verdict: "REFUSED all", check: open}.try(t, motionPolicy)
	}
}

// crosses writes in two folders in which a name is protected for one of two sandboxes each, until the other one is over.
func crosses(arg string) error {
	mine, theirs := two(arg)
	for range rounds(40) {
		_ = readAt(unix.AT_FDCWD, mine+"/.env")
		overwriteAt(unix.AT_FDCWD, mine+"/.env")
		attackFile("crossed-"+mine, mine+"/.env")
		if err := os.WriteFile(theirs+"/.env", []byte("of the other"), 0o644); err != nil {
			return err
		}
		if err := os.Remove(theirs + "/.env"); err != nil {
			return err
		}
	}
	if err := os.WriteFile(theirs+"/.env", []byte("of the other"), 0o644); err != nil {
		return err
	}
	return errors.New("all")
}

// TestTwoSandboxesOfOneWorkspace: each command writes what is protected from the other one, which has no part in it.
func TestTwoSandboxesOfOneWorkspace(t *testing.T) {
	racetest.Skip(t, oneByOne)
	const protects = "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\", \"**/.env\"], deny: [\"MINE/.env\"]}\n  write: {allow: [\"**\", \"**/.env\"], deny: [\"MINE/.env\"]}\ncommands: {allow: [\"**\", \"EXE **\"], env: [REMIT_SOAK], timeout: 300s}\n"
	w := newWorld(t, motionPolicy)
	exe, err := os.Executable()
	must(t, err)
	var running sync.WaitGroup
	for _, folders := range [][2]string{{"a", "b"}, {"b", "a"}} {
		w.file(folders[0]+"/.env", "of the host")
		one := *w
		one.allow(strings.ReplaceAll(protects, "MINE", folders[0]))
		running.Go(func() {
			out, err := one.run(sandbox.Command{Argv: []string{exe, "probe", "crosses", folders[0], folders[1]}, Timeout: time.Minute})
			all := string(out.Stdout.Data) + string(out.Stderr.Data)
			if err != nil || verdictOf(string(out.Stdout.Data)) != "REFUSED all" || strings.Contains(all, "of the") {
				t.Errorf("%v, %.1000s", err, all)
			}
		})
	}
	running.Wait()
	for _, dir := range []string{"a", "b"} {
		must(t, same(w.dir+"/"+dir+"/.env", "of the other"))
	}
}
