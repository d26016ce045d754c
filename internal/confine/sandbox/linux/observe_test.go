//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// touched finds what was done with a path, nil for nothing.
func touched(out sandbox.Outcome, use sandbox.Use, path string) *sandbox.Touch {
	for i := range out.Touched {
		if t := &out.Touched[i]; t.Use == use && t.Path == path {
			return t
		}
	}
	return nil
}

func TestAnObservedCommandTellsWhatItUses(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.file("in/a.txt", "a")
	w.file("in/b.txt", "b")
	w.file(".env", "SECRET=1")
	must(t, os.Symlink("in/a.txt", filepath.Join(w.dir, "link")))
	script := w.file("run.sh", "#!/bin/sh\ncat ../link\n")
	must(t, os.Chmod(script, 0o755))
	out, err := w.run(sandbox.Command{Argv: []string{"sh", "-c", `cat in/a.txt in/a.txt in/b.txt > out/new.txt
		mkdir out/d; mv out/new.txt out/d/moved; rm out/d/moved
		ls in >/dev/null; cd in; cat ../.env; cat nothing /opt/none; echo x > forbidden; ./../run.sh; test -f b.txt`}, Observe: true})
	must(t, err)
	at := func(name string) string { return filepath.Join(w.dir, name) }
	tests := []struct {
		use    sandbox.Use
		path   string
		real   string
		exists bool
		folder bool
		shown  string
		count  int
	}{
		{sandbox.Read, at("in/a.txt"), at("in/a.txt"), true, false, "files", 2},
		{sandbox.Read, at("in/b.txt"), at("in/b.txt"), true, false, "files", 1},
		{sandbox.Read, at("link"), at("in/a.txt"), true, false, "files", 1},
		{sandbox.Read, at("in"), at("in"), true, true, "files", 1},
		{sandbox.Wrote, at("out/new.txt"), at("out/new.txt"), false, false, "files", 0},
		{sandbox.Wrote, at("out/d"), at("out/d"), false, false, "files", 0},
		{sandbox.Wrote, at("out/d/moved"), at("out/d/moved"), true, false, "files", 0},
		{sandbox.Wrote, at("in/forbidden"), at("in/forbidden"), false, false, "files", 1},
		{sandbox.Read, at(".env"), at(".env"), true, false, "mask", 1},
		{sandbox.Read, at("in/nothing"), at("in/nothing"), false, false, "files", 1},
		{sandbox.Read, "/opt/none", "", false, false, "", 1},
		{sandbox.Executed, at("run.sh"), at("run.sh"), true, false, "files", 1},
		{sandbox.Executed, "/usr/bin/cat", "", true, false, "system", 0},
	}
	for _, tt := range tests {
		got := touched(out, tt.use, tt.path)
		if got == nil {
			t.Errorf("%s: nothing was seen (use %d)", tt.path, tt.use)
			continue
		}
		if tt.real != "" && got.Real != tt.real || got.Exists != tt.exists && tt.count > 0 || got.Folder != tt.folder && tt.exists || got.Shown != tt.shown || tt.count > 0 && got.Count != tt.count {
			t.Errorf("%s: %+v", tt.path, *got)
		}
	}
	if _, err := os.Stat(at("in/forbidden")); err == nil {
		t.Error("it was written where the policy does not allow it")
	}
	if touched(out, sandbox.Looked, at("in/b.txt")) == nil && touched(out, sandbox.Looked, at("in/./b.txt")) == nil {
		t.Errorf("test -f was not seen")
	}
	if out.Tier != "fresh" || out.Unseen != 0 {
		t.Errorf("tier %s, %d unseen", out.Tier, out.Unseen)
	}
}

// Observation changes nothing of what a command may do, can be done to a
// command that starts many processes at once, and ends with it.
func TestObservingManyProcesses(t *testing.T) {
	w := newWorld(t, openPolicy)
	for i := range 40 {
		w.file(fmt.Sprintf("in/%d", i), "x")
	}
	for range 3 {
		out, err := w.run(sandbox.Command{Argv: []string{"sh", "-c", `for i in $(seq 0 39); do cat in/$i & done; wait; sleep 100 & exit 3`}, Observe: true})
		must(t, err)
		if out.ExitCode != 3 || string(out.Stdout.Data) != strings.Repeat("x", 40) {
			t.Fatalf("exit %d, %q, %s", out.ExitCode, out.Stdout.Data, out.Stderr.Data)
		}
		for i := range 40 {
			if touched(out, sandbox.Read, filepath.Join(w.dir, "in", fmt.Sprint(i))) == nil {
				t.Errorf("in/%d was not seen", i)
			}
		}
	}
}

// A command that is ended in the middle of its calls holds nothing up, and what
// it did until then is told.
func TestObservingAnInterruptedCommand(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.file("in/a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(w.dir, "out/ready")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	out, err := w.box.Run(ctx, w.p, sandbox.Command{Argv: []string{"sh", "-c", `cat in/a; : > out/ready; while :; do cat in/a; done`}, Dir: w.dir, Observe: true})
	if errors.Is(err, fault.SandboxMissing) {
		t.Skipf("NOT TESTED: this machine cannot confine: %v", err)
	}
	if a := touched(out, sandbox.Read, filepath.Join(w.dir, "in/a")); !errors.Is(err, fault.ToolCancelled) || a == nil {
		t.Errorf("%v, %+v", err, a)
	}
}

// What is refused is refused to an observed command as well, in the same way.
func TestObservingWeakensNothing(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.file("kept", "x")
	w.file(".env", "SECRET=canary")
	for name, script := range map[string]string{
		"a namespace":         "unshare --user true",
		"a mount":             "mount -t tmpfs none /tmp",
		"a setuid bit":        ": > out/s; chmod u+s out/s",
		"a file not allowed":  "echo y > kept",
		"a name not allowed":  "mv kept gone",
		"a sensitive name":    "cat .env",
		"a file of the host":  "cat /etc/shadow",
		"its own limits":      "ulimit -n 100000",
		"the system's folder": ": > /usr/bin/x",
	} {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i := range got {
				out, err := w.run(sandbox.Command{Argv: []string{"bash", "-c", script + "; s=$?; echo " + name + "; exit $s"}, Observe: i == 1})
				must(t, err)
				if out.ExitCode == 0 {
					t.Errorf("observed %t: it was done", i == 1)
				}
				got[i] = fmt.Sprint(out.ExitCode, string(out.Stdout.Data), string(out.Stderr.Data))
			}
			if got[0] != got[1] {
				t.Errorf("as it is:\n%s\nobserved:\n%s", got[0], got[1])
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "kept")); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}
