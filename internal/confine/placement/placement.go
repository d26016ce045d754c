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
	Remote Elsewhere // nil: not on this machine
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
		var err error
		switch place {
		case policy.Remote:
			if err = b.remote(at, c); err == nil {
				return b.Remote.Run(ctx, p, c)
			}
		case policy.Container:
			if err = b.container(p); err == nil {
				return b.Box.Run(ctx, p, c)
			}
		default:
			return b.Box.Run(ctx, p, c)
		}
		missing = append(missing, err)
	}
	c.Stdio.Close()
	return sandbox.Outcome{}, refused(missing)
}

// remote returns why a command cannot run on a worker.
func (b *Box) remote(at policy.Placement, c sandbox.Command) error {
	if b.Remote != nil {
		return b.Remote.Available(at, c)
	}
	return fault.New(fault.SandboxMissing, "the policy says where: remote, and this process has no workers").
		WithHint("workers join a node; add local to where to run commands on this machine too")
}

// container returns why a command cannot run in an image.
func (b *Box) container(p permit.Permit) error {
	img, err := b.Image(p.Limits(), p.Env().Workspace)
	if err != nil || img != nil {
		return err
	}
	if p.Limits().Image == "" {
		return fault.New(fault.SandboxMissing, "the policy says where: container, and names no image").
			ForOperator("`remit image show NAME` shows the line for the policy: image: sha256:…; or add local to where to run commands on this machine too")
	}
	return fault.New(fault.SandboxMissing, "the policy's image %s is not on this machine", p.Limits().Image)
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
