//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// Probe tries each layer of the confinement on this machine. If one that is required
// fails, it also names the obstacles.
func Probe(ctx context.Context) []sandbox.Layer {
	out := tryLayers(ctx)
	if slices.ContainsFunc(out, func(l sandbox.Layer) bool { return l.Required && !l.Available }) {
		out = append(out, theseSurroundings().obstacles()...)
	}
	return out
}

// tryLayers tries namespaces one by one, and then a whole sandbox with an empty policy.
func tryLayers(ctx context.Context) []sandbox.Layer {
	out := []sandbox.Layer{landlockLayer()}
	sp, err := spawn.Start()
	if err != nil {
		return append(out, sandbox.Layer{Name: "spawner", Required: true, Detail: err.Error(), Hint: "mount /proc and allow the binary to execute itself"})
	}
	defer func() { _ = sp.Close() }() // it has nothing left to lose
	for _, ns := range []struct {
		name string
		flag uintptr
	}{{"user namespaces", 0}, {"mount namespaces", unix.CLONE_NEWNS}, {"pid namespaces", unix.CLONE_NEWPID},
		{"network namespaces", unix.CLONE_NEWNET}, {"ipc namespaces", unix.CLONE_NEWIPC}, {"uts namespaces", unix.CLONE_NEWUTS}} {
		if ctx.Err() != nil {
			return out
		}
		out = append(out, tryLayer(sp, ns.name, ns.flag|unix.CLONE_NEWUSER, &spawn.Program{}))
	}
	m, err := thisMachine()
	if err != nil {
		return append(out, failedLayer("whole sandbox", err))
	}
	for _, part := range parts(m) {
		out = append(out, tryLayer(sp, part.name, cloneFlags, part.prog))
	}
	whole, err := wholeLayer(sp, m)
	if err != nil {
		return append(out, failedLayer("whole sandbox", err))
	}
	out = append(out, whole)
	out = append(out, limitLayers(m)...)
	return append(out, tierLayers(sp, m, whole)...)
}

type part struct {
	name string
	prog *spawn.Program
}

// parts are the layers that one system call or two can try.
func parts(m machine) []part {
	nnp, filter, limits, proc := &spawn.Program{}, &spawn.Program{}, &spawn.Program{}, &spawn.Program{}
	nnp.Call("no_new_privs", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_NO_NEW_PRIVS), spawn.Int(1), none, none, none)
	b := builder{Program: filter, m: m}
	b.Call("no_new_privs", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_NO_NEW_PRIVS), spawn.Int(1), none, none, none)
	b.seccomp()
	lim := spawn.Object(limits, unix.Rlimit{})
	limits.Call("setrlimit", unix.SYS_PRLIMIT64, none, spawn.Int(unix.RLIMIT_CORE), spawn.At(lim), none)
	b = builder{Program: proc, m: m}
	b.fs = b.Reg()
	b.procMount("subset", 0)
	return []part{{"no_new_privs", nnp}, {"seccomp", filter}, {"questions about paths", questions()}, {"resource limits", limits}, {"/proc mount", proc}}
}

// questions has the kernel ask about paths.
func questions() *spawn.Program {
	p := &spawn.Program{}
	p.Call("no_new_privs", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_NO_NEW_PRIVS), spawn.Int(1), none, none, none)
	b := builder{Program: p}
	b.fd = b.Reg()
	b.askAbout(supervisedFilter())
	return p
}

// tryLayer runs the calls of p in new namespaces; the process that would
// execute a command exits instead.
func tryLayer(sp *spawn.Spawner, name string, flags uintptr, p *spawn.Program) sandbox.Layer {
	l := sandbox.Layer{Name: name, Required: true}
	if !p.Forked() {
		p.Fork()
		p.Call("exit", unix.SYS_EXIT_GROUP, none)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return failedLayer(name, err)
	}
	defer func() { _ = null.Close() }() // nothing was written
	fd := int(null.Fd())
	child, err := sp.Spawn(p, flags, [3]int{fd, fd, fd})
	if err != nil {
		return failedLayer(name, notStarted(err))
	}
	if e := child.Wait(); e.Failed != "" {
		return failedLayer(name, startFailed(e, sandbox.Command{Argv: []string{"true"}}))
	} else if !e.Known || e.Status != 0 {
		return failedLayer(name, fmt.Errorf("the trial process ended with wait status %#x", e.Status))
	}
	l.Available, l.Detail = true, sandbox.Works
	return l
}

func failedLayer(name string, err error) sandbox.Layer {
	l := sandbox.Layer{Name: name, Required: true, Detail: err.Error()}
	var f *fault.Error
	if errors.As(err, &f) {
		l.Detail, l.Hint = f.Msg, f.Hint
	}
	if strings.Contains(l.Hint, "remit doctor") {
		l.Hint = "" // this is what it prints
	}
	return l
}

func landlockLayer() sandbox.Layer {
	l := sandbox.Layer{Name: "Landlock", Required: true, Detail: "the kernel has none", Hint: "Linux 5.13 or newer with landlock in the boot parameter lsm="}
	if abi := landlockABI(); abi > 0 {
		l.Available, l.Hint, l.Detail = true, "", fmt.Sprintf("ABI %d", abi)
		if abi < 6 {
			l.Hint = "Linux 6.12 brings ABI 6, which also keeps abstract sockets and signals in"
		}
	}
	return l
}
