package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const shellPolicy = "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**'], deny: ['kept/**']}}\ncommands: {allow: ['**'], deny: ['rm **']}\n"

// shells prepares a world for scripts; its keeper runs.
func shells(t *testing.T) (w *world, policy string) {
	t.Helper()
	w = newWorld(t).durability("process")
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	w.write("a.txt", "a\n")
	return w.keeper(), w.beside("p.yaml", shellPolicy)
}

// shell is remit sh with a script, by the keeper or by a process of its own.
func (w *world) shell(kept bool, policy, script string) *exec.Cmd {
	c := w.command("sh", "-p", policy, "-w", w.workspace, "-c", script)
	if kept {
		c.Path = binary + "-hook"
	}
	return c
}

// ran runs a command with an input.
func ran(t *testing.T, c *exec.Cmd, in string) result {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// A script does the same by the keeper as by a process of its own, to the byte.
func TestKeptScriptsAreTheSame(t *testing.T) {
	w, policy := shells(t)
	large := strings.Repeat("\x00\xff\n binary", 1<<20)
	for script, in := range map[string]string{
		"true": "", "exit 7": "", "echo a; echo b >&2; exit 3": "", "kill -9 $$": "", "kill -TERM $$": "", "cat": large, "cat >&2": "in",
		"wc -c; echo more": "in", "rm a.txt": "", "echo x >kept/a": "", "nosuch-program": "", "echo \"": "", "'": "", "cat a.txt; pwd; echo $0 $# $PATH $HOME": "",
		"id; umask; ulimit -a; ls /proc/self/fd | wc -l": "", "cat /etc/shadow": "", "read x; echo \"<$x>\"": "line\nrest", "sleep 0.1 & exit 4": "",
		"printf 'a\\0b' ; printf '\\033[1m' >&2": "", "tty; test -t 1 || echo no": "", "env | cut -d= -f1 | sort": "", "cat </dev/tty": "", "set -e; false; echo not": "", "sleep 9 >/dev/null 2>&1 </dev/null & disown; exit 4": "",
	} {
		w.mkdir(filepath.Join(w.workspace, "kept"))
		alone, before := ran(t, w.shell(false, policy, script), in), w.answered()
		kept := ran(t, w.shell(true, policy, script), in)
		if kept != alone || w.answered() != before+1 {
			t.Errorf("%q: by the keeper %d %.300q %.300q, alone %d %.300q %.300q; it answered %d calls", script, kept.status, kept.out, kept.err, alone.status, alone.out, alone.err, w.answered()-before)
		}
	}
	for name, change := range map[string]func(c *exec.Cmd){
		"a missing policy": func(c *exec.Cmd) { c.Args[3] += "x" },
		"a relative one":   func(c *exec.Cmd) { c.Args[3], c.Dir = "p.yaml", filepath.Dir(policy) },
		"another folder":   func(c *exec.Cmd) { c.Args[7], c.Dir = "pwd", w.mkdirIn("src") },
		"a variable":       func(c *exec.Cmd) { c.Args[7], c.Env = "echo $LANG", append(c.Env, "LANG=C.UTF-8") },
		"a flag":           func(c *exec.Cmd) { c.Args = append(c.Args, "--nosuch") },
		"a long session":   func(c *exec.Cmd) { c.Args = append(c.Args, "--session", strings.Repeat("x", 201)) },
		"a session":        func(c *exec.Cmd) { c.Args = append(c.Args, "--session", "-c") },
		"no script":        func(c *exec.Cmd) { c.Args[7] = "" },
	} {
		var got [2]result
		for i := range got {
			c := w.shell(i == 1, policy, "echo x")
			change(c)
			got[i] = ran(t, c, "")
		}
		if got[0] != got[1] {
			t.Errorf("%s: %+v, by the keeper %+v", name, got[0], got[1])
		}
	}
	w.must(0, "verify")
}

// The same on a terminal.
func TestKeptScriptsOnATerminal(t *testing.T) {
	w, policy := shells(t)
	on := func(kept bool, script string) (string, int) {
		main, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer main.Close()
		n, err := unix.IoctlGetInt(int(main.Fd()), unix.TIOCGPTN)
		if err = errors.Join(err, unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
			t.Fatal(err)
		}
		side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		mode, err := unix.IoctlGetTermios(int(side.Fd()), unix.TCGETS)
		if err == nil {
			mode.Lflag &^= unix.ECHO // it comes before or behind what the script prints
			err = unix.IoctlSetTermios(int(side.Fd()), unix.TCSETS, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		c := w.shell(kept, policy, script)
		c.Env = append(c.Env, "TERM=xterm")
		c.Stdin, c.Stdout, c.Stderr = side, side, side
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := errors.Join(c.Start(), side.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := main.WriteString("typed\n\x04"); err != nil {
			t.Error(err)
		}
		said, _ := io.ReadAll(main) // an error ends it: nobody has the other side open
		_ = c.Wait()
		return string(said), c.ProcessState.ExitCode()
	}
	for _, script := range []string{"cat", "rm a.txt", "kill -9 $$", "test -t 0 || test -t 1 || echo none; exit 5", "true"} {
		before := w.answered()
		out, status := on(true, script)
		if w.answered() != before+1 {
			t.Errorf("%q: the keeper did not run it", script)
		}
		if alone, want := on(false, script); out != alone || status != want {
			t.Errorf("%q: by the keeper %d %q, alone %d %q", script, status, out, want, alone)
		}
	}
}

func (w *world) mkdirIn(name string) string {
	dir := filepath.Join(w.workspace, name)
	w.mkdir(dir)
	return dir
}

// What changes between two scripts counts for the second one, and nothing waits for input that never ends.
func TestAKeptScriptIsNeverStale(t *testing.T) {
	w, policy := shells(t)
	r, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer feed.Close()
	for n, want := range []int{0, 3, 0} {
		c := w.shell(true, policy, "cat a.txt")
		c.Stdin = r
		if err := c.Run(); c.ProcessState.ExitCode() != want || w.answered() != n+1 {
			t.Errorf("call %d: %v, %d calls", n, err, w.answered())
		}
		w.beside("p.yaml", strings.Replace(shellPolicy, "rm **", []string{"cat **", "rm **", "rm **"}[n], 1))
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if got := ran(t, w.shell(true, policy, "cat; echo "+fmt.Sprint(i)), "in\n"); got.out != fmt.Sprintf("in\n%d\n", i) {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if n := w.answered(); n != 19 {
		t.Errorf("it answered %d calls", n)
	}
	w.must(0, "verify")
}

// A script learns that nobody reads its output.
func TestAScriptWithoutAReaderEnds(t *testing.T) {
	w, policy := shells(t)
	for _, kept := range []bool{false, true} {
		c := w.shell(kept, policy, "yes; echo yes ended >&2")
		out, err := c.StdoutPipe()
		var errs bytes.Buffer
		c.Stderr = &errs
		if err = errors.Join(err, c.Start()); err != nil {
			t.Fatal(err)
		}
		_, err = io.CopyN(io.Discard, out, 2)
		_ = out.Close()
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		select {
		case werr := <-done:
			if err != nil || werr != nil || !strings.Contains(errs.String(), "yes ended") {
				t.Errorf("by the keeper %t: %v, %v, %s", kept, err, werr, errs.String())
			}
		case <-time.After(20 * time.Second):
			t.Errorf("by the keeper %t: it goes on", kept)
			_ = c.Process.Kill()
		}
	}
}

// Whoever is killed in the middle, a script never runs twice, and its processes end with it.
func TestAKilledKeptScript(t *testing.T) {
	w, policy := shells(t)
	rounds := 6
	if soak() {
		rounds = 200
	}
	for i := range rounds {
		name := fmt.Sprintf("said%d", i)
		c := w.shell(true, policy, "echo begin >>"+name+"; i=0; while [ \"$i\" -lt 100 ]; do echo $i >>"+name+"; i=$((i+1)); sleep 0.01; done")
		var errs bytes.Buffer
		c.Stderr = &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		victim := c.Process.Pid
		if i%2 == 1 {
			victim = w.keeperPID()
		}
		time.Sleep(rand.N(200 * time.Millisecond)) // the moment is the point
		_ = syscall.Kill(victim, syscall.SIGKILL)
		status := -1
		if err := c.Wait(); err != nil || i%2 == 1 {
			status = c.ProcessState.ExitCode()
		}
		first := w.whole(filepath.Join(w.workspace, name))
		if n := strings.Count(first, "begin"); n > 1 || strings.HasSuffix(first, "99\n") && status != 0 {
			t.Errorf("round %d: it began %d times; status %d, %s", i, n, status, errs.String())
		}
		if i%2 == 1 {
			if status == 1 && !strings.Contains(errs.String(), "the keeper ended while the command ran") || status != 0 && status != 1 {
				t.Errorf("round %d: status %d, %s", i, status, errs.String())
			}
			w.keeper()
		}
	}
	if out := w.must(0, "runs", "--json"); strings.Contains(out, `"running"`) {
		t.Error("a run is open: " + out)
	}
	w.must(0, "verify")
}

// whole is the content of a file, if it is there, that a script adds a line to every few milliseconds. The
// script must have ended, or end within 2 seconds.
func (w *world) whole(file string) string {
	w.t.Helper()
	read := func() string {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
		return string(b)
	}
	for until := time.Now().Add(2 * time.Second); ; {
		first := read()
		time.Sleep(200 * time.Millisecond)
		if then := read(); then == first {
			return first
		}
		if time.Now().After(until) {
			w.t.Error("the script goes on after its end")
			return first
		}
	}
}

// keeperPID is the process of the keeper.
func (w *world) keeperPID() int {
	w.t.Helper()
	var st struct{ PID int }
	decode(w.t, w.must(0, "keeper", "status", "--json"), &st)
	return st.PID
}
