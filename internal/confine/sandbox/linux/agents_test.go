//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// piped is a command of an agent's session on its way.
type piped struct {
	sandbox.Outcome
	out, err string
}

// session is a session whose policies are those that the world has.
func (w *world) session(id string) sandbox.Session {
	return sandbox.Session{ID: id, Policies: func() (policy.Chain, error) {
		if now := w.now.Load(); now != nil {
			return *now, nil
		}
		return nil, errors.New("no policy holds")
	}}
}

// inSession runs a script as a command of an agent's session, with streams of its own.
func (w *world) inSession(ctx context.Context, session, script string) (piped, error) {
	w.t.Helper()
	stdio := &sandbox.Stdio{}
	var in, out, errs *os.File
	for _, ends := range [][2]**os.File{{&stdio.In, &in}, {&out, &stdio.Out}, {&errs, &stdio.Err}} {
		r, wr, err := os.Pipe()
		must(w.t, err)
		*ends[0], *ends[1] = r, wr
	}
	must(w.t, in.Close())
	var p piped
	var reads sync.WaitGroup
	for from, to := range map[*os.File]*string{out: &p.out, errs: &p.err} {
		reads.Go(func() {
			b, _ := io.ReadAll(from)
			_ = from.Close()
			*to = string(b)
		})
	}
	o, err := w.box.Run(ctx, w.p, sandbox.Command{Argv: []string{"/bin/bash", "-c", script}, Shell: true, Dir: w.dir, Timeout: time.Minute, Session: w.session(session), Stdio: stdio})
	reads.Wait()
	p.Outcome = o
	return p, err
}

// says runs a script and compares what it prints.
func (w *world) says(session, script, want string) piped {
	w.t.Helper()
	p, err := w.inSession(context.Background(), session, script)
	if err != nil || p.ExitCode != 0 || strings.TrimSpace(p.out) != want || p.Tier != "agent" {
		w.t.Fatalf("%s\nprints %q, %q (%+v, %v), want %q", script, p.out, p.err, p.Outcome, err, want)
	}
	return p
}

// TestCommandsOfAnAgentShareASandbox: files, processes and servers of one command are there for the next one
// of the session, and for no other.
func TestCommandsOfAnAgentShareASandbox(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.says("one", "echo left > /tmp/x; echo $$ > /tmp/pid; sleep 60 & echo $! > /tmp/sleeper; python3 -m http.server --directory /tmp 8000 >/tmp/log 2>&1 & echo ok", "ok")
	w.says("one", "cat /tmp/x", "left")
	w.says("one", "for i in $(seq 100); do curl -sf http://127.0.0.1:8000/x && break; sleep 0.05; done", "left")
	w.says("one", "kill -0 $(cat /tmp/sleeper) && kill $(cat /tmp/sleeper) && echo ended", "ended")
	w.says("two", "ls /tmp/x 2>&1 || curl -s --max-time 2 http://127.0.0.1:8000/x || echo none", "ls: cannot access '/tmp/x': No such file or directory\nnone")
	if p, err := w.inSession(context.Background(), "one", "cat; echo err >&2; exit 3"); err != nil || p.ExitCode != 3 || p.err != "err\n" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := w.inSession(context.Background(), "one", "kill -9 $$"); err != nil || p.Signal != "SIGKILL" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestWhatACommandLeavesDoesNotHoldItUp: neither its end, nor its output, nor a later writer.
func TestWhatACommandLeavesDoesNotHoldItUp(t *testing.T) {
	w := newWorld(t, openPolicy)
	began := time.Now()
	p, err := w.inSession(context.Background(), "s", "(for i in $(seq 600); do echo tick; sleep 0.1; done) & echo $! > /tmp/writer; echo begun")
	if took := time.Since(began); err != nil || !strings.Contains(p.out, "begun\n") || took > 30*time.Second {
		t.Errorf("the command took %v, and printed %q, %v", took, p.out, err)
	}
	w.says("s", "sleep 0.5; kill -0 $(cat /tmp/writer) && echo lives", "lives")
	big := strings.Repeat("0123456789abcdef", 1<<14)
	must(t, os.WriteFile(w.dir+"/big", []byte(big), 0o600))
	w.says("s", "sleep 30 & cat big", big)
}

// TestASlowReaderGetsAllOutput: however late it begins, also if processes are left that could write.
func TestASlowReaderGetsAllOutput(t *testing.T) {
	w := newWorld(t, openPolicy)
	for _, size := range []int{1, 4096, 65_536, 65_537, 131_072, 200_000, 1_000_000} {
		for _, left := range []string{"", "sleep 20 & "} {
			t.Run(fmt.Sprint(size, left), func(t *testing.T) {
				t.Parallel()
				stdio := &sandbox.Stdio{}
				var ends [3]*os.File
				for i, command := range []**os.File{&stdio.In, &stdio.Out, &stdio.Err} {
					r, wr, err := os.Pipe()
					must(t, err)
					ends[i], *command = r, wr
					if i == 0 {
						ends[i], *command = wr, r
					}
				}
				done := make(chan error, 1)
				go func() {
					script := fmt.Sprintf("%shead -c %d /dev/zero", left, size)
					_, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"/bin/bash", "-c", script}, Shell: true, Dir: w.dir, Session: w.session("s"), Stdio: stdio})
					done <- err
				}()
				time.Sleep(3 * time.Second) // this long, nobody reads
				got, err := io.ReadAll(ends[1])
				if err != nil || len(got) != size {
					t.Errorf("%d bytes of %d were read, %v", len(got), size, err)
				}
				must(t, <-done)
				for _, f := range ends {
					must(t, f.Close())
				}
			})
		}
	}
}

// TestAnAgentsCommandsRunBesideEachOther: each with its own end, output and refusals.
func TestAnAgentsCommandsRunBesideEachOther(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.says("s", "echo begun", "begun")
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			p, err := w.inSession(context.Background(), "s", fmt.Sprintf("echo %d; (echo %d > no-%d) 2>/dev/null; echo e%d >&2; exit %d", i, i, i, i, i))
			if err != nil || p.ExitCode != i || p.out != fmt.Sprintf("%d\n", i) || p.err != fmt.Sprintf("e%d\n", i) || p.Tier != "agent" {
				t.Errorf("%d: %+v, %v", i, p, err)
			}
			if len(p.Refusals) != 1 || !strings.HasSuffix(p.Refusals[0].Path, fmt.Sprintf("/no-%d", i)) {
				t.Errorf("%d: refused %+v", i, p.Refusals)
			}
		})
	}
	all.Wait()
}

// TestACancelledCommandLeavesNothing: its processes end, also those that left its process tree; others stay.
func TestACancelledCommandLeavesNothing(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.says("s", "sleep 60 & echo $! > /tmp/other; echo ok", "ok")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := w.inSession(ctx, "s", "(setsid sh -c 'echo $$ > /tmp/daemon; trap \"\" TERM HUP INT; while :; do sleep 1; done' &) ; sleep 60 & echo $! > /tmp/child; sleep 60")
		done <- err
	}()
	w.says("s", "for i in $(seq 200); do test -s /tmp/daemon -a -s /tmp/child && break; sleep 0.05; done; kill -0 $(cat /tmp/daemon) $(cat /tmp/child) && echo running", "running")
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the command was not cancelled")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the command does not end")
	}
	w.says("s", "for f in daemon child other; do kill -0 $(cat /tmp/$f) 2>/dev/null && echo $f; done; true", "other")
}

// TestWhatIsLeftIsStillDecided: a process that outlives its command has the command's authority, no more.
func TestWhatIsLeftIsStillDecided(t *testing.T) {
	w := newWorld(t, openPolicy+"")
	w.file("out/ok", "")
	w.says("s", "(while ! test -e /tmp/go; do sleep 0.05; done; echo x > out/late; echo x > late; echo x >> out/ok; touch /tmp/came) >/dev/null 2>&1 & echo ok", "ok")
	w.says("s", "touch /tmp/go; for i in $(seq 200); do test -e /tmp/came && break; sleep 0.05; done; echo over", "over")
	if _, err := os.Stat(w.dir + "/late"); err == nil {
		t.Error("a file was written that no policy allows")
	}
	if b, err := os.ReadFile(w.dir + "/out/late"); err != nil || string(b) != "x\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRefusalsToWhatIsLeftAreRecorded: in the record of the next command of the session, a bounded number of them.
func TestRefusalsToWhatIsLeftAreRecorded(t *testing.T) {
	for _, names := range []int{1, 31, 32, 33, 3000} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openPolicy)
			w.says("s", fmt.Sprintf("(while ! test -e /tmp/go; do sleep 0.05; done; for i in $(seq %d); do echo x > no-$i; echo x > no-$i; done; touch /tmp/came) >/dev/null 2>&1 & echo ok", names), "ok")
			w.says("s", "touch /tmp/go; for i in $(seq 600); do test -e /tmp/came && break; sleep 0.05; done; rm /tmp/came && echo over", "over")
			list, more := w.p.Refused()
			count := more
			for i, r := range list {
				if count += r.Count; !strings.Contains(r.Action, "/no-") || !strings.Contains(r.Reason, "; by a process that call 7 of run r left") {
					t.Errorf("%d: %+v", i, r)
				}
			}
			if len(list) != min(names, 32) || count != 2*names {
				t.Errorf("%d refusals and %d more are recorded, of %d files", len(list), more, names)
			}
			for _, session := range []string{"s", "other"} {
				w.allow(openPolicy)
				w.says(session, "echo next", "next")
				if list, more := w.p.Refused(); len(list)+more != 0 {
					t.Errorf("session %s: %v, %d", session, list, more)
				}
			}
		})
	}
}

// TestAStoppedCommandGoesOn: its own first process is one that other commands of the session can stop.
func TestAStoppedCommandGoesOn(t *testing.T) {
	w := newWorld(t, openPolicy)
	done := make(chan piped, 1)
	go func() {
		p, err := w.inSession(context.Background(), "s", "echo $PPID > /tmp/first; while ! test -e /tmp/stopped; do sleep 0.05; done; sleep 60 & echo over")
		if err != nil {
			t.Error(err)
		}
		done <- p
	}()
	w.says("s", "while ! test -s /tmp/first; do sleep 0.05; done; kill -STOP $(cat /tmp/first) && touch /tmp/stopped && echo stopped", "stopped")
	if p := <-done; p.TimedOut || p.ExitCode != 0 || p.out != "over\n" {
		t.Errorf("%+v", p)
	}
}

// TestNoAnswerOutlivesItsCommand: what a command leaves behind has none of the approvals that a person gave to it.
func TestNoAnswerOutlivesItsCommand(t *testing.T) {
	const asks = "version: 1\nname: test\nfiles:\n  read:  {allow: [\"**\"], ask: [\"**/asked*\"]}\n  write: {allow: [\"**\"], ask: [\"**/asked*\"]}\ncommands: {allow: [\"**\"], timeout: 300s}\n"
	for name, use := range map[string]string{
		"read":    "cat asked",
		"written": "echo x >> asked",
		"both":    "exec 3<>asked",
		"removed": "rm asked; touch asked",
		"linked":  "ln asked out/mine; rm out/mine",
		"listed":  "ls asked-folder",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, asks)
			w.file("asked", "text")
			w.file("asked-folder/f", "")
			questions := w.asked(func(tool.Action) bool { return true })
			w.says("s", "("+use+") >/dev/null && echo during; (while ! test -e /tmp/go; do sleep 0.05; done; ("+use+") >/dev/null 2>&1; echo $? > /tmp/after) >/dev/null 2>&1 & true", "during")
			n := len(questions())
			w.says("s", "touch /tmp/go; for i in $(seq 200); do test -s /tmp/after && break; sleep 0.05; done; test $(cat /tmp/after) != 0 && echo refused", "refused")
			if n == 0 || len(questions()) != n {
				t.Errorf("%d questions, then %d", n, len(questions()))
			}
		})
	}
}

// TestASpoiledSandboxIsReplaced: a command that harms the sandbox of its session harms itself and its like, but the session
// goes on in another one.
func TestASpoiledSandboxIsReplaced(t *testing.T) {
	for name, script := range map[string]string{
		"limits of the first process":   "prlimit --pid 1 --nofile=10:10 --fsize=4096:4096",
		"signals to all":                "(trap '' TERM; sleep 30) & kill -TERM 1; kill -KILL 1; kill -STOP 1; kill -9 -1",
		"all processes":                 "exec python3 -c 'import os,time\nfor i in range(1000):\n try:\n  if os.fork()==0: time.sleep(60); os._exit(0)\n except OSError: pass'",
		"all of /tmp":                   "head -c 1G /dev/zero > /tmp/full; true",
		"another /tmp":                  "rm -rf /tmp/home; ln -s /etc /tmp/home",
		"the ports of the next proxies": "exec python3 -c 'import socket,time\nl=[]\nfor p in range(61100,61140):\n s=socket.socket()\n try: s.bind((\"127.0.0.1\",p)); s.listen(); l.append(s)\n except OSError: pass\nimport os\nif os.fork()==0: time.sleep(60)'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := netWorld(t, openPolicy+"  processes: 64\n  memory: 256MiB\n", func() *proxy { return newProxy("p") })
			w.says("s", "echo first", "first")
			if _, err := w.inSession(context.Background(), "s", script); err != nil {
				t.Fatal(err)
			}
			p, err := w.inSession(context.Background(), "s", "kill -9 -1") // frees what processes hold
			if err != nil {
				t.Fatalf("%+v, %v", p, err)
			}
			p, err = w.inSession(context.Background(), "s", "echo next")
			if err == nil && p.Limit != "" { // memory was full, and the sandbox ended with this command
				p, err = w.inSession(context.Background(), "s", "echo next")
			}
			if err != nil || p.out != "next\n" || p.Tier != "agent" {
				t.Errorf("the next command: %+v, %v", p, err)
			}
		})
	}
}

// TestACrowdedSandboxIsReplaced: however many processes are left, a command fails once at most.
func TestACrowdedSandboxIsReplaced(t *testing.T) {
	for left := 54; left < 68; left++ {
		for kind, start := range map[string]string{"processes": "os.fork() or time.sleep(60)", "threads": "threading.Thread(target=time.sleep, args=(60,)).start()"} {
			t.Run(fmt.Sprint(left, " ", kind), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, openPolicy+"  processes: 64\n")
				fill := fmt.Sprintf("import os,threading,time\nif os.fork()==0:\n for i in range(%d):\n  try: %s\n  except (OSError, RuntimeError): pass\n open('/tmp/filled','w')\n time.sleep(60)\nwhile not os.path.exists('/tmp/filled'): time.sleep(.01)", left, start)
				if _, err := w.inSession(context.Background(), "s", "exec python3 -c '"+strings.ReplaceAll(fill, "'", `"`)+"'"); err != nil {
					t.Fatal(err)
				}
				const next = "exec sh -c 'ls / | cat | cat | cat >/dev/null && echo next'"
				p, err := w.inSession(context.Background(), "s", next)
				if err != nil || p.out != "next\n" {
					p, err = w.inSession(context.Background(), "s", next)
				}
				if err != nil || p.out != "next\n" || p.Tier != "agent" {
					t.Errorf("%+v, %v", p, err)
				}
			})
		}
	}
}

// TestACommandInheritsNothingThatAnotherChanged: of the first process, neither limits nor priorities.
func TestACommandInheritsNothingThatAnotherChanged(t *testing.T) {
	const inherited = "ulimit -Sa; ulimit -Ha; prlimit --noheadings; nice; taskset -p $$ | sed 's/.*://'; ionice -p $$; chrt -p $$ | sed 's/.*://'"
	changes := map[string]string{
		"nice": "renice 5 1", "idle": "chrt -i -p 0 1", "batch": "chrt -b -p 0 1", "processor": "taskset -p 1 1", "disk": "ionice -c 3 -p 1",
	}
	for _, limit := range []string{"as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nofile", "nproc", "rss", "rttime", "sigpending", "stack"} {
		for _, most := range []int{0, 1, 4096, 10_000_000} {
			changes[fmt.Sprint(limit, " ", most)] = fmt.Sprintf("prlimit --pid 1 --%s=%d:%d", limit, most, most)
		}
		changes[limit+" soft"] = fmt.Sprintf("prlimit --pid 1 --%s=1000:", limit)
	}
	w := newWorld(t, openPolicy)
	first, err := w.inSession(context.Background(), "first", inherited)
	if err != nil || strings.Count(first.out, "\n") < 40 {
		t.Fatalf("%+v, %v", first, err)
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p, err := w.inSession(context.Background(), name, change); err != nil {
				t.Fatalf("%+v, %v", p, err)
			}
			if p, err := w.inSession(context.Background(), name, inherited); err != nil || p.out != first.out || p.Tier != "agent" {
				t.Errorf("%s: the next command has %+v, %v; want %s", change, p, err, first.out)
			}
		})
	}
}

// TestAnotherPolicyIsAnotherSandbox: nothing that ran under one policy meets a command under another.
func TestAnotherPolicyIsAnotherSandbox(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.says("s", "echo left > /tmp/x; echo left > /dev/shm/y; (while sleep 0.1; do touch out/alive; done) & echo ok", "ok")
	narrower := openPolicy + "  memory: 1GiB\n"
	w.allow(narrower)
	w.says("s", "ls /tmp/x /tmp/y 2>/dev/null || echo none", "none")
	must(t, os.RemoveAll(w.dir+"/out/alive"))
	time.Sleep(500 * time.Millisecond)
	if _, err := os.Stat(w.dir + "/out/alive"); err == nil {
		t.Error("a process of the other policy is still there")
	}
	w.allow(narrower, openPolicy)
	w.says("s", "touch /tmp/z; ls /tmp/z", "/tmp/z")
	w.allow(narrower, openPolicy)
	w.says("s", "ls /tmp/z", "/tmp/z")
}

// TestAnAgentsCommandsHaveProxiesOfTheirOwn: the record of each has its own connections.
func TestAnAgentsCommandsHaveProxiesOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	made := 0
	w := netWorld(t, netPolicy, func() *proxy {
		mu.Lock()
		defer mu.Unlock()
		made++
		return newProxy(fmt.Sprint("proxy ", made))
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			p, err := w.inSession(context.Background(), "s", fmt.Sprintf("for i in $(seq 0 %d); do http_proxy=$HTTP_PROXY curl -s http://service.test/$i; sleep 0.01; done", i))
			if err != nil || strings.Count(p.out, "answers for") != i+1 || len(p.Connections) != i+1 || p.Tier != "agent" {
				t.Errorf("%d: %+v, %v", i, p, err)
			}
		})
	}
	all.Wait()
	w.says("s", "(sleep 0.3; http_proxy=$HTTP_PROXY curl -s --max-time 5 http://service.test/ > /tmp/late; echo $? > /tmp/code) >/dev/null 2>&1 & echo ok", "ok")
	w.says("s", "for i in $(seq 100); do test -s /tmp/code && break; sleep 0.05; done; cat /tmp/code; wc -c < /tmp/late", "7\n0")
}

// TestAnAgentsSandboxLeaksNothing: neither while it stays, nor after it.
func TestAnAgentsSandboxLeaksNothing(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	w := newWorld(t, netPolicy)
	w.sh("true")
	must(t, w.box.Close())
	before := belongingsNow(t)
	w.box = linux.New(linux.Config{})
	run := func(n int) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				script := []string{"true", "sleep 0.01 &", "(setsid sleep 0.02 &); echo x", "exit 3", "kill -9 $$", "no-such-program"}[i%6]
				if _, err := w.inSession(context.Background(), fmt.Sprint(i%3), script); err != nil {
					t.Errorf("%s: %v", script, err)
				}
			})
			if i%20 == 19 {
				all.Wait()
			}
		}
		all.Wait()
	}
	settle := func(want belongings) belongings {
		now := belongingsNow(t)
		for end := time.Now().Add(20 * time.Second); !now.within(want) && time.Now().Before(end); now = belongingsNow(t) {
			time.Sleep(10 * time.Millisecond)
		}
		return now
	}
	run(20)
	w.says("0", "sleep 0.1", "") // longer than what the others left
	while := belongingsNow(t)
	run(200)
	if now := settle(while); !now.within(while) {
		t.Errorf("after 200 more commands %+v, before %+v", now, while)
	}
	w.box.EndSession("0")
	must(t, w.box.Close())
	if now := settle(before); !now.within(before) {
		t.Errorf("at the end %+v, before %+v", now, before)
	}
}

// TestAKilledProcessOfASessionIsTold: each process from the spawner to the command's own. The next command runs.
func TestAKilledProcessOfASessionIsTold(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	w := newWorld(t, openPolicy)
	for round := range 20 {
		depth := round % 4 // below this process: 0 is the spawner
		w.says("s", "sleep 600 & echo left", "left")
		must(t, os.RemoveAll(w.dir+"/out/begun"))
		done := make(chan error, 1)
		var p piped
		go func() {
			var err error
			p, err = w.inSession(context.Background(), "s", "touch out/begun; exec sleep 601")
			done <- err
		}()
		victim := 0
		for end := time.Now().Add(20 * time.Second); victim == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			for _, pid := range descendants(t, os.Getpid()) {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); string(line) == "sleep\x00601\x00" {
					victim = pid
				}
			}
		}
		for range 3 - depth {
			victim = parentOf(victim)
		}
		must(t, syscall.Kill(victim, syscall.SIGKILL))
		err := <-done
		if told := err != nil && strings.Contains(err.Error(), "the process that makes sandboxes ended"); told != (depth == 0) || depth > 0 && (err != nil || p.Signal != "SIGKILL") {
			t.Errorf("depth %d: %+v, %v", depth, p, err)
		}
		w.says("s", "echo next", "next")
	}
}

// TestWithTheRuntimeEverythingOfASessionEnds: a running command and what others left.
func TestWithTheRuntimeEverythingOfASessionEnds(t *testing.T) {
	w := newWorld(t, openPolicy)
	box := linux.New(linux.Config{})
	w.box = box
	w.says("s", "sleep 600 & echo ok", "ok")
	done := make(chan piped, 1)
	go func() {
		p, _ := w.inSession(context.Background(), "s", "touch out/begun; sleep 600")
		done <- p
	}()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(w.dir + "/out/begun"); err == nil {
			break
		}
	}
	must(t, box.Close())
	select {
	case p := <-done:
		if p.ExitCode == 0 {
			t.Errorf("the command ended with %+v", p)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the command does not end")
	}
}

// TestACommandsTimeEndsItAlone: with all that it started, and no other command.
func TestACommandsTimeEndsItAlone(t *testing.T) {
	w := newWorld(t, strings.Replace(openPolicy, "300s", "1s", 1))
	w.says("s", "sleep 60 & echo $! > /tmp/other; echo ok", "ok")
	p, err := w.inSession(context.Background(), "s", "sleep 61 & (setsid sleep 62 &); sleep 63")
	if err != nil || !p.TimedOut || !strings.Contains(p.Limit, "time limit") {
		t.Errorf("%+v, %v", p, err)
	}
	w.says("s", "kill -0 $(cat /tmp/other) && grep -als '^sleep.6[123]' /proc/[0-9]*/cmdline | wc -l", "0")
}

// settles waits until a file in out is made again and again, or until it is not.
func (w *world) settles(name string, made bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		must(w.t, os.RemoveAll(w.dir+"/out/"+name))
		time.Sleep(300 * time.Millisecond)
		if _, err := os.Stat(w.dir + "/out/" + name); (err == nil) == made {
			return
		}
	}
	w.t.Errorf("%s: still not %t", name, made)
}

// TestAnAuthorityThatWasTakenAwayEnds: what commands left ends, in each way in which their policies or their session can end,
// also while another command of the session runs. That command goes on.
func TestAnAuthorityThatWasTakenAwayEnds(t *testing.T) {
	narrow := func(w *world) { w.allow(openPolicy + "  memory: 1GiB\n") }
	for name, end := range map[string]func(w *world){
		"looked at":            narrow,
		"another command":      func(w *world) { narrow(w); w.says("s", "true", "") },
		"renewed":              func(w *world) { narrow(w); w.box.Renew("s") },
		"no policy":            func(w *world) { w.now.Store(nil) },
		"the end of a session": func(w *world) { w.box.EndSession("s") },
		"spoiled":              func(w *world) { w.says("s", "prlimit --pid 1 --nofile=10:10", ""); w.says("s", "true", "") },
	} {
		for _, runs := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", beside a command: ", runs), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, openPolicy)
				w.says("s", "(while sleep 0.05; do touch out/left; done) >/dev/null 2>&1 & (setsid sh -c 'while sleep 0.05; do touch out/daemon; done' >/dev/null 2>&1 &); echo ok", "ok")
				w.says("other", "(while sleep 0.05; do touch out/other; done) >/dev/null 2>&1 & echo ok", "ok")
				done := make(chan error, 1)
				if runs {
					beside := *w // with the authority of now
					go func() {
						p, err := beside.inSession(context.Background(), "s", "while test ! -e out/enough; do touch out/beside; sleep 0.05; done; echo whole")
						if err == nil && p.out != "whole\n" {
							err = fmt.Errorf("the command beside it: %+v", p)
						}
						done <- err
					}()
				} else {
					done <- nil
				}
				w.settles("left", true)
				w.settles("daemon", true)
				w.settles("beside", runs)
				end(w)
				w.settles("left", false)
				w.settles("daemon", false)
				w.settles("beside", runs)
				if name == "spoiled" || name == "the end of a session" { // else its policy has changed, too
					w.settles("other", true)
				}
				must(t, os.WriteFile(w.dir+"/out/enough", nil, 0o600))
				must(t, <-done)
			})
		}
	}
}

// TestAServerIsFoundByItsPort: the ways in which people find the process of a server, and the interfaces of the network. The descriptors of
// others are listed, but not opened, and those of the sandbox's first process are not listed.
func TestAServerIsFoundByItsPort(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.says("one", "python3 -m http.server --bind 127.0.0.1 8000 >/tmp/log 2>&1 & echo $! > /tmp/pid; for i in $(seq 200); do curl -sf http://0.0.0.0:8000/ -o /dev/null && break; sleep 0.05; done; echo ok", "ok")
	const find = `import os, re, socket
inode = next(l.split()[9] for l in open('/proc/net/tcp') if l.split()[1].endswith(':1F40') and l.split()[3] == '0A')
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        for fd in os.listdir(f'/proc/{pid}/fd'):
            if os.readlink(f'/proc/{pid}/fd/{fd}') == f'socket:[{inode}]' and int(pid) == int(open('/tmp/pid').read()):
                print('found')
    except OSError: pass
for path in ['/proc/1/fd', '/proc/%d/fd/1' % int(open('/tmp/pid').read())]:
    try: print(path, os.listdir(path) if path.endswith('fd') else open(path).read())
    except OSError as e: print(e.strerror)
print(socket.if_nameindex())`
	w.says("one", "cat > /tmp/find.py <<'EOF'\n"+find+"\nEOF\npython3 /tmp/find.py", "found\nPermission denied\nPermission denied\n[(1, 'lo')]")
}
