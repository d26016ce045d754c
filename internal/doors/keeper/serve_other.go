//go:build !linux

package keeper

import (
	"context"

	"github.com/remitrun/remit/internal/base/fault"
)

// errLinux is the error of everything here on other systems.
var errLinux = fault.New(fault.NotFound, "keepers run on Linux only")

// Serve is only available on Linux.
func (k *Keeper) Serve(context.Context) error { return errLinux }

// Ask is only available on Linux.
func Ask(context.Context, string) (Status, error) { return Status{}, errLinux }

// Stop is only available on Linux.
func Stop(context.Context, string) (Status, error) { return Status{}, errLinux }
