// Package noop holds the capability noop, which adds nothing: for tests, and to
// show what a capability is. Start at [New].
package noop

import (
	"encoding/json"

	"github.com/remitrun/remit/internal/agents/capability"
)

// Noop is the capability.
type Noop struct{}

// New makes it.
func New() Noop { return Noop{} }

// Info describes it.
func (Noop) Info() capability.Info {
	return capability.Info{ID: "noop", Name: "No-Op", Description: "Adds nothing: for testing and demonstration.",
		Status: capability.Available, Icon: "circle-off", Category: "Testing", Version: "1"}
}

// Part is empty.
func (Noop) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return capability.Part{}, nil
}
