// Package linux runs commands confined by the Linux kernel. There is one way in,
// [Box.Run]: it checks the command against the call's permit once more, compiles the
// permit's policies into a [sandbox.Profile], and has a small spawner process start the
// command inside new namespaces, behind its own mounts, Landlock rules and a seccomp
// filter. Where the kernel cannot confine, nothing runs. On macOS package seatbelt takes its
// place; on other systems every command is refused.
//
// Start at [Box.Run] for a command, and at [Probe] for the abilities of this machine.
package linux

import (
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Config are the surroundings of a Box.
type Config struct {
	// Getenv gives the runtime's own variables. Variables that the policy lists
	// are passed on. nil: there are none.
	Getenv func(name string) (string, bool)
	// Secret finds a stored value by its policy.EnvSecret.Key, for the commands
	// that a policy gives one in a variable. nil: there are none.
	Secret func(key string) (string, bool)
	// State is Remit's own folder, which no command ever sees; "" if there is none.
	State string
	// Egress makes the proxy of one command. nil: no command reaches any network.
	Egress func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error)
	// Place is where this Box runs, for its callers: a command whose policies do not allow
	// that place is refused. The zero Place is local.
	Place policy.Place
	// Image finds an unpacked image by its digest, for a workspace. nil: there are none.
	Image func(digest, workspace string) (*sandbox.Image, error)
	// Sandboxes are shared with other Boxes of the process. nil: the Box has its own.
	Sandboxes *Sandboxes
	// Lacking are abilities that the machine is taken not to have.
	Lacking Lacking
}

// Lacking makes a Box take the machine for one with fewer abilities. It is
// for tests, and can only take abilities away.
type Lacking uint8

// The abilities that a machine may not have.
const (
	NoNamespaces Lacking = 1 << iota
	NoLandlock
)
