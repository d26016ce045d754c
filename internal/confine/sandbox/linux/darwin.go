//go:build darwin

package linux

import (
	"context"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/seatbelt"
)

// Box runs confined commands; on macOS that is the Box of package seatbelt.
type Box = seatbelt.Box

// New makes a Box.
func New(c Config) *Box {
	return seatbelt.New(seatbelt.Config{Getenv: c.Getenv, Secret: c.Secret, State: c.State, Egress: c.Egress, Place: c.Place})
}

// Probe returns the layers of confinement of this machine.
func Probe(context.Context) []sandbox.Layer { return seatbelt.Probe() }
