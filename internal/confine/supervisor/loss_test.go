//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingStaysOpenBehindAClose: a descriptor that a process has closed is closed. The end of a FIFO or a lock that
// lasted a moment longer would take data or a lock from the next process.
func TestNothingStaysOpenBehindAClose(t *testing.T) {
	for name, script := range map[string]string{
		"fifo": `
import os, threading
os.mkfifo("p")
def write(i):
    with open("p", "w") as f: f.write(str(i))
for i in range(2000):
    w = threading.Thread(target=write, args=(i,)); w.start()
    with open("p") as f: got = f.read()
    w.join()
    assert got == str(i), (got, i)
`,
		"lock": `
import os, fcntl
open("f", "w").close()
held = open("f")
for i in range(20000):
    fd = os.open("f", os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); os.close(fd)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(held, fcntl.LOCK_UN)
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := supervised{dir: t.TempDir(), decide: allow}
			if out, code := s.run(t, "python3", "-c", "import signal; signal.alarm(100)"+script); code != 0 {
				t.Errorf("exit status %d: %s", code, out)
			}
		})
	}
}

// TestSignalsEndNoAnswering: signals come to all threads of the supervisor, as Go sends them to its own, while many
// processes ask. All are answered.
func TestSignalsEndNoAnswering(t *testing.T) {
	var sending sync.WaitGroup
	done := make(chan struct{})
	sending.Go(func() {
		for {
			threads, err := os.ReadDir("/proc/self/task")
			if err != nil {
				t.Error(err)
				return
			}
			for range 100 {
				for _, one := range threads {
					tid, _ := strconv.Atoi(one.Name())
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // the thread may have ended
				}
				select {
				case <-done:
					return
				default:
				}
			}
		}
	})
	s := supervised{dir: t.TempDir(), decide: allow}
	out, code := s.run(t, "timeout", "-s", "KILL", "100", "bash", "-c", `echo x > f; for i in 1 2 3 4 5 6; do (for j in $(seq 5000); do read -r x < f || echo no; done) & done; wait`)
	close(done)
	sending.Wait()
	if out != "" || code != 0 {
		t.Errorf("exit status %d: %s", code, out)
	}
}
