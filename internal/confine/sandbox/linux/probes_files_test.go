//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	for name, probe := range fileProbes {
		probes[name] = probe
	}
}

// two splits a probe's argument.
func two(arg string) (a, b string) { a, b, _ = strings.Cut(arg, " "); return a, b }

// tell brings out what was read.
func tell(b []byte, err error) error {
	if err == nil {
		fmt.Fprintf(os.Stderr, "%s\n", b)
	}
	return err
}

func opened(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// fileProbes are about files, and what stands behind them.
var fileProbes = map[string]func(arg string) error{
	"read": func(p string) error { return tell(os.ReadFile(p)) },
	"list": func(p string) error {
		entries, err := os.ReadDir(p)
		return tell([]byte(fmt.Sprint(entries)), err)
	},
	// reach follows what is in a folder of links.
	"reach": func(p string) error {
		entries, err := os.ReadDir(p)
		for _, e := range entries {
			var to string
			if to, err = os.Readlink(filepath.Join(p, e.Name())); err == nil {
				return tell([]byte(to), nil)
			}
		}
		if err == nil {
			err = errors.New("nothing there")
		}
		return err
	},
	"open":     func(p string) error { return opened(unix.Open(p, unix.O_RDONLY|unix.O_NONBLOCK, 0)) },
	"openw":    func(p string) error { return opened(unix.Open(p, unix.O_WRONLY|unix.O_NONBLOCK, 0)) },
	"truncate": func(p string) error { return os.Truncate(p, 1) },
	"chown":    func(p string) error { return os.Lchown(p, 1234, 1234) },
	"setxattr": func(p string) error { return unix.Lsetxattr(p, "user.canary", []byte("x"), 0) },
	"rename": func(arg string) error {
		from, to := two(arg)
		if err := os.WriteFile(from, []byte("renamed"), 0o644); err != nil {
			return err
		}
		return os.Rename(from, to)
	},
	// exchange puts one thing in the place of another that cannot be written.
	"exchange": func(arg string) error {
		from, to := two(arg)
		if err := os.WriteFile(from, []byte("renamed"), 0o644); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	},
	"tmpfile": func(p string) error {
		fd, err := unix.Open(filepath.Dir(p), unix.O_TMPFILE|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, p, unix.AT_SYMLINK_FOLLOW)
	},
	// own-link goes through a link that it makes itself.
	"own-link": func(arg string) error {
		target, link := two(arg)
		_ = os.Remove(link) // of another try
		if err := os.Symlink(target, link); err != nil {
			return err
		}
		return tell(os.ReadFile(link))
	},
	"own-link-write": func(arg string) error {
		target, link := two(arg)
		_ = os.Remove(link) // of another try
		if err := os.Symlink(target, link); err != nil {
			return err
		}
		return os.WriteFile(link, []byte("overwritten"), 0o644)
	},
	// descriptor goes through a descriptor of the folder it is in.
	"descriptor": func(p string) error {
		fd, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		return tell(os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/%s", fd, p)))
	},
	// above looks for another root behind the root.
	"above": func(secret string) error {
		if err := os.Chdir("/"); err != nil {
			return err
		}
		for range 20 {
			if err := os.Chdir(".."); err != nil {
				return err
			}
		}
		return tell(os.ReadFile("." + secret))
	},
	// swap flips a name between a folder of its own and a link out while it reads.
	"swap": func(arg string) error {
		outside, dir := two(arg)
		a, b := filepath.Join(dir, "flip"), filepath.Join(dir, "flop")
		if err := errors.Join(os.RemoveAll(a), os.RemoveAll(b), os.Mkdir(a, 0o755), os.Symlink(outside, b)); err != nil {
			return fmt.Errorf("%q", err)
		}
		var flips atomic.Int64
		go func() {
			for {
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				flips.Add(1)
			}
		}()
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end) || flips.Load() < 1000; {
			if b, err := os.ReadFile(filepath.Join(a, "canary")); err == nil {
				return tell(b, nil)
			}
		}
		return fmt.Errorf("never")
	},
	"lease": func(p string) error {
		fd, err := unix.Open(p, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
		return err
	},
	// inherited reaches for a file through any descriptor of a folder that it was
	// born with.
	"inherited": func(name string) error {
		err := fmt.Errorf("no descriptor")
		for fd := 3; fd < 1024; fd++ {
			for _, p := range []string{name, "../" + name} {
				var f int
				if f, err = unix.Openat(fd, p, unix.O_RDONLY, 0); err == nil {
					var buf [100]byte
					n, err := unix.Read(f, buf[:])
					return tell(buf[:max(n, 0)], err)
				}
			}
		}
		return err
	},
	// overwrite-exe keeps the running program, and writes to it once it does not
	// run any more.
	"overwrite-exe": func(p string) error {
		fd, err := unix.Open(p, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		script := fmt.Sprintf("if printf x >> /proc/self/fd/%d; then echo SUCCEEDED; else echo REFUSED; fi", fd)
		return unix.Exec("/bin/sh", []string{"sh", "-c", script}, nil)
	},
	"memory-of": func(arg string) error {
		pid, at := two(arg)
		addr, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return err
		}
		f, err := os.Open("/proc/" + pid + "/mem")
		if err != nil {
			return err
		}
		b := make([]byte, 40)
		_, err = f.ReadAt(b, addr)
		return tell(b, err)
	},
	"many-files": func(dir string) error {
		for i := range 200_000 {
			if err := opened(unix.Open(filepath.Join(dir, strconv.Itoa(i)), unix.O_CREAT|unix.O_WRONLY, 0o600)); err != nil {
				return err
			}
		}
		return nil
	},
}
