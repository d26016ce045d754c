package requests_test

import (
	"testing"

	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/requests"
)

func TestConformance(t *testing.T) {
	capabilitytest.Capability(t, requests.New(), capabilitytest.Case{})
}
