//go:build !linux || (!amd64 && !arm64)

package linux

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

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

// Open is empty.
func (*Sandboxes) Open() []sandbox.OpenSession { return nil }

// Sockets is fault.NotFound.
func (*Sandboxes) Sockets(_ context.Context, id, _ string) ([]*os.File, error) {
	return nil, fault.New(fault.NotFound, "the session %q has no sandbox", id)
}

// DialInside is an error here.
func DialInside(context.Context, []*os.File, uint16) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// Close does nothing here.
func (*Sandboxes) Close() error { return nil }
