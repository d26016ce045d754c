package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/bench/stat"
)

// ran is what became of a process.
type ran struct {
	took time.Duration
	rss  int64 // its largest resident set, in bytes
	out  []byte
}

// start runs the program under test to its end.
func (b *bench) start(home, dir string, args ...string) (ran, error) {
	return b.startWith("", home, dir, args...)
}

// startWith is start with a text on standard input.
func (b *bench) startWith(in, home, dir string, args ...string) (ran, error) {
	return b.startProgram(b.remit, in, home, dir, args...)
}

// startHook is startWith for the small program of hooks.
func (b *bench) startHook(in, home, dir string, args ...string) (ran, error) {
	return b.startProgram(b.remit+"-hook", in, home, dir, args[1:]...)
}

func (b *bench) startProgram(program, in, home, dir string, args ...string) (ran, error) {
	cmd := exec.CommandContext(b.ctx, program, args...)
	cmd.Dir = dir
	if in != "" {
		cmd.Stdin = strings.NewReader(in)
	}
	cmd.Env = []string{"HOME=" + home, "REMIT_HOME=" + home, "PATH=/usr/bin:/bin"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return ran{}, err
	}
	watch := watchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	r := ran{took: time.Since(began), rss: watch(), out: out.Bytes()}
	if err != nil {
		return r, fmt.Errorf("%s %v: %w\n%s%s", program, args, err, clip(out.Bytes()), clip(errs.Bytes()))
	}
	return r, nil
}

// watchMemory follows the largest resident set of a process until the function
// that it returns is called, which tells it. (The process's own account at its
// end would begin with the size of the process that started it.)
func watchMemory(pid int) func() int64 {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var most int64
		for {
			select {
			case <-tick.C:
				most = max(most, highWater(pid))
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}

// highWater is a process's VmHWM in bytes, or 0 if it is gone.
func highWater(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}

func clip(b []byte) []byte { return b[:min(len(b), 2000)] }

const processRounds = 21

const readPlan = `version: 1
name: three-reads
steps:
  - {id: a, tool: fs.read, args: {path: a.txt}}
  - {id: b, tool: fs.read, args: {path: b.txt}}
  - {id: c, tool: fs.read, args: {path: c.txt}}
`

const readPolicy = `version: 1
name: reader
files:
  read: {allow: ["**"]}
`

// processes measures the program as it is started by people.
func (b *bench) processes() error {
	dir, err := b.workspace("processes", map[string]string{"a.txt": "one\n", "b.txt": "two\n", "c.txt": "three\n", "plan.yaml": readPlan, "policy.yaml": readPolicy})
	if err != nil {
		return err
	}
	home := filepath.Join(dir, "home")
	plan := []string{"run", "plan.yaml", "-p", "policy.yaml"}
	var first, versions, runs []time.Duration
	for i := range processRounds {
		if i < 5 {
			r, err := b.start(fmt.Sprintf("%s-%d", home, i), dir, plan...)
			if err != nil {
				return err
			}
			first = append(first, r.took)
		}
		v, err := b.start(home, dir, "version")
		if err != nil {
			return err
		}
		r, err := b.start(home, dir, plan...)
		if err != nil {
			return err
		}
		if i > 0 { // the first makes the ledger
			versions, runs = append(versions, v.took), append(runs, r.took)
		}
	}
	v, r := stat.Median(versions), stat.Median(runs)
	b.table.add("`remit version`, whole process", "< 15 ms", ms(v), v < 15*time.Millisecond)
	b.table.add("3-step fs.read plan, whole process", "< 50 ms", ms(r), r < 50*time.Millisecond)
	b.table.note("the same as the first run ever, which makes the ledger and its keys", ms(stat.Median(first)))
	if err := b.starts(dir, home, plan); err != nil {
		return err
	}
	if err := b.hooks(dir, home); err != nil {
		return err
	}
	return b.step(dir, home)
}

// hookEvent is a call of Claude Code, before it is carried out.
func hookEvent(dir, session string, call int) string {
	return fmt.Sprintf(`{"session_id":%q,"hook_event_name":"PreToolUse","tool_name":"Read","tool_use_id":"t%d","tool_input":{"file_path":%q},"cwd":%q}`,
		session, call, filepath.Join(dir, "a.txt"), dir)
}

const (
	hookRounds  = 60
	hooksAtOnce = 8
	longSession = 500 // calls
)

// hooks measures remit hook: how long a session makes it, and several at once.
func (b *bench) hooks(dir, home string) error {
	args := []string{"hook", "claude", "-p", "policy.yaml", "-w", dir}
	calls := 0
	call := func(session string) (time.Duration, error) {
		calls++
		r, err := b.startWith(hookEvent(dir, session, calls), home, dir, args...)
		return r.took, err
	}
	for range longSession {
		if _, err := call("long"); err != nil {
			return err
		}
	}
	var short, long []time.Duration
	for i := range hookRounds {
		s, err := call(fmt.Sprintf("short-%d", i))
		if err != nil {
			return err
		}
		l, err := call("long")
		if err != nil {
			return err
		}
		short, long = append(short, s), append(long, l)
	}
	x := float64(stat.Median(long)) / float64(stat.Median(short))
	b.table.add(fmt.Sprintf("`remit hook` in a session of %d calls, beside its first call", longSession), "≤ 1.25 ×",
		fmt.Sprintf("%.2f × (%s beside %s)", x, ms(stat.Median(long)), ms(stat.Median(short))), x <= 1.25)
	all, err := b.together(func(n, i int) (time.Duration, error) {
		r, err := b.startWith(hookEvent(dir, fmt.Sprintf("together-%d", n), i), home, dir, args...)
		return r.took, err
	})
	if err != nil {
		return err
	}
	p99 := stat.Quantile(all, 0.99)
	b.table.add(fmt.Sprintf("`remit hook`, %d at once, p99", hooksAtOnce), "≤ 40 ms", fmt.Sprintf("%s (p50 %s)", ms(p99), ms(stat.Median(all))), p99 <= 40*time.Millisecond)
	return b.keptTogether(dir, home, args)
}

// keptTogether measures as many clients of one keeper at once, beside as many processes that do nothing.
func (b *bench) keptTogether(dir, home string, args []string) error {
	stop, err := b.keeper(home, dir)
	if err != nil {
		return err
	}
	defer stop()
	own, err := b.together(func(n, i int) (time.Duration, error) {
		r, err := b.startHook(hookEvent(dir, fmt.Sprintf("kept-%d", n), i), home, dir, args...)
		return r.took, err
	})
	if err != nil {
		return err
	}
	other, err := b.together(func(int, int) (time.Duration, error) {
		r, err := b.startProgram(filepath.Join(dir, "hello"), "", home, dir)
		return r.took, err
	})
	if err != nil {
		return err
	}
	x := float64(stat.Quantile(own, 0.99)) / float64(stat.Quantile(other, 0.99))
	b.table.add(fmt.Sprintf("`remit-hook` with a keeper, %d at once, p99, beside as many Go hello worlds", hooksAtOnce), "≤ 3 ×",
		fmt.Sprintf("%.1f × (%s beside %s; p50 %s beside %s)", x, ms(stat.Quantile(own, 0.99)), ms(stat.Quantile(other, 0.99)), ms(stat.Median(own)), ms(stat.Median(other))), x <= 3)
	return nil
}

// keeper starts the keeper of a home. The function that it returns ends it.
func (b *bench) keeper(home, dir string) (stop func(), err error) {
	cmd := exec.CommandContext(b.ctx, b.remit, "keeper", "--home", home)
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		if _, err = b.start(home, dir, "keeper", "status"); err == nil || tries == 100 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it only served
	}, err
}

// together does something hookRounds times in each of hooksAtOnce loops at once.
func (b *bench) together(one func(n, i int) (time.Duration, error)) ([]time.Duration, error) {
	type result struct {
		took []time.Duration
		err  error
	}
	results := make(chan result)
	for n := range hooksAtOnce {
		go func() {
			var r result
			for i := 0; i < hookRounds && r.err == nil; i++ {
				var took time.Duration
				took, r.err = one(n, i)
				r.took = append(r.took, took)
			}
			results <- r
		}()
	}
	var all []time.Duration
	var failed error
	for range hooksAtOnce {
		r := <-results
		all, failed = append(all, r.took...), errors.Join(failed, r.err)
	}
	return all, failed
}

const execPolicy = `version: 1
name: runner
files:
  read: {allow: ["**"]}
commands: {allow: ["**"]}
`

const helloSource = `package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }
`

// starts measures whole processes in turns with the smallest Go program and with
// bubblewrap, where it is installed.
func (b *bench) starts(dir, home string, plan []string) error {
	for name, text := range map[string]string{"hello.go": helloSource, "exec.yaml": execPolicy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	hello := filepath.Join(dir, "hello")
	if out, err := exec.CommandContext(b.ctx, "go", "build", "-ldflags=-s -w", "-o", hello, filepath.Join(dir, "hello.go")).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, clip(out))
	}
	none, hook := func(int) string { return "" }, []string{"hook", "claude", "-p", "policy.yaml", "-w", dir}
	rows := []struct {
		what, peer string
		bar        float64
		start      func(in, home, dir string, args ...string) (ran, error)
		args       []string
		in         func(round int) string
	}{
		{"`remit version`", "hello", 3, b.startWith, []string{"version"}, none},
		{"`remit policy explain`", "hello", 5, b.startWith, []string{"policy", "explain", "policy.yaml", "fs.read", "path=a.txt"}, none},
		{"`remit hook`", "hello", 5, b.startWith, hook, func(n int) string { return hookEvent(dir, "bench", n) }},
		{"`remit-hook` with a keeper", "hello", 2.5, b.startHook, hook, func(n int) string { return hookEvent(dir, "kept", n) }},
		{"3-step plan", "hello", 10, b.startWith, plan, none},
		{"`remit exec -- true`", "bwrap", 3, b.startWith, []string{"exec", "-p", "exec.yaml", "--", "true"}, none},
	}
	stop, err := b.keeper(home, dir)
	if err != nil {
		return err
	}
	defer stop()
	peers := map[string][]string{"hello": {hello}}
	names := map[string]string{"hello": "a Go hello world", "bwrap": "bubblewrap"}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		peers["bwrap"] = []string{bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"}
	}
	for _, row := range rows {
		peer := peers[row.peer]
		if peer == nil {
			b.table.note(row.what+", whole process, beside "+names[row.peer], names[row.peer]+" is not installed")
			continue
		}
		var own, other []time.Duration
		for n := range processRounds {
			r, err := row.start(row.in(n), home, dir, row.args...)
			if err != nil {
				return err
			}
			began := time.Now()
			if out, err := exec.CommandContext(b.ctx, peer[0], peer[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", row.peer, err, clip(out))
			}
			own, other = append(own, r.took), append(other, time.Since(began))
		}
		x := float64(stat.Median(own)) / float64(stat.Median(other))
		b.table.add(row.what+", whole process, beside "+names[row.peer], fmt.Sprintf("≤ %g ×", row.bar),
			fmt.Sprintf("%.1f × (%s beside %s)", x, ms(stat.Median(own)), ms(stat.Median(other))), x <= row.bar)
	}
	return nil
}

// step measures one more step of a plan: decide, record, read a file, log.
func (b *bench) step(dir, home string) error {
	const few, many = 100, 1100
	var times [2][]time.Duration
	for i, n := range []int{few, many} {
		if err := writePlan(filepath.Join(dir, fmt.Sprintf("plan-%d.yaml", n)), n, func(i int) string {
			return fmt.Sprintf("fs.read, args: {path: %c.txt}", "abc"[i%3])
		}); err != nil {
			return err
		}
		for range 5 {
			r, err := b.start(home, dir, "run", fmt.Sprintf("plan-%d.yaml", n), "-p", "policy.yaml")
			if err != nil {
				return err
			}
			times[i] = append(times[i], r.took)
		}
	}
	per := (stat.Median(times[1]) - stat.Median(times[0])) / (many - few)
	b.table.note("one more fs.read step of a plan in `remit run`, everything included", us(per))
	return nil
}

// workspace makes a folder with files.
func (b *bench) workspace(name string, files map[string]string) (string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// writePlan writes a plan of n steps; call gives a step's tool and arguments.
func writePlan(file string, n int, call func(i int) string) error {
	var b bytes.Buffer
	b.WriteString("version: 1\nname: long\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {tool: %s}\n", call(i))
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
