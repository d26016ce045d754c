// Package placement runs each command in a place that its policies name: on this machine,
// in a container, or on a worker. Start at [Box.Run].
package placement

import (
	"context"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// Elsewhere runs commands in another place than this machine's sandbox.
type Elsewhere interface {
	// Available returns why a command cannot run there now; nil: it can. Nothing is started.
	Available(at policy.Placement, c sandbox.Command) error
	// Run is as [linux.Box.Run]. The Outcome names the place.
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
}

// Box is this machine's sandbox, and the other places that it can reach.
type Box struct {
	*linux.Box
	Container, Remote Elsewhere // nil: not on this machine
}

// Run runs a command in the first place of its policies that is available. Without one it
// is not run (fault.SandboxMissing), and the error names every reason.
func (b *Box) Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	at := p.Chain().Placement()
	if len(at.Places) == 0 {
		c.Stdio.Close()
		return sandbox.Outcome{}, at.Refusal(policy.Local)
	}
	var missing []error
	for _, place := range at.Places {
		if place == policy.Local {
			return b.Box.Run(ctx, p, c)
		}
		e := map[policy.Place]Elsewhere{policy.Container: b.Container, policy.Remote: b.Remote}[place]
		err := unavailable(place, e, at, c)
		if err == nil {
			return e.Run(ctx, p, c)
		}
		missing = append(missing, err)
	}
	c.Stdio.Close()
	return sandbox.Outcome{}, refused(missing)
}

// unavailable returns why a command cannot run in a place.
func unavailable(place policy.Place, e Elsewhere, at policy.Placement, c sandbox.Command) error {
	if e != nil {
		return e.Available(at, c)
	}
	if place == policy.Remote {
		return fault.New(fault.SandboxMissing, "the policy says where: remote, and this process has no workers").
			WithHint("workers join a node; add local to where to run commands on this machine too")
	}
	return fault.New(fault.SandboxMissing, "the policy says where: container, and containers are not available on this machine").
		WithHint("add local to where to run commands on this machine too")
}

// refused is one error for all places that are not available.
func refused(missing []error) error {
	if len(missing) == 1 {
		return missing[0]
	}
	var all []string
	for _, err := range missing {
		all = append(all, fault.Message(err))
	}
	return fault.New(fault.SandboxMissing, "no place of the policy's where is available: %s", strings.Join(all, "; "))
}
