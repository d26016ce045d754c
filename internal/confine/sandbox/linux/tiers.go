//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"os"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// tierLayers tries the tiers and the isolations that a policy can name. None of
// them is required: a policy that asks for an unavailable one is refused.
func tierLayers(sp *spawn.Spawner, m machine, whole sandbox.Layer) []sandbox.Layer {
	full := sandbox.Layer{Name: "isolation: full", Available: whole.Available, Detail: whole.Detail, Hint: whole.Hint}
	if full.Available {
		full.Detail = "the default; used wherever it is available"
	}
	fresh := full
	fresh.Name = "tier: fresh"
	if fresh.Available {
		fresh.Detail = "a new sandbox for every command, prepared in advance"
	}
	none := sandbox.Layer{Name: "isolation: none", Available: true,
		Detail: "only if every policy of the chain allows it and nothing better is available: limits, a clean environment, no new privileges"}
	return []sandbox.Layer{fresh, sessionLayer(sp, m, whole), full, landlockTier(sp, m), none}
}

// sessionLayer runs two commands in one sandbox.
func sessionLayer(sp *spawn.Spawner, m machine, whole sandbox.Layer) sandbox.Layer {
	l := sandbox.Layer{Name: "tier: session", Detail: whole.Detail, Hint: whole.Hint}
	if !whole.Available {
		return l
	}
	if err := trySession(sp, m); err != nil {
		l.Detail, l.Hint = err.Error(), "commands get a sandbox of their own instead"
		return l
	}
	l.Available = true
	l.Detail = "tried: works; with sandbox: {tier: session} in the policy, commands of one profile share a sandbox, one after another"
	return l
}

func trySession(sp *spawn.Spawner, m machine) error {
	mounts, links := system(nil, sandbox.WithDefaults(policy.Limits{}).Path, false)
	m.links = links
	prof, err := sandbox.Compile(sandbox.Inputs{System: mounts, Dir: "/tmp"})
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // nothing was written
	prog := program(m, prof, start{stays: true})
	child, err := sp.Prepare(prog, cloneFlags)
	if err != nil {
		return notStarted(err)
	}
	z, err := child.Stay(prog)
	if err != nil {
		child.Drop()
		return err
	}
	defer z.End()
	for range 2 {
		fd := int(null.Fd())
		one, err := z.Call(sessionCommand(m, prof, start{exe: "/bin/true", argv: []string{"true"}}), [3]int{fd, fd, fd})
		if err != nil {
			return err
		}
		switch e := one.Wait(); {
		case e.Failed != "":
			return startFailed(e, sandbox.Command{Argv: []string{"true"}})
		case e.Stale || e.Dirty:
			return errors.New("after one command the sandbox is not as it was before")
		case !e.Known || e.Status != 0:
			return fmt.Errorf("the trial process ended with wait status %#x", e.Status)
		}
	}
	return nil
}

// landlockTier runs a command without namespaces.
func landlockTier(sp *spawn.Spawner, m machine) sandbox.Layer {
	l := sandbox.Layer{Name: "isolation: landlock"}
	if m.landlockABI < leastABI {
		l.Detail, l.Hint = fmt.Sprintf("Landlock's ABI is %d, and it needs %d", m.landlockABI, leastABI), "Linux 6.2 or newer with landlock in the boot parameter lsm="
		return l
	}
	filter, err := weakFilter()
	if err != nil {
		return failedTier(l, err)
	}
	m.filter = filter
	mounts, _ := system(nil, sandbox.WithDefaults(policy.Limits{}).Path, false)
	prof, err := sandbox.Compile(sandbox.Inputs{System: mounts, Dir: "/", Isolation: policy.LandlockIsolation})
	if err != nil {
		return failedTier(l, err)
	}
	prof.Processes += processesOf(owner(m, prof))
	l = tryLayer(sp, l.Name, 0, weakProgram(m, prof, start{exe: "/bin/true", argv: []string{"true"}}, ""))
	l.Required = false
	if l.Available {
		l.Detail = "tried: works; only if a policy allows it and full isolation is not available; file names, sizes and times stay visible, and sockets are refused"
		if m.landlockABI < 6 {
			l.Detail += "; processes of the same user can be signalled before Linux 6.12"
		}
	}
	return l
}

func failedTier(l sandbox.Layer, err error) sandbox.Layer {
	f := failedLayer(l.Name, err)
	f.Required = false
	return f
}
