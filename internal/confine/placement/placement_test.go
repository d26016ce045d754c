package placement_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/placement"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// elsewhere is a place that notes its commands.
type elsewhere struct {
	name string
	lack error
	ran  int
}

func (e *elsewhere) Available(policy.Placement, sandbox.Command) error { return e.lack }

func (e *elsewhere) Run(context.Context, permit.Permit, sandbox.Command) (sandbox.Outcome, error) {
	e.ran++
	return sandbox.Outcome{Place: e.name}, nil
}

func TestACommandRunsInTheFirstPlaceThatIsAvailable(t *testing.T) {
	lack := fault.New(fault.SandboxMissing, "no worker has the label gpu")
	ready := func(name string) *elsewhere { return &elsewhere{name: name} }
	tests := map[string]struct {
		where             string
		container, remote *elsewhere
		place, refused    string // where it ran, or why it did not
	}{
		"remote":                {"where: remote", nil, ready("worker a"), "worker a", ""},
		"in order":              {"where: [container, remote]", ready("container"), ready("worker a"), "container", ""},
		"the next one":          {"where: [remote, container]", ready("container"), &elsewhere{lack: lack}, "container", ""},
		"this machine":          {"where: [remote, local]", nil, &elsewhere{lack: lack}, "", ""},
		"nothing said":          {"", ready("container"), ready("worker a"), "", ""},
		"no container":          {"where: container", nil, ready("worker a"), "", "containers are not available on this machine"},
		"no worker":             {"where: remote", ready("container"), nil, "", "this process has no workers"},
		"no such worker":        {"where: remote", nil, &elsewhere{lack: lack}, "", "no worker has the label gpu"},
		"neither":               {"where: [remote, container]", nil, &elsewhere{lack: lack}, "", "no worker has the label gpu; the policy says where: container"},
		"never where not named": {"where: remote", ready("container"), &elsewhere{lack: lack}, "", "no worker has the label gpu"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			box := &placement.Box{Box: linux.New(linux.Config{})}
			t.Cleanup(func() { _ = box.Close() })
			if tc.container != nil {
				box.Container = tc.container
			}
			if tc.remote != nil {
				box.Remote = tc.remote
			}
			dir := t.TempDir()
			p := permittest.PermitFor(t, dir, "version: 1\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['true']}\n"+tc.where+"\n")
			out, err := box.Run(t.Context(), p, sandbox.Command{Argv: []string{"true"}, Dir: dir})
			switch {
			case tc.refused == "" && (err != nil || out.Place != tc.place):
				t.Errorf("ran on %q, %v; want %q", out.Place, err, tc.place)
			case tc.refused != "" && (!errors.Is(err, fault.SandboxMissing) || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("got %v, want a refusal with %q", err, tc.refused)
			}
		})
	}
}

func TestTheSandboxItselfRefusesAnotherPlace(t *testing.T) {
	dir := t.TempDir()
	p := permittest.PermitFor(t, dir, "version: 1\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['true']}\nwhere: remote\n")
	box := linux.New(linux.Config{})
	t.Cleanup(func() { _ = box.Close() })
	if _, err := box.Run(t.Context(), p, sandbox.Command{Argv: []string{"true"}, Dir: dir}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("the local sandbox ran a command of where: remote: %v", err)
	}
}
