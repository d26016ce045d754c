package e2e_test

import (
	"bufio"
	"io"
	"syscall"
	"testing"
)

// TestSignalsReachTheCommand: a signal to remit exec is the command's, whose handler ends it in its own way. The run is recorded as
// cancelled. A command without a handler ends, too, and so do the processes that it has started.
func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	w := newTreeWorld(t)
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	w.write("p.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**']}\n")
	const waits = "echo ready; for i in $(seq 3000); do sleep 0.1; done"
	for _, c := range []struct {
		signal       syscall.Signal
		script, says string
	}{
		{syscall.SIGTERM, "trap 'echo term; exit 7' TERM; " + waits, "term\n"},
		{syscall.SIGINT, "trap 'echo int; exit 7' INT; " + waits, "int\n"},
		{syscall.SIGHUP, "trap 'echo hup; exit 7' HUP; " + waits, "hup\n"},
		{syscall.SIGTERM, "sleep 1000 & " + waits, ""},
	} {
		cmd := w.command("exec", "-p", "p.yaml", "--", "bash", "-c", c.script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(out)
		if line, err := in.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%s: %q, %v", c.script, line, err)
		}
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(in)
		if err != nil || string(rest) != c.says {
			t.Errorf("%v to %s: %q, %v", c.signal, c.script, rest, err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v to %s: status %d, %v", c.signal, c.script, cmd.ProcessState.ExitCode(), err)
		}
	}
	w.must(0, "verify")
}
