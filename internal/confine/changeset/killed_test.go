package changeset_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// holding is a held run that does not end: its tools have the layers open, or
// a command has them.
func holding(t *testing.T, dir, who string) {
	ws := filepath.Join(dir, "ws")
	s, err := changeset.In(filepath.Join(dir, "home")).Begin("run", ws)
	must(t, err)
	box := linux.New(linux.Config{})
	h := s.Hold(box.Overlay)
	root, leave, err := h.Enter(t.Context())
	must(t, err)
	must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/by-tool", root), []byte("t"), 0o644))
	if who == "tool" {
		must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/ready", root), nil, 0o644))
		time.Sleep(time.Hour) // until it is killed; the runtime would end an empty select
	}
	leave()
	_, err = box.Run(t.Context(), permittest.PermitWith(t, ws, commands, h, nil),
		sandbox.Command{Dir: ws, Argv: []string{"sh", "-c", "echo c >by-command; : >ready; sleep 98765"}})
	must(t, err)
}

// A held run whose process is killed leaves a changeset that can be looked at
// and thrown away, and no process or mount.
func TestHeldRunKilled(t *testing.T) {
	if dir := os.Getenv("CHANGESET_HOLD"); dir != "" {
		holding(t, dir, os.Getenv("CHANGESET_WHO"))
		return
	}
	for who, want := range map[string]string{"tool": "added by-tool\nadded ready\n", "command": "added by-command\nadded by-tool\nadded ready\n"} {
		t.Run(who, func(t *testing.T) {
			p := newPlace(t)
			s, err := p.home.Begin("probe", p.ws)
			must(t, err)
			p.within(t, s, func(string) {}) // or it is skipped
			must(t, s.Drop())
			killRun(t, p, who)
			s, err = p.home.Load("run")
			must(t, err)
			changes, err := s.Review(t.Context(), anything)
			must(t, err)
			if got := list(changes); got != want {
				t.Errorf("it holds\n%swant\n%s", got, want)
			}
			must(t, s.Discard(unrecorded))
			if left, err := os.ReadDir(p.ws); err != nil || len(left) > 0 {
				t.Errorf("the workspace holds %v, %v", left, err)
			}
			if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), p.dir) {
				t.Errorf("a mount is left: %v\n%s", err, b)
			}
		})
	}
}

// killRun starts a held run in another process and kills that when it is under
// way.
func killRun(t *testing.T, p place, who string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestHeldRunKilled$")
	cmd.Env = append(os.Environ(), "CHANGESET_HOLD="+p.dir, "CHANGESET_WHO="+who)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	ready := filepath.Join(p.dir, "home", "changes", "run", "upper", "ready")
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Lstat(ready); err == nil {
			break
		}
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the run did not come under way:\n%s", out)
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(time.Minute); running("98765"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command outlives Remit")
		}
	}
}

// running reports whether a process has an argument.
func running(arg string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), "sleep\x00"+arg) {
			return true
		}
	}
	return false
}

// After a loss of power the layer may not be whole: nothing of it is applied.
func TestMachineWentDown(t *testing.T) {
	p := newPlace(t)
	s := p.held(t, "run", func(root string) { put(t, root, map[string]string{"f": "x"}) })
	state := filepath.Join(p.dir, "home", "changes", "run", "state.json")
	b, err := os.ReadFile(state)
	must(t, err)
	at := strings.Index(string(b), `"boot":"`)
	if at < 0 {
		t.Skip("the machine does not name its start")
	}
	must(t, os.WriteFile(state, []byte(string(b[:at])+`"boot":"x`+string(b[at+len(`"boot":"`):])), 0o600))
	s, err = p.home.Load(s.Run())
	must(t, err)
	changes, err := s.Review(t.Context(), anything)
	must(t, err)
	if len(changes) != 1 || !strings.Contains(changes[0].Refused, "went down") {
		t.Errorf("listed as\n%s", list(changes))
	}
	must(t, s.Discard(unrecorded))
}
