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
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// token is a number of seconds to sleep that no other process uses.
func token() string { return fmt.Sprintf("3%d.%d", os.Getpid(), time.Now().UnixNano()%1e9) }

func TestHowACommandEndsIsReported(t *testing.T) { everyTier(t, openPolicy, testHowItEnds) }

func testHowItEnds(t *testing.T, src string) {
	w := newWorld(t, src)
	tests := map[string]struct {
		script string
		code   int
		signal string
	}{
		"success":                  {"true", 0, ""},
		"failure":                  {"exit 7", 7, ""},
		"a signal to itself":       {"kill -SEGV $$", -1, "SIGSEGV"},
		"a signal that is ignored": {"trap '' TERM; kill -TERM $$; exit 4", 4, ""},
		"SIGTERM to itself":        {"kill -TERM $$", -1, "SIGTERM"},
		"SIGKILL to itself":        {"kill -KILL $$", -1, "SIGKILL"},
		"init cannot be killed":    {"kill -KILL 1; exit 5", 5, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, box: w.box, p: w.p}
			if out := w.sh(tc.script); out.ExitCode != tc.code || out.Signal != tc.signal {
				t.Errorf("got exit %d, signal %q, want %d, %q", out.ExitCode, out.Signal, tc.code, tc.signal)
			}
		})
	}
}

func TestStdinAndBothStreams(t *testing.T) {
	w := newWorld(t, openPolicy)
	out, err := w.run(sandbox.Command{Argv: []string{"sh", "-c", "cat; echo err >&2"}, Stdin: []byte("in")})
	if err != nil || string(out.Stdout.Data) != "in" || string(out.Stderr.Data) != "err\n" {
		t.Fatalf("got %q, %q, %v", out.Stdout.Data, out.Stderr.Data, err)
	}
	if out.CPU <= 0 || out.PeakMemory <= 0 || out.Tier != "fresh" || out.Duration <= 0 {
		t.Errorf("usage is missing: %+v", out)
	}
}

func TestNothingOutlivesACommand(t *testing.T) { everyTier(t, openPolicy, testNothingOutlives) }

func testNothingOutlives(t *testing.T, src string) {
	w := newWorld(t, src)
	tests := map[string]struct {
		script  string
		timeout time.Duration
		timed   bool
	}{
		"a daemon":                  {"(setsid sh -c 'trap \"\" HUP TERM; exec sleep TOKEN' &) ; exit 0", time.Minute, false},
		"a child that holds stdout": {"sleep TOKEN & exit 0", time.Minute, false},
		"deaf to SIGTERM":           {"trap '' TERM INT HUP; sleep TOKEN; sleep TOKEN", 300 * time.Millisecond, true},
		"stopped":                   {"sleep TOKEN & kill -STOP $$", 300 * time.Millisecond, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, box: w.box, p: w.p}
			tok := token()
			begun := time.Now()
			out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", strings.ReplaceAll(tc.script, "TOKEN", tok)}, Shell: true, Timeout: tc.timeout})
			if err != nil || out.TimedOut != tc.timed {
				t.Fatalf("got %+v, %v", out, err)
			}
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := survivors(t, tok); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func TestCancelKillsTheTree(t *testing.T) { everyTier(t, openPolicy, testCancel) }

func testCancel(t *testing.T, src string) {
	w := newWorld(t, src)
	w.sh("true") // skips where nothing can be confined
	ctx, cancel := context.WithCancel(context.Background())
	tok := token()
	go func() {
		for survivors(t, tok) == 0 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	_, err := w.box.Run(ctx, w.p, sandbox.Command{Argv: []string{"sleep", tok}, Dir: w.dir})
	if !errors.Is(err, fault.ToolCancelled) {
		t.Errorf("got %v, want %v", err, fault.ToolCancelled)
	}
	if n := survivors(t, tok); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestKillingTheRuntimeLeavesNothing(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	tok := token()
	cmd := exec.Command(os.Args[0], "probe", "parent", w.dir+" "+tok)
	must(t, cmd.Start())
	wait := func(what string, ok func(n int) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(survivors(t, tok)); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d processes with the token", what, survivors(t, tok))
			}
		}
	}
	wait("the command did not start", func(n int) bool { return n >= 2 })
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed: the status says so
	wait("processes are left", func(n int) bool { return n == 0 })
}

func TestALostSpawnerIsReplaced(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	tok := token()
	done := make(chan error)
	go func() {
		_, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"sleep", tok}, Dir: w.dir})
		done <- err
	}()
	for end := time.Now().Add(time.Minute); survivors(t, tok) == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, pid := range childrenNamed(t, "remit: spawner") {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	if err := <-done; !errors.Is(err, fault.ToolFailed) {
		t.Errorf("the command of the lost spawner: %v", err)
	}
	if n := survivors(t, tok); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if out := w.sh("echo again"); string(out.Stdout.Data) != "again\n" {
		t.Errorf("after that: %+v", out)
	}
}

// Where nothing around it is readable, what is only writable stays unread.
func TestOnlyWritable(t *testing.T) {
	w := newWorld(t, openPolicy)
	dir, err := os.MkdirTemp("/var/tmp", "remit-sandbox-")
	if err != nil {
		t.Skipf("no folder outside /tmp: %v", err)
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	w.dir = dir
	w.file("out/old", "secret")
	w.allow(strings.Replace(openPolicy, `read:  {allow: ["**"]}`, `read:  {allow: ["in/**"]}`, 1))
	out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", "cat out/old; ls out; echo new > out/new"}, Shell: true})
	if err != nil || len(out.Stdout.Data) != 0 || out.ExitCode != 0 {
		t.Errorf("got %q, exit %d, %v, %s", out.Stdout.Data, out.ExitCode, err, out.Stderr.Data)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "out/new")); err != nil || string(b) != "new\n" {
		t.Errorf("on the host: %q, %v", b, err)
	}
	// Inside, /var/tmp is a link to /tmp elsewhere: nothing may follow it out.
	if _, err := os.Lstat(filepath.Join("/tmp", filepath.Base(dir))); err == nil {
		t.Errorf("a folder was made in the host's /tmp")
	}
}

func TestManyAtOnce(t *testing.T) { everyTier(t, openPolicy, testManyAtOnce) }

func testManyAtOnce(t *testing.T, src string) {
	w := newWorld(t, src)
	w.sh("true")
	errs := make(chan error, 24)
	for i := range cap(errs) {
		go func() {
			want := fmt.Sprint(i)
			out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"echo", "-n", want}, Dir: w.dir})
			if err == nil && string(out.Stdout.Data) != want {
				err = fmt.Errorf("got %q, want %q", out.Stdout.Data, want)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestAFloodIsCut(t *testing.T) {
	w := newWorld(t, openPolicy)
	out, err := w.run(sandbox.Command{Argv: []string{"head", "-c", "50000000", "/dev/zero"}, MaxOutput: 1000})
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("got %+v, %v", out.ExitCode, err)
	}
	if len(out.Stdout.Data) != 1000 || out.Stdout.Total != 50000000 || !out.Stdout.Truncated {
		t.Errorf("kept %d of %d, truncated %v", len(out.Stdout.Data), out.Stdout.Total, out.Stdout.Truncated)
	}
	if out.Stderr.Truncated || out.Stderr.Total != 0 {
		t.Errorf("stderr: %+v", out.Stderr)
	}
}

func TestBombsAreBounded(t *testing.T) {
	w := newWorld(t, openPolicy+"  processes: 40\n")
	if got := w.confined("forks"); !strings.HasPrefix(got, "REFUSED") {
		t.Errorf("a fork bomb: %s", got)
	}
	w.allow(openPolicy + "  memory: 256MiB\n")
	if racetest.On() {
		t.Log("NOT TESTED: the memory bomb, since the race detector's own memory does not fit")
	} else if got := w.confined("memory"); !strings.HasPrefix(got, "REFUSED") {
		t.Errorf("a memory bomb: %s", got)
	}
	out := w.sh("head -c 400000000 /dev/zero > /tmp/x")
	if out.ExitCode == 0 {
		t.Errorf("a file of 400 MB fits into 256 MiB of scratch space: %+v", out)
	}
}

func TestBadCommands(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	must(t, os.WriteFile(filepath.Join(w.dir, "out", "planted"), []byte("#!/bin/sh\necho planted\n"), 0o755))
	tests := map[string]struct {
		c    sandbox.Command
		want fault.Code
		text string
	}{
		"no such command":          {sandbox.Command{Argv: []string{"slepe"}}, fault.NotFound, "sleep"},
		"no such file":             {sandbox.Command{Argv: []string{"/usr/bin/no-such-thing"}}, fault.NotFound, ""},
		"a folder":                 {sandbox.Command{Argv: []string{"/usr/bin"}}, fault.ToolFailed, "regular"},
		"a long argument":          {sandbox.Command{Argv: []string{"echo", strings.Repeat("x", 10<<20)}}, fault.ArgsInvalid, "stdin"},
		"a NUL":                    {sandbox.Command{Argv: []string{"echo", "a\x00b"}}, fault.ArgsInvalid, "NUL"},
		"nothing":                  {sandbox.Command{}, fault.ArgsInvalid, "empty"},
		"a variable not listed":    {sandbox.Command{Argv: []string{"env"}, Env: map[string]string{"LD_PRELOAD": "x"}}, fault.HandleRefused, "LD_PRELOAD"},
		"a planted program":        {sandbox.Command{Argv: []string{"./out/planted"}}, fault.HandleRefused, ""},
		"a folder that is missing": {sandbox.Command{Argv: []string{"true"}, Dir: w.dir + "/none"}, fault.NotFound, "folder"},
		"another shell":            {sandbox.Command{Argv: []string{"/bin/cat"}, Shell: true}, fault.Internal, "pinned"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.c.Dir == "" {
				tc.c.Dir = w.dir
			}
			_, err := w.box.Run(context.Background(), w.p, tc.c)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestAProgramInTheWorkspaceNeedsItsPathSpelled(t *testing.T) {
	w := newWorld(t, strings.Replace(openPolicy, `"**", "EXE **"`, `"./out/mine **", "./*/other"`, 1))
	for _, name := range []string{"mine", "other"} {
		must(t, os.WriteFile(filepath.Join(w.dir, "out", name), []byte("#!/bin/sh\necho mine\n"), 0o755))
	}
	if out, err := w.run(sandbox.Command{Argv: []string{"./out/mine"}}); err != nil || string(out.Stdout.Data) != "mine\n" {
		t.Errorf("spelled: got %q, %v", out.Stdout.Data, err)
	}
	if out, err := w.run(sandbox.Command{Argv: []string{"./out/other"}}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("not spelled: got %q, %v", out.Stdout.Data, err)
	}
	for _, a := range []tool.Action{{Argv: []string{"./out/other"}}, {Argv: []string{"ls"}}, {Unknown: "x"}, {Argv: []string{"./out/mine"}}} {
		a.Kind, a.Dir = tool.Command, w.dir
		out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", "./out/mine"}, Shell: true, Starts: []tool.Action{a}})
		if ok := err == nil; ok != (len(a.Argv) > 0 && a.Argv[0] == "./out/mine") || !ok && !errors.Is(err, fault.HandleRefused) {
			t.Errorf("a script that starts %s: got %q, %v", a, out.Stdout.Data, err)
		}
	}
}

func TestAPermitThatEndedRunsNothing(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.p.End()
	if _, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"true"}, Dir: w.dir}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("got %v", err)
	}
}

func TestProbeFindsEveryLayer(t *testing.T) {
	for _, l := range linux.Probe(context.Background()) {
		if !l.Available && l.Required {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s: %s (%s)", l.Name, l.Detail, l.Hint)
			} else {
				t.Skipf("NOT TESTED: this machine lacks %s: %s (%s)", l.Name, l.Detail, l.Hint)
			}
		}
		t.Logf("%-20s %v %s", l.Name, l.Available, l.Detail)
	}
}

func BenchmarkTrue(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			must(b, exec.Command("/bin/true").Run())
		}
	})
	b.Run("sandbox", func(b *testing.B) {
		w := newWorld(b, openPolicy)
		w.sh("true")
		for b.Loop() {
			if _, err := w.run(sandbox.Command{Argv: []string{"true"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
