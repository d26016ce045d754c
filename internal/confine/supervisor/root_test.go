//go:build linux && (amd64 || arm64)

package supervisor

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheRootWithoutDescriptors: a supervisor that cannot find out which files are those of /proc answers no call, and
// tries again.
func TestTheRootWithoutDescriptors(t *testing.T) {
	pid := uint32(os.Getpid())
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next := threeFree(t)
	s := Supervisor{root: -1}
	for more := range 3 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next + more), Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		root := s.rootOf(pid)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if enough := more == 2; root >= 0 != enough || enough != (s.procDev != 0) {
			t.Errorf("with %d descriptors: root %d, /proc is the device %d", more, root, s.procDev)
		}
	}
	drop(s.root)
}

// threeFree gives the lowest of three free descriptors in a row, below which none is free until the test ends.
func threeFree(t *testing.T) int {
	t.Helper()
	var opened []int
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, fd)
		if n := len(opened) - 3; n >= 0 && opened[n]+2 == fd {
			for _, free := range opened[n:] {
				drop(free)
			}
			t.Cleanup(func() {
				for _, used := range opened[:n] {
					drop(used)
				}
			})
			return opened[n]
		}
	}
}

// TestTooManyWaitTogether: the calls of many supervisors together wait on a bounded number of threads.
func TestTooManyWaitTogether(t *testing.T) {
	var leave []func()
	defer func() {
		for _, f := range leave {
			f()
		}
	}()
	refused := false
	for range maxTogether/maxWaiting + 1 {
		var s Supervisor
		for range maxWaiting {
			f, ok := s.enter()
			if refused = refused || !ok; ok {
				leave = append(leave, f)
			}
		}
	}
	if len(leave) != maxTogether || !refused {
		t.Errorf("%d wait, want %d", len(leave), maxTogether)
	}
}
