//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/supervisor"
)

// asking asks about each request that decide allows, and wait answers.
func asking(decide supervisor.Decide, wait func(context.Context, supervisor.Request) error) supervisor.Decide {
	return func(r supervisor.Request) error {
		if err := decide(r); err != nil {
			return err
		}
		return &supervisor.Ask{Wait: func(ctx context.Context) error { return wait(ctx, r) }}
	}
}

// TestApprovedCallsReturnWhatTheKernelReturns: calls that were asked about do the same as those that were not.
func TestApprovedCallsReturnWhatTheKernelReturns(t *testing.T) {
	seeds := 4
	if os.Getenv("REMIT_SOAK") != "" {
		seeds = 300
	}
	for seed := range seeds {
		sameOps(t, []string{"-ops", "-sockets"}[seed%2], seed, asking(allow, func(context.Context, supervisor.Request) error { return nil }))
	}
}

// openMany opens the file many n times at once, and prints how many of the attempts returned what.
func openMany(n int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	got := map[string]int{}
	for range n {
		all.Go(func() {
			fd, err := unix.Open("many", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(err)]++
			if err == nil {
				_ = unix.Close(fd)
			}
		})
	}
	all.Wait()
	fmt.Println(got)
}

// TestManyCallsAreAskedAbout: a bounded number of calls waits for approval, on few threads, and the others are refused.
// Meanwhile other calls are answered.
func TestManyCallsAreAskedAbout(t *testing.T) {
	n := 1100
	if os.Getenv("REMIT_SOAK") != "" {
		n = 5000
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "many"), nil, 0o600))
	var asked atomic.Int32
	approve := make(chan struct{})
	threads := 0
	s := supervised{dir: dir}
	ask := asking(allow, func(ctx context.Context, _ supervisor.Request) error {
		asked.Add(1)
		select {
		case <-approve:
		case <-ctx.Done():
		}
		return nil
	})
	s.decide = func(r supervisor.Request) error {
		if path.Base(r.Path) == "many" {
			return ask(r)
		}
		return nil
	}
	s.started = func(*supervisor.Supervisor) {
		for s.refused() < n-1000 || asked.Load() < 1000 {
			time.Sleep(time.Millisecond)
		}
		list, err := os.ReadDir("/proc/self/task")
		must(t, err)
		threads = len(list)
		close(approve)
	}
	out, _ := s.run(t, os.Args[0], "-many", strconv.Itoa(n))
	if want := fmt.Sprintf("map[<nil>:1000 permission denied:%d]\n", n-1000); out != want {
		t.Errorf("%q, want %q", out, want)
	}
	if threads > 100 {
		t.Errorf("%d threads while calls waited", threads)
	}
	left := runtime.NumGoroutine()
	for range 1000 { // while the garbage collector frees stacks, Go counts ended goroutines among the others
		if left <= 100 {
			break
		}
		time.Sleep(10 * time.Millisecond)
		left = runtime.NumGoroutine()
	}
	if left > 100 {
		t.Errorf("%d goroutines are left", left)
	}
}

// TestWhatIsAskedAboutChanges: after an approval the call is resolved and decided again.
func TestWhatIsAskedAboutChanges(t *testing.T) {
	for name, c := range map[string]struct {
		next  func(asked int) string // where the link leads after a question
		asked int
		want  string
	}{
		"stays":            {func(int) string { return "a0" }, 1, "a0"},
		"becomes another":  {func(n int) string { return "a" + strconv.Itoa(min(n, 2)) }, 3, "a2"},
		"always another":   {func(n int) string { return "a" + strconv.Itoa(n) }, 4, ""},
		"becomes secret":   {func(int) string { return ".env" }, 1, ""},
		"becomes missing":  {func(int) string { return "missing" }, 1, ""},
		"there and back":   {func(n int) string { return "a" + strconv.Itoa(n%2) }, 2, "a0"},
		"a folder":         {func(int) string { return "." }, 2, ""},
		"a link to itself": {func(int) string { return "l" }, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i := range 9 {
				must(t, os.WriteFile(filepath.Join(dir, "a"+strconv.Itoa(i)), []byte("a"+strconv.Itoa(i)), 0o600))
			}
			must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(secret), 0o600))
			link := func(to string) {
				must(t, os.Symlink(to, filepath.Join(dir, "next")))
				must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "l")))
			}
			link("a0")
			asked := 0
			s := supervised{dir: dir}
			ask := asking(protect, func(context.Context, supervisor.Request) error {
				asked++
				link(c.next(asked))
				return nil
			})
			s.decide = func(r supervisor.Request) error {
				if path.Dir(r.Path) == dir || r.Path == dir {
					return ask(r)
				}
				return nil
			}
			out, code := s.run(t, "cat", "l")
			if out != c.want && code == 0 || (code == 0) != (c.want != "") || asked != c.asked {
				t.Errorf("%q, exit status %d after %d questions", out, code, asked)
			}
		})
	}
}

// TestAWaitingProcessIsSignalled: a process that waits for an approval can be killed and stopped.
func TestAWaitingProcessIsSignalled(t *testing.T) {
	for name, c := range map[string]struct {
		signals []unix.Signal
		code    int
		out     string
	}{
		"killed":             {[]unix.Signal{unix.SIGKILL}, -1, ""},
		"ended":              {[]unix.Signal{unix.SIGTERM}, -1, ""},
		"stopped":            {[]unix.Signal{unix.SIGSTOP, unix.SIGCONT}, 0, "content"},
		"stopped and killed": {[]unix.Signal{unix.SIGSTOP, unix.SIGKILL}, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600))
			over := make(chan struct{})
			s := supervised{dir: dir}
			ask := asking(allow, func(ctx context.Context, r supervisor.Request) error {
				defer close(over)
				for _, sig := range c.signals {
					must(t, unix.Kill(r.PID, sig))
				}
				if c.code != 0 {
					<-ctx.Done() // nothing else ends it
				}
				return nil
			})
			s.decide = func(r supervisor.Request) error {
				if path.Base(r.Path) == "f" {
					return ask(r)
				}
				return nil
			}
			out, code := s.run(t, "cat", "f")
			<-over
			if out != c.out || code != c.code || s.refused() != 0 {
				t.Errorf("%q, exit status %d, %d refused", out, code, s.refused())
			}
		})
	}
}

// TestTheSupervisorStopsWhileACallWaits: Stop ends the question.
func TestTheSupervisorStopsWhileACallWaits(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(secret), 0o600))
	asked := make(chan struct{})
	ask := asking(allow, func(ctx context.Context, _ supervisor.Request) error {
		close(asked)
		<-ctx.Done()
		return nil // too late
	})
	s := supervised{dir: dir, decide: func(r supervisor.Request) error {
		if path.Base(r.Path) == "f" {
			return ask(r)
		}
		return nil
	}}
	s.started = func(sup *supervisor.Supervisor) { <-asked; sup.Stop() }
	if out, code := s.run(t, "cat", "f"); code == 0 {
		t.Errorf("it was read: %q", out)
	}
}

// TestAnAnswerIsNo: the refusal is told.
func TestAnAnswerIsNo(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(secret), 0o600))
	s := supervised{dir: dir}
	ask := asking(allow, func(context.Context, supervisor.Request) error { return errors.New("no") })
	s.decide = func(r supervisor.Request) error {
		if path.Base(r.Path) == "f" {
			return ask(r)
		}
		return nil
	}
	if out, code := s.run(t, "cat", "f"); code != 1 || s.refused() != 1 {
		t.Errorf("exit status %d, %d refused: %q", code, s.refused(), out)
	}
}

// TestAnApprovalIsOfOneQuestion: what was approved for a request does not count for another question about it.
func TestAnApprovalIsOfOneQuestion(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600))
	var about []string
	s := supervised{dir: dir}
	s.decide = func(r supervisor.Request) error {
		if path.Base(r.Path) != "f" {
			return nil
		}
		if !slices.Contains(about, "read") {
			return &supervisor.Ask{About: "read", Wait: func(context.Context) error { about = append(about, "read"); return nil }}
		}
		return &supervisor.Ask{About: "write", Wait: func(context.Context) error { about = append(about, "write"); return errors.New("no") }}
	}
	out, code := s.run(t, "bash", "-c", "echo bad 1<>f")
	if b, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(b) != "content" || code == 0 || !slices.Equal(about, []string{"read", "write"}) {
		t.Errorf("%q %v, asked about %v: %s", b, err, about, out)
	}
}
