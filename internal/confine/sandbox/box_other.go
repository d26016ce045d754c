//go:build !linux || (!amd64 && !arm64)

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
)

// Box runs confined commands; on this system it refuses all of them.
type Box struct{}

// layers: nothing is held here.
type layers struct{}

func (l *layers) at(p string) string { return p }

func (l *layers) real(p string) (string, error) { return filepath.EvalSymlinks(p) }

func layersAt(int, string) *layers { return nil }

// New makes a Box.
func New(Config) *Box { return &Box{} }

// Close does nothing here.
func (b *Box) Close() error { return nil }

// Run refuses: this system has no means that Remit can confine a command with.
func (b *Box) Run(_ context.Context, _ permit.Permit, c Command) (Outcome, error) {
	c.Stdio.close()
	return Outcome{}, fault.New(fault.SandboxMissing, "commands cannot be confined on %s/%s, so none is run", runtime.GOOS, runtime.GOARCH).
		WithHint("use Linux on amd64 or arm64, also in a virtual machine")
}

// NewFolder refuses as Run does.
func (b *Box) NewFolder(permit.Permit, int64, int) (*Folder, error) {
	return nil, fault.New(fault.SandboxMissing, "commands cannot be confined on %s/%s, so none is run", runtime.GOOS, runtime.GOARCH)
}

// Overlay refuses: there is no overlay file system here.
func (b *Box) Overlay(lower, _, _ string) (int, error) {
	return -1, fault.New(fault.SandboxMissing, "the changes to %q cannot be held on %s/%s", lower, runtime.GOOS, runtime.GOARCH).
		WithHint("use Linux on amd64 or arm64, also in a virtual machine")
}

// Profile refuses as Run does.
func (b *Box) Profile(policy.Chain, Command) (Profile, error) {
	return Profile{}, fault.New(fault.SandboxMissing, "commands cannot be confined on %s/%s, so none is run", runtime.GOOS, runtime.GOARCH)
}

// SignalNumber is 0: nothing is run here that a signal could end.
func SignalNumber(string) int { return 0 }

// Resize does nothing here: there is no terminal to resize.
func Resize(*os.File, int, int) error { return nil }

// Probe says that no layer is available.
func Probe(context.Context) []Layer {
	return []Layer{{Name: "confinement", Required: true, Detail: "not available on " + runtime.GOOS + "/" + runtime.GOARCH,
		Hint: "use Linux on amd64 or arm64, also in a virtual machine"}}
}
