//go:build !linux

package keeper

import (
	"context"
	"net"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// errLinux is the error of everything here on other systems.
var errLinux = fault.New(fault.NotFound, "keepers run on Linux only")

// Serve is only available on Linux.
func (k *Keeper) Serve(context.Context) error { return errLinux }

// Ask is only available on Linux.
func Ask(context.Context, string) (Status, error) { return Status{}, errLinux }

// Stop is only available on Linux.
func Stop(context.Context, string) (Status, error) { return Status{}, errLinux }

// Sessions is only available on Linux.
func Sessions(context.Context, string) ([]sandbox.OpenSession, error) { return nil, errLinux }

// Dialer is only available on Linux.
func Dialer(string, sandbox.OpenSession, uint16) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, errLinux }
}
