//go:build !darwin && (!linux || (!amd64 && !arm64))

package linux

import (
	"context"
	"runtime"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Box runs confined commands; on this system it refuses all of them.
type Box struct{}

// New makes a Box.
func New(Config) *Box { return &Box{} }

// Warm does nothing here.
func (b *Box) Warm() {}

// Close does nothing here.
func (b *Box) Close() error { return nil }

// Run refuses: this system has no means that Remit can confine a command with.
func (b *Box) Run(_ context.Context, _ permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	c.Stdio.Close()
	return sandbox.Outcome{}, fault.New(fault.SandboxMissing, "commands cannot be confined on %s/%s, so none is run", runtime.GOOS, runtime.GOARCH).
		WithHint("use Linux on amd64 or arm64, also in a virtual machine")
}

// NewFolder refuses as Run does.
func (b *Box) NewFolder(permit.Permit, int64, int) (*sandbox.Folder, error) {
	return nil, fault.New(fault.SandboxMissing, "commands cannot be confined on %s/%s, so none is run", runtime.GOOS, runtime.GOARCH)
}

// hostView: nothing is held here.
type hostView struct{}

func (hostView) At(path string) string { return path }

// Contents fills in the content of the files that commands name.
func (b *Box) Contents(ctx context.Context, _ permit.Held, _ string, chain policy.Chain, actions []tool.Action) error {
	return sandbox.Contents(ctx, hostView{}, chain, actions)
}

// Image finds none: no command runs here.
func (b *Box) Image(policy.Limits, string) (*sandbox.Image, error) { return nil, nil }

// Overlay fails: this system has no overlay file system.
func (b *Box) Overlay(lower, _, _ string) (int, error) {
	return -1, fault.New(fault.SandboxMissing, "the changes to %q cannot be held on %s/%s", lower, runtime.GOOS, runtime.GOARCH).
		WithHint("use Linux on amd64 or arm64, also in a virtual machine")
}

// Profile refuses as Run does.
func (b *Box) Profile(policy.Chain, sandbox.Command) (sandbox.Profile, error) {
	return sandbox.Profile{}, fault.New(fault.SandboxMissing, "commands cannot be confined on %s/%s, so none is run", runtime.GOOS, runtime.GOARCH)
}

// Probe says that no layer is available.
func Probe(context.Context) []sandbox.Layer {
	return []sandbox.Layer{{Name: "confinement", Required: true, Detail: "not available on " + runtime.GOOS + "/" + runtime.GOARCH,
		Hint: "use Linux on amd64 or arm64, also in a virtual machine"}}
}
