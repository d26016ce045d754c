//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"fmt"
	"path"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/supervisor"
)

// TestAnEndWhileAFIFOWaits: the supervisor ends although a process waits for the other end of a FIFO, or was
// killed while it waited.
func TestAnEndWhileAFIFOWaits(t *testing.T) {
	for _, script := range []string{"exec cat p", "exec 5>p", "for i in $(seq 20); do cat p & done; wait"} {
		for _, kill := range []bool{true, false} {
			t.Run(fmt.Sprint(script, " ", kill), func(t *testing.T) {
				t.Parallel()
				var sup *supervisor.Supervisor
				started, asked := make(chan struct{}), make(chan int, 100)
				s := supervised{dir: t.TempDir(), started: func(x *supervisor.Supervisor) { sup = x; close(started) }, decide: func(r supervisor.Request) error {
					if path.Base(r.Path) == "p" && r.Act&supervisor.Create == 0 {
						asked <- r.PID
					}
					return nil
				}}
				var ends sync.WaitGroup
				over := make(chan struct{})
				ends.Go(func() {
					pid := <-asked
					<-started
					time.Sleep(20 * time.Millisecond) // so that it does wait; the result is the same otherwise
					if !kill {
						sup.Stop()
						return
					}
					for {
						_ = unix.Kill(pid, unix.SIGKILL)
						select {
						case pid = <-asked:
						case <-over:
							return
						}
					}
				})
				s.run(t, "bash", "-c", "mkfifo p; "+script)
				close(over)
				ends.Wait()
			})
		}
	}
}
