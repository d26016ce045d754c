//go:build !linux || (!amd64 && !arm64)

package linux

// Sandboxes are nothing on this system.
type Sandboxes struct{}

// NewSandboxes makes Sandboxes.
func NewSandboxes() *Sandboxes { return &Sandboxes{} }

// Kept is 0.
func (*Sandboxes) Kept() int { return 0 }

// Renew does nothing here.
func (*Sandboxes) Renew(string) {}

// EndSession does nothing here.
func (*Sandboxes) EndSession(string) {}

// Close does nothing here.
func (*Sandboxes) Close() error { return nil }
