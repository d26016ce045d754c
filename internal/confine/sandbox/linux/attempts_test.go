//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// attempt is one thing that no confined command may be able to do. The probe
// says itself whether it could; the host looks whether that is so.
type attempt struct {
	no      int // in the list of listed
	name    string
	probe   []string
	control control
	why     string   // where there is no control: what shows that the probe works
	instead []string // the control's probe, where the same one cannot be run outside

	leaks bool // the control must bring out the secret
	harms bool // the control must change what the host sees
	blind bool // what the probe says of itself means nothing: it cannot know
}

// control is how a probe is shown to work.
type control int

const (
	outside  control = iota // it succeeds where nothing confines it
	asRoot                  // the same, for root
	kernel                  // the same, unless this kernel is built without it
	offered                 // the same for root, unless this machine is without it or withholds it from root too
	inside                  // it succeeds with the privileges of namespaces of its own, below a first process of its own
	needless                // not on any machine; attempt.why
)

// insideAsRoot is inside for what even there only root may do.
func insideAsRoot() control {
	if os.Getuid() == 0 {
		return inside
	}
	return asRoot
}

// lacks are the errors of a kernel that is built without something, or has it
// switched off.
var lacks = []string{"not implemented", "not supported by protocol", "no such device", "not supported", "no such file or directory",
	"protocol not available", "socket type not supported", "operation not supported"}

// try runs a probe outside of any sandbox.
func try(t *testing.T, c control, probe []string) (verdict, all string) {
	t.Helper()
	args := append([]string{"probe"}, probe...)
	cmd := exec.Command(os.Args[0], args...)
	if c == inside {
		args = append([]string{"-UrmpfuCn", "--mount-proc", "/bin/sh", "-c", `"$@"; true`, "sh", os.Args[0]}, args...)
		cmd = exec.Command("unshare", args...)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("probe %q: %v\n%s%s", probe, err, out, &stderr)
	}
	return verdictOf(string(out)), string(out) + stderr.String()
}

// verdictOf is the last line, which a probe says when it is done.
func verdictOf(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// attempts runs each attempt in the sandbox, where it must fail, and then
// outside, where it must succeed and be seen by what looked for it before.
func (h *host) attempts(list []attempt, tier string, controls bool) {
	exe, err := os.Executable()
	must(h.t, err)
	for _, a := range list {
		h.t.Run(a.name, func(t *testing.T) {
			h := h.in(t)
			before := h.state()
			out, err := h.w.run(sandbox.Command{Argv: append([]string{exe, "probe"}, h.fill(a.probe)...), Timeout: time.Minute})
			if err != nil {
				t.Fatalf("probe %q: %v", a.probe, err)
			}
			all := string(out.Stdout.Data) + string(out.Stderr.Data)
			if v := verdictOf(string(out.Stdout.Data)); !strings.HasPrefix(v, "REFUSED") && !a.blind {
				t.Errorf("in the sandbox: %q, exit %d, signal %q, stderr %.300q", v, out.ExitCode, out.Signal, out.Stderr.Data)
			}
			if strings.Contains(all, h.secret) {
				t.Errorf("the secret got out: %q", all)
			}
			if d := difference(before, h.state()); len(d) > 0 {
				t.Errorf("on the host: %s", strings.Join(d, "\n"))
			}
			if out.Tier != tier {
				t.Errorf("it ran in the tier %q", out.Tier)
			}
			if controls {
				h.control(a)
			}
		})
	}
}

// control shows that an attempt proves something.
func (h *host) control(a attempt) {
	t := h.t
	t.Helper()
	switch {
	case a.control == needless && a.why == "":
		t.Error("no control, and no reason")
		return
	case a.control == needless:
		return
	case (a.control == asRoot || a.control == offered) && os.Getuid() != 0:
		t.Log("its control needs root")
		return
	}
	probe := a.probe
	if a.instead != nil {
		probe = a.instead
	}
	before := h.state()
	verdict, all := try(t, a.control, h.fill(probe))
	missing := slices.ContainsFunc(lacks, func(s string) bool { return strings.Contains(verdict, s) })
	withheld := a.control == offered && (strings.Contains(verdict, "not permitted") || strings.Contains(verdict, "denied"))
	if (a.control == kernel || a.control == offered) && missing || withheld {
		t.Logf("NO CONTROL: this machine is without it: %s", verdict)
		return
	}
	if verdict != "SUCCEEDED" {
		t.Errorf("the probe proves nothing: outside the sandbox: %s", verdict)
	}
	if a.leaks && !strings.Contains(all, h.secret) {
		t.Errorf("the probe proves nothing: outside the sandbox the secret does not get out: %q", all)
	}
	if a.harms && a.control != inside {
		seen := func() bool { return len(difference(before, h.state())) > 0 }
		for end := time.Now().Add(time.Minute); !seen(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Error("the host sees nothing of what was done outside the sandbox")
				return
			}
		}
		h.reset()
	}
}

// refused runs each attempt where nothing can be confined: none may run at all.
func (h *host) refused(list []attempt) {
	exe, err := os.Executable()
	must(h.t, err)
	for _, a := range list {
		before := h.state()
		out, err := h.w.box.Run(h.t.Context(), h.w.p, sandbox.Command{Argv: append([]string{exe, "probe"}, h.fill(a.probe)...), Dir: h.w.dir})
		if f := fault.SandboxMissing; err == nil || !strings.Contains(err.Error(), f.Error()) || out.Duration != 0 || len(out.Stdout.Data) > 0 {
			h.t.Errorf("%s: got exit %d, signal %q, %q, %q, after %v, %v", a.name, out.ExitCode, out.Signal, out.Stdout.Data, out.Stderr.Data, out.Duration, err)
		}
		if d := difference(before, h.state()); len(d) > 0 {
			h.t.Errorf("%s: on the host: %s", a.name, strings.Join(d, "\n"))
		}
	}
}

// difference says what changed from one state to another.
func difference(a, b map[string]string) []string {
	var out []string
	for k, v := range a {
		if w, ok := b[k]; !ok {
			out = append(out, fmt.Sprintf("%s is gone", k))
		} else if v != w {
			out = append(out, fmt.Sprintf("%s was %s, is %s", k, v, w))
		}
	}
	for k, w := range b {
		if _, ok := a[k]; !ok {
			out = append(out, fmt.Sprintf("%s is new: %s", k, w))
		}
	}
	slices.Sort(out)
	return out
}

// tierOf is the tier that a policy of everyTier asks for.
func tierOf(src string) string {
	if strings.Contains(src, tiers[1].policy) {
		return tiers[1].name
	}
	return tiers[0].name
}
