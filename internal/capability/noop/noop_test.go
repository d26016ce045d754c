package noop_test

import (
	"testing"

	"github.com/remitrun/remit/internal/capability"
	"github.com/remitrun/remit/internal/capability/noop"
	"github.com/remitrun/remit/internal/conform"
)

func TestConformance(t *testing.T) { conform.Capability(t, noop.New(), conform.CapabilityCase{}) }

func TestAddsNothing(t *testing.T) {
	part, err := noop.New().Part(capability.Session{}, nil)
	if err != nil || part.Prompt != "" || len(part.Tools) > 0 {
		t.Fatalf("got %+v, %v", part, err)
	}
}
