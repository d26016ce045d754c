// Package noop has the capability noop, which adds nothing. It is for tests, and is an example of a
// capability. Start at [New].
package noop

import (
	"encoding/json"

	"github.com/remitrun/remit/internal/agents/capability"
)

// Noop is the capability noop.
type Noop struct{}

// New makes the capability.
func New() Noop { return Noop{} }

// Info describes the capability.
func (Noop) Info() capability.Info {
	return capability.Info{ID: "noop", Name: "No-Op", Description: "Adds nothing: for testing and demonstration.",
		Status: capability.Available, Icon: "circle-off", Category: "Testing", Version: "1"}
}

// Part is empty.
func (Noop) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return capability.Part{}, nil
}
