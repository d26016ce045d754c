package noop_test

import (
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/noop"
)

func TestConformance(t *testing.T) { capabilitytest.Capability(t, noop.New(), capabilitytest.Case{}) }

func TestAddsNothing(t *testing.T) {
	part, err := noop.New().Part(capability.Session{}, nil)
	if err != nil || part.Prompt != "" || len(part.Tools) > 0 {
		t.Fatalf("got %+v, %v", part, err)
	}
}
