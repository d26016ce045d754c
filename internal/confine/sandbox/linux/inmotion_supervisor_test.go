//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

func init() {
	probes["runtime"] = runtimeOf
	probes["creates"] = creates
	probes["waits"] = waits
	probes["dies"] = dies
	probes["exhausts"] = exhausts
}

// runtimeOf is a runtime of its own, which runs a probe in a sandbox.
func runtimeOf(arg string) error {
	dir, probe := two(arg)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := permitFor(dir, strings.ReplaceAll(motionPolicy, "EXE", exe))
	if err != nil {
		return err
	}
	out, err := linux.New(linux.Config{}).Run(context.Background(), p, sandbox.Command{Argv: []string{exe, "probe", probe, ""}, Dir: dir})
	fmt.Printf("%s%s\n", out.Stdout.Data, out.Stderr.Data)
	return err
}

// creates makes one file after the other, until that fails for long, and then waits to be killed.
func creates(string) error {
	for i, failed := 0, 0; failed < 1000; i++ {
		fd, err := unix.Open(fmt.Sprintf("out/%06d", i), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			failed++
			continue
		}
		_ = unix.Close(fd)
	}
	time.Sleep(time.Hour)
	return nil
}

// runtimeWith starts a runtime and waits until its command has made some files.
func runtimeWith(t *testing.T, dir, probe string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "probe", "runtime", dir, probe)
	must(t, cmd.Start())
	for end := time.Now().Add(time.Minute); len(made(t, dir)) < 20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command makes no files")
		}
	}
	return cmd
}

func made(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "out/*"))
	must(t, err)
	return list
}

// TestTheEndOfTheRuntimeEndsItsCommands: when nobody answers any more, no call succeeds, and no process goes on.
func TestTheEndOfTheRuntimeEndsItsCommands(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	for range rounds(3) {
		w := motionWorld(t, motionPolicy)
		cmd := runtimeWith(t, w.dir, "creates")
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed: the status says so
		after := len(made(t, w.dir))
		gone(t, "after the runtime was killed")
		if n := len(made(t, w.dir)); n != after {
			t.Errorf("%d files were made after the end of the runtime", n-after)
		}
	}
}

// TestTheRuntimeIsStopped: while the runtime is stopped nothing is opened, and afterwards all goes on.
func TestTheRuntimeIsStopped(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	w := motionWorld(t, motionPolicy)
	cmd := runtimeWith(t, w.dir, "creates")
	for range rounds(3) {
		must(t, cmd.Process.Signal(syscall.SIGSTOP))
		var status unix.WaitStatus
		_, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		must(t, err)
		before := len(made(t, w.dir))
		time.Sleep(20 * time.Millisecond) // time for what must not happen
		if n := len(made(t, w.dir)); n != before {
			t.Errorf("%d files were made while the runtime was stopped", n-before)
		}
		must(t, cmd.Process.Signal(syscall.SIGCONT))
		for end := time.Now().Add(time.Minute); len(made(t, w.dir)) <= before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the command does not go on")
			}
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed: the status says so
	gone(t, "after the runtime was killed")
}

// waits opens a FIFO that nobody else opens, from many processes, and then does what is allowed.
func waits(string) error {
	if err := unix.Mkfifo("out/fifo", 0o600); err != nil {
		return err
	}
	var stuck []*exec.Cmd
	for range 300 {
		cmd := exec.Command("/bin/sh", "-c", "exec 2>/dev/null; : <out/fifo || exec sleep 1000")
		if err := cmd.Start(); err != nil {
			break // as many as there may be
		}
		stuck = append(stuck, cmd)
	}
	for i := range 20 {
		name := fmt.Sprintf("out/allowed-%d", i)
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			return fmt.Errorf("with %d that wait: %w", len(stuck), err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != name {
			return fmt.Errorf("with %d that wait: read %q, %w", len(stuck), b, err)
		}
	}
	if err := readAt(unix.AT_FDCWD, ".env"); err == nil {
		return nil
	}
	for _, cmd := range stuck {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_, err := fmt.Printf("%d waited\nREFUSED all\n", len(stuck))
	return errors.Join(err, errors.New("all"))
}

// dies has processes that use protected and other files, and kills them at any moment.
func dies(string) error {
	const script = `while :; do cat .env; echo bad >.env; echo x >out/$$; mv out/$$ out/$$.b; mv out/$$.b .env; ln out/$$ .env; rm -f out/$$; mkdir out/$$.d; rmdir out/$$.d; done 2>/dev/null`
	for i := range rounds(40) {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(i%20) * 300 * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		_ = cmd.Wait()
	}
	if err := os.WriteFile("out/after", nil, 0o644); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return errors.New("all")
}

// TestManyCallsWaitAndProcessesDie: calls that wait for ever keep no other call waiting, also not those of another sandbox,
// and a process that is killed in a call has no effect on what is protected.
func TestManyCallsWaitAndProcessesDie(t *testing.T) {
	racetest.Skip(t, oneByOne)
	w := motionWorld(t, strings.Replace(motionPolicy, "timeout: 300s", "timeout: 300s\n  processes: 1000", 1))
	before := w.kept()
	exe, err := os.Executable()
	must(t, err)
	var running sync.WaitGroup
	for _, probe := range []string{"waits", "dies"} {
		running.Go(func() {
			out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", probe, ""}, Timeout: time.Minute})
			if all := string(out.Stdout.Data) + string(out.Stderr.Data); err != nil || verdictOf(string(out.Stdout.Data)) != "REFUSED all" || strings.Contains(all, motionSecret) {
				t.Errorf("%s: %v, exit %d, %.1000q", probe, err, out.ExitCode, all)
			}
		})
	}
	running.Wait()
	if d := difference(before, w.kept()); len(d) > 0 {
		t.Errorf("on the host: %s", strings.Join(d, "\n"))
	}
}

// exhausts reads and writes while the runtime has no descriptors left, and until it has some again.
func exhausts(string) error {
	if err := os.WriteFile("out/begun", nil, 0o644); err != nil {
		return err
	}
	for failed := false; ; {
		if err := readAt(unix.AT_FDCWD, ".env"); err == nil {
			return nil
		}
		if fd, err := unix.Open(".env", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600); err == nil {
			return unix.Close(fd)
		}
		if err := readAt(unix.AT_FDCWD, "/proc/1/environ"); err == nil {
			return nil
		}
		err := readAt(unix.AT_FDCWD, "locked/f")
		if err == nil && failed {
			return errors.New("all")
		}
		failed = failed || err != nil
	}
}

// TestTheRuntimeHasNoDescriptors: what cannot be looked at is refused.
func TestTheRuntimeHasNoDescriptors(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	w := motionWorld(t, motionPolicy)
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		await(filepath.Join(w.dir, "out/begun"))
		for i := uint64(0); ; i++ {
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3 + i%40, Max: before.Max}) // the last one counts
			time.Sleep(2 * time.Millisecond)
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	exe, err := os.Executable()
	must(t, err)
	out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{exe, "probe", "exhausts", ""}, Dir: w.dir, Timeout: time.Minute})
	close(over)
	<-done
	if v := verdictOf(string(out.Stdout.Data)); err != nil || v != "REFUSED all" || strings.Contains(string(out.Stderr.Data), motionSecret) {
		t.Errorf("%v, %q %s", err, v, out.Stderr.Data)
	}
	if err := same(filepath.Join(w.dir, ".env"), motionSecret); err != nil {
		t.Error(err)
	}
}
