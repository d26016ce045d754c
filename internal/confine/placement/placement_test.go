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
	const (
		id      = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
		image   = "\nimage: " + id
		inImage = "image " + id
	)
	lack := fault.New(fault.SandboxMissing, "no worker has the label gpu")
	ready := func(name string) *elsewhere { return &elsewhere{name: name} }
	tests := map[string]struct {
		where          string
		image          bool // it is there
		remote         *elsewhere
		place, refused string // where it ran, or why it did not
	}{
		"remote":                {"where: remote", true, ready("worker a"), "worker a", ""},
		"in order":              {"where: [container, remote]" + image, true, ready("worker a"), inImage, ""},
		"the next one":          {"where: [remote, container]" + image, true, &elsewhere{lack: lack}, inImage, ""},
		"this machine":          {"where: [remote, local]", false, &elsewhere{lack: lack}, "", ""},
		"nothing said":          {"", true, ready("worker a"), "", ""},
		"no image":              {"where: container" + image, false, ready("worker a"), "", "is not on this machine"},
		"no image named":        {"where: container", true, ready("worker a"), "", "names no image"},
		"no image, or here":     {"where: [container, local]" + image, false, nil, "", ""},
		"an image, or here":     {"where: [container, local]" + image, true, nil, inImage, ""},
		"here, or an image":     {"where: [local, container]" + image, true, nil, "", ""},
		"no image, or a worker": {"where: [container, remote]" + image, false, ready("worker a"), "worker a", ""},
		"no worker":             {"where: remote", true, nil, "", "this process has no workers"},
		"no such worker":        {"where: remote", false, &elsewhere{lack: lack}, "", "no worker has the label gpu"},
		"neither":               {"where: [remote, container]" + image, false, &elsewhere{lack: lack}, "", "no worker has the label gpu; the policy's image"},
		"never where not named": {"where: remote", true, &elsewhere{lack: lack}, "", "no worker has the label gpu"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			box := &placement.Box{Box: linux.New(linux.Config{Image: func(id, workspace string) (*sandbox.Image, error) {
				if !tc.image {
					return nil, fault.New(fault.SandboxMissing, "the policy's image %s is not on this machine", id)
				}
				return sandbox.NewImage(id, "/", nil, workspace) // this machine's system, as an image
			}})}
			t.Cleanup(func() { _ = box.Close() })
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
