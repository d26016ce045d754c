//go:build linux && (amd64 || arm64)

package supervisor_test

import "testing"

// TestNothingStaysOpenBehindAClose: what a process has closed is closed. The end of a FIFO or a lock that lasted a
// moment longer would take data or a lock from who comes next.
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
