package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// ledgerDisk is a small file system in memory, in a mount namespace of its own, for $REMIT_HOME.
type ledgerDisk struct {
	t      *testing.T
	folder string
	enter  []string // runs a command in the namespace
}

func newLedgerDisk(t *testing.T) *ledgerDisk {
	t.Helper()
	d := &ledgerDisk{t: t, folder: t.TempDir()}
	line := []string{"unshare", "--mount"}
	if os.Getuid() != 0 {
		line = []string{"unshare", "--map-root-user", "--mount"}
	}
	holder := exec.Command(line[0], append(line[1:], "sh", "-c", `mount -t tmpfs -o mode=0700,size=64m tmpfs "$0" && echo mounted && exec cat`, d.folder)...)
	out, err := holder.StdoutPipe()
	in, ierr := holder.StdinPipe()
	if err = errors.Join(err, ierr, holder.Start()); err != nil {
		t.Skip("needs unshare: ", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = holder.Wait() }) // it ends with its input
	if text, _ := bufio.NewReader(out).ReadString('\n'); text == "" {
		t.Skip("a file system in memory cannot be mounted in a namespace of its own")
	}
	d.enter = []string{"nsenter", "--mount", "--target", strconv.Itoa(holder.Process.Pid)}
	if os.Getuid() != 0 {
		d.enter = append(d.enter, "--user", "--preserve-credentials")
	}
	return d
}

// do runs a script in the namespace. Its $0 is the folder.
func (d *ledgerDisk) do(script string) {
	d.t.Helper()
	line := append(append([]string{}, d.enter...), "sh", "-c", script, d.folder)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// fill leaves no room. The disk cannot be made smaller than its content, and the service may write between
// the look and the change, so it is tried again.
func (d *ledgerDisk) fill() {
	d.do(`fill() { mount -o remount,size=$(( $(df --output=used -k "$0" | tail -n 1) ))k "$0"; }
		for try in $(seq 50); do fill 2>/dev/null && exit; done; fill`)
}

func (d *ledgerDisk) free() { d.do(`mount -o remount,size=64m "$0"`) }

// writes are calls that each write a file of its own, and their answers.
type writes struct {
	s    *serving
	next atomic.Int64

	mu       sync.Mutex
	done     map[string]bool // the files of the calls that were answered as completed
	refused  []string        // the bodies of the other answers
	refusals atomic.Int64
}

// one makes a call and reports whether it was answered as completed.
func (w *writes) one() bool {
	name := fmt.Sprintf("%d.txt", w.next.Add(1))
	status, b, err := w.s.raw("POST", "/v1/tools/fs.write/invoke", map[string]any{"args": map[string]any{"path": name, "content": name}})
	var answer struct{ Status string }
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && status == 200 && json.Unmarshal(b, &answer) == nil && answer.Status == "completed" {
		w.done[name] = true
		return true
	}
	w.refused = append(w.refused, fmt.Sprintf("%d %s %v", status, b, err))
	w.refusals.Add(1)
	return false
}

// during makes calls, several at a time, until one was refused. With least it makes so many, whatever happens.
func (w *writes) during(least int64) {
	begin, refused := w.next.Load(), w.refusals.Load()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for w.next.Load() < begin+least || least == 0 && w.refusals.Load() == refused {
				w.one()
			}
		})
	}
	all.Wait()
}

// refusedNow makes a call that must not be acknowledged.
func (w *writes) refusedNow() {
	w.s.t.Helper()
	if w.one() {
		w.s.t.Error("a call is acknowledged")
	}
}

// log is the text of the service's log.
func (w *writes) log() (text string) {
	files, _ := filepath.Glob(filepath.Join(fmt.Sprintf("/proc/%d/root", w.s.cmd.Process.Pid), w.s.home, "logs", "*"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		text += string(b)
	}
	return text
}

// recorded are the files of the recorded calls, by their status.
func (w *writes) recorded() map[string]string {
	out := map[string]string{}
	for before := ""; ; {
		var runs struct {
			Items []struct {
				ID string `json:"run_id"`
			}
			Next string `json:"next_cursor"`
		}
		w.s.ask("GET", "/v1/runs?limit=100"+before, nil, &runs)
		for _, r := range runs.Items {
			var calls struct {
				Items []struct {
					Status string
					Args   struct{ Path string }
				}
			}
			w.s.ask("GET", "/v1/runs/"+r.ID+"/calls?limit=500", nil, &calls)
			for _, c := range calls.Items {
				out[c.Args.Path] = c.Status
			}
		}
		if runs.Next == "" {
			return out
		}
		before = "&cursor=" + runs.Next
	}
}

// ledgerTroubles are conditions of the ledger's files while a service runs. Each ends with what it returns.
var ledgerTroubles = map[string]func(d *ledgerDisk, s *serving, w *writes){
	"a full disk": func(d *ledgerDisk, _ *serving, w *writes) {
		d.fill()
		w.during(0)
		d.free()
	},
	"a limit on the size of files": func(d *ledgerDisk, s *serving, w *writes) {
		var was unix.Rlimit
		if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 8 << 10, Max: unix.RLIM_INFINITY}, &was); err != nil {
			d.t.Fatal(err)
		}
		w.during(0)
		if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &was, nil); err != nil {
			d.t.Fatal(err)
		}
	},
	"few file descriptors": func(d *ledgerDisk, s *serving, w *writes) {
		for free := range 8 {
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
			var was unix.Rlimit
			if err == nil {
				err = unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was)
			}
			if err == nil {
				err = unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + 2*free), Max: was.Max}, nil)
			}
			if err != nil {
				d.t.Fatal(err)
			}
			w.during(8)
			if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &was, nil); err != nil {
				d.t.Fatal(err)
			}
		}
	},
	"the database is moved": func(d *ledgerDisk, _ *serving, w *writes) {
		d.do(`mv "$0/home/remit.db" "$0/away"`)
		w.refusedNow()
		d.do(`mv "$0/away" "$0/home/remit.db"`)
	},
	"the database is replaced": func(d *ledgerDisk, _ *serving, w *writes) {
		d.do(`mv "$0/home/remit.db" "$0/away" && cp "$0/away" "$0/home/remit.db"`)
		w.refusedNow()
		d.do(`mv "$0/away" "$0/home/remit.db"`)
	},
	"the folder is moved": func(d *ledgerDisk, _ *serving, w *writes) {
		d.do(`mv "$0/home" "$0/away"`)
		w.refusedNow()
		d.do(`rm -rf "$0/home" && mv "$0/away" "$0/home"`) // the service may have made another one, for its logs
	},
	"another process has the lock": func(d *ledgerDisk, _ *serving, w *writes) {
		line := append(append([]string{}, d.enter...), "sqlite3", d.folder+"/home/remit.db")
		c := exec.Command(line[0], line[1:]...)
		in, err := c.StdinPipe()
		out, oerr := c.StdoutPipe()
		if err = errors.Join(err, oerr, c.Start()); err != nil {
			d.t.Skip("needs sqlite3: ", err)
		}
		_, _ = io.WriteString(in, "BEGIN IMMEDIATE;\nSELECT 'locked';\n")
		_, _ = bufio.NewReader(out).ReadString('\n')
		done := make(chan struct{})
		go func() { defer close(done); w.during(4) }()
		_, _ = io.WriteString(in, ".shell sleep "+map[bool]string{true: "8", false: "1"}[soak()]+"\nROLLBACK;\n.quit\n")
		_ = in.Close()
		_ = c.Wait()
		<-done
	},
}

// Whatever happens to the ledger's files while a service runs: no call is made without its intent,
// nothing that was acknowledged is lost, and the service goes on by itself.
func TestAServiceSurvivesTroubleWithItsLedger(t *testing.T) {
	for name, trouble := range ledgerTroubles {
		t.Run(name, func(t *testing.T) {
			d := newLedgerDisk(t)
			w := newWorld(t)
			d.do(`mkdir "$0/home" && echo 'ledger: {durability: power}' > "$0/home/config.yaml"`)
			w.home = filepath.Join(d.folder, "home")
			policy := w.beside("policy.yaml", "version: 1\nfiles: {write: {allow: ['**']}}\n")
			s := &serving{world: w, enter: d.enter, flags: []string{"--workspace", w.workspace}}
			s.begin(policy)
			t.Cleanup(s.kill)
			all := &writes{s: s, done: map[string]bool{}}
			if !all.one() {
				t.Fatal(all.refused)
			}
			pid := s.cmd.Process.Pid
			trouble(d, s, all)
			w.until("a call after "+name, all.one)
			for _, text := range append(all.refused, all.log()) {
				if strings.Contains(text, "SQLite failed") || strings.Contains(text, "try again; remit verify") {
					t.Errorf("the reason is unclear: %s", text)
				}
			}
			recorded := all.recorded()
			for file := range tree(t, w.workspace) {
				if strings.HasSuffix(file, ".txt") && recorded[file] == "" {
					t.Errorf("%s was written without a record", file)
				}
			}
			for file := range all.done {
				if recorded[file] != "completed" {
					t.Errorf("%s was acknowledged, and is recorded as %q", file, recorded[file])
				}
			}
			if s.cmd.Process.Pid != pid || s.cmd.ProcessState != nil {
				t.Error("the service was started again")
			}
			s.end()
			c := w.command("verify")
			line := append(append([]string{}, d.enter...), c.Args...)
			if out, err := func() ([]byte, error) {
				v := exec.Command(line[0], line[1:]...)
				v.Env, v.Dir = c.Env, c.Dir
				return v.CombinedOutput()
			}(); err != nil {
				t.Errorf("verify: %v\n%s", err, out)
			}
			if testing.Verbose() {
				t.Logf("%d calls, %d completed, refused: %.300q", all.next.Load(), len(all.done), all.refused)
			}
		})
	}
}

// Commands that only read work on a full disk, and the others name it.
func TestCommandsOnAFullDisk(t *testing.T) {
	d := newLedgerDisk(t)
	w := newWorld(t)
	w.home = filepath.Join(d.folder, "home")
	d.do(`mkdir "$0/home"`)
	policy := w.beside("policy.yaml", "version: 1\nfiles: {write: {allow: ['**']}}\n")
	plan := w.plan("p", 1, call{Tool: "fs.write", Args: map[string]any{"path": "a.txt", "content": "x"}})
	remit := func(args ...string) (string, error) {
		c := w.command(args...)
		line := append(append([]string{}, d.enter...), c.Args...)
		inside := exec.Command(line[0], line[1:]...)
		inside.Env, inside.Dir = c.Env, c.Dir
		out, err := inside.CombinedOutput()
		return string(out), err
	}
	run := []string{"run", plan, "-p", policy, "-w", w.workspace}
	if out, err := remit(run...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.fill()
	for _, args := range [][]string{{"verify"}, {"runs"}, {"keys"}, {"report", "last"}} {
		if out, err := remit(args...); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if out, err := remit(run...); err == nil || !strings.Contains(out, "no space is left on the disk") {
		t.Errorf("%v: %s", err, out)
	}
	d.free()
	for _, args := range [][]string{run, {"verify"}} {
		if out, err := remit(args...); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}
