// Package requests has the capability authority_requests: the built-in tool with which an
// agent requests authority from a person. Start at [New].
package requests

import (
	"encoding/json"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/tool"
)

const prompt = `## Requests for authority

Policies decide each of your calls. If you know that a call needs a person's approval, request it with authority_request before you make it, with the exact arguments and an honest reason; once it is approved, make exactly that call. What a policy denies cannot be approved: a request then proposes a change of the policy, which does not help you now. Request only what the task needs, and do not repeat a refused request.`

// Capability is the capability authority_requests.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "authority_requests", Name: "Authority Requests", Description: "Request authority for a call from a person, with a reason, before the call is made.",
		Status: capability.Available, Icon: "key", Category: "Utilities", Version: "1"}
}

// Part offers the tool of the catalog.
func (Capability) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return capability.Part{Prompt: prompt, Tools: []capability.Offer{{Name: "authority_request", ID: tool.AuthorityRequest}}}, nil
}
