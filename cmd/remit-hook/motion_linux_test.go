package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/doors/keeper"
)

// Many clients at once start one keeper, and all get a decision.
func TestClientsStartOneKeeper(t *testing.T) {
	w := newWorld(t)
	const clients = 64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if out, _ := w.hook("event"); out != alone && out != kept {
				t.Errorf("%q", out)
			}
		})
	}
	all.Wait()
	w.untilListening()
	w.expect(kept)
	st, err := keeper.Stop(t.Context(), w.home)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(w.home, "answered"))
	if err != nil || strings.Trim(string(b), fmt.Sprintf("%d\n", st.PID)) != "" {
		t.Errorf("not only %d answered: %q, %v", st.PID, b, err)
	}
	if _, err := keeper.Ask(t.Context(), w.home); err == nil {
		t.Error("it answers after its end")
	}
}

// stopped has a client meet a stopped keeper, which then may be killed. remit hook decides.
func stopped(t *testing.T, kill bool) (w world, pid int) {
	t.Helper()
	w = newWorld(t)
	w.expect(alone)
	w.untilListening()
	w.expect(kept)
	st, err := keeper.Ask(t.Context(), w.home)
	if err == nil {
		err = syscall.Kill(st.PID, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	for !allStopped(t, st.PID) {
		runtime.Gosched()
	}
	c := w.command("event")
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if kill {
		if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(); err != nil || out.String() != alone {
		t.Errorf("%q, %v", out.String(), err)
	}
	return w, st.PID
}

// allStopped reports whether each thread of a process is stopped.
func allStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, name := range threads {
		if b, err := os.ReadFile(name); err == nil && !bytes.Contains(b, []byte(") T ")) {
			return false
		}
	}
	return true
}

// No call waits for a stopped keeper.
func TestAStoppedKeeperIsLeftOut(t *testing.T) {
	w, pid := stopped(t, false)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.expect(kept)
	if _, err := keeper.Stop(t.Context(), w.home); err != nil {
		t.Error(err)
	}
}

// A killed keeper leaves its place to the next one.
func TestAKilledKeeperIsReplaced(t *testing.T) {
	w, pid := stopped(t, true)
	for out, _ := w.hook("event"); out != kept; out, _ = w.hook("event") {
		if out != alone {
			t.Fatalf("%q", out)
		}
	}
	next, err := keeper.Stop(t.Context(), w.home)
	if err != nil || next.PID == pid {
		t.Errorf("%+v, %v", next, err)
	}
}

// A client that ends before its answer keeps no other from one.
func TestAKilledClientHarmsNoOther(t *testing.T) {
	w := newWorld(t)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	w.serve(func(_ context.Context, r hookwire.Request) hookwire.Answer {
		if len(r.Event) == 0 {
			asked <- struct{}{}
			<-answer
		}
		return hookwire.Answer{Out: []byte(kept[:len(kept)-1]), Err: []byte("e"), Status: 3}
	})
	c := w.command("")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	w.expect(kept)
	close(answer)
	w.expect(kept)
}

// The end of the keeper cuts no call that it has read.
func TestAStoppedKeeperFinishesItsCalls(t *testing.T) {
	w := newWorld(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	stop := w.serve(func(ctx context.Context, _ hookwire.Request) hookwire.Answer {
		close(asked)
		<-answer
		return hookwire.Answer{Out: []byte("whole"), Decline: ctx.Err() != nil}
	})
	c := w.command("event")
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	for socket := filepath.Join(w.home, "keeper.sock"); ; {
		if _, err := os.Lstat(socket); err != nil {
			break
		}
	}
	w.expect(alone) // the next keeper's turn has not come
	close(answer)
	if err := c.Wait(); err != nil || out.String() != "whole" {
		t.Errorf("%q, %v", out.String(), err)
	}
	<-stopped
}

func TestHostileClientsAreDropped(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	folder, err := os.Open(w.home)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	whole, err := hookwire.Request{Program: "x", Args: []string{"claude"}, Dir: "/"}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // fewer than are answered at once
		silent, err := net.Dial("unix", hookwire.KeeperSocket(int(folder.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if _, err := silent.Write(whole[:len(whole)/2]); err != nil {
			t.Fatal(err)
		}
		large, err := net.Dial("unix", hookwire.KeeperSocket(int(folder.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		defer large.Close()
		if _, err := io.CopyN(large, endless{}, 64<<20); err == nil {
			t.Error("64 MB were read")
		}
	}
	w.expect(kept)
	if out, _ := w.hook(strings.Repeat("x", 17<<20)); out != fmt.Sprintf("kept [claude] %d <nil>\ne", hookwire.MaxEvent+1) {
		t.Errorf("%q", out) // the hook itself refuses what is too large
	}
}

// endless is a stream of zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// Another user gets no answer, even where file modes would let it connect.
func TestAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	w := newWorld(t)
	w.serve(nil)
	const nobody = 65534
	for dir := w.home; len(dir) > 4; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir := w.bin; len(dir) > 4; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(w.home, "keeper.sock"), 0o777), os.Chmod(filepath.Join(w.bin, "remit-hook"), 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), filepath.Join(w.bin, "remit-hook"), "ask", w.home)
	c.Env = []string{askVariable + "=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "did not answer") {
		t.Errorf("%q, %v", out, err)
	}
	if err := os.Chown(w.home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	c = w.command("event")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := c.CombinedOutput(); string(out) != alone && !strings.Contains(string(out), "cannot be started") { // nobody may not reach the test's binary
		t.Errorf("%q, %v", out, err)
	}
}

func TestTheKeeperEnds(t *testing.T) {
	for name, end := range map[string]func(w world, k *keeper.Keeper) error{
		"without calls":           func(_ world, k *keeper.Keeper) error { k.Idle = time.Millisecond; return nil },
		"with another ledger":     func(_ world, k *keeper.Keeper) error { k.Stale = func() bool { return true }; return nil },
		"when its socket is gone": func(w world, _ *keeper.Keeper) error { w.removing("keeper.sock"); return nil },
		"when its home is gone":   func(w world, _ *keeper.Keeper) error { w.removing(""); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := keeperOf(w.home)
			k.Look = time.Millisecond
			if err := end(w, k); err != nil {
				t.Fatal(err)
			}
			if err := k.Serve(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := keeper.Ask(t.Context(), w.home); err == nil {
				t.Error("something answers")
			}
		})
	}
}

// removing removes a file of the home folder once the keeper listens; "": the folder.
func (w world) removing(name string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.untilListening()
		if err := os.RemoveAll(filepath.Join(w.home, name)); err != nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() { <-done })
}

// Once the program was replaced, the old keeper answers nothing, and a new one takes its place.
func TestANewerProgramHasANewKeeper(t *testing.T) {
	w := newWorld(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pids := map[int]bool{}
	for range 3 {
		copyFile(t, exe, filepath.Join(w.bin, "next"))
		if err := os.Rename(filepath.Join(w.bin, "next"), filepath.Join(w.bin, "remit")); err != nil {
			t.Fatal(err)
		}
		w.expect(alone)
		out := ""
		for out != kept {
			if out, _ = w.hook("event"); out != kept && out != alone {
				t.Fatalf("%q", out)
			}
		}
		st, err := keeper.Ask(t.Context(), w.home)
		if err != nil || pids[st.PID] {
			t.Errorf("%+v, %v", st, err)
		}
		pids[st.PID] = true
	}
	if _, err := keeper.Stop(t.Context(), w.home); err != nil {
		t.Error(err)
	}
}

func TestTwoKeepersAreOne(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	if err := keeperOf(w.home).Serve(t.Context()); !errors.Is(err, fault.Conflict) {
		t.Error(err)
	}
	w.expect(kept)
}
