//go:build !linux

package network

import (
	"context"
	"net"

	"github.com/remitrun/remit/internal/base/fault"
)

// DialSocket is for Linux only: there are no sandboxes elsewhere.
func DialSocket(_ context.Context, path string) (net.Conn, error) {
	return nil, fault.New(fault.HandleRefused, "the socket %q cannot be reached on this system", path)
}
