package agent

import (
	"bytes"
	"encoding/json"

	"github.com/remitrun/remit/internal/base/fault"
)

// MarshalJSON writes a capability's ID alone where it has no configuration.
func (c CapabilityRef) MarshalJSON() ([]byte, error) {
	if len(c.Config) == 0 {
		return json.Marshal(c.Ref)
	}
	return json.Marshal(refJSON(c))
}

type refJSON struct {
	Ref    string          `json:"ref"`
	Config json.RawMessage `json:"config,omitempty"`
}

// UnmarshalJSON reads both forms. Anything else is fault.AgentInvalid.
func (c *CapabilityRef) UnmarshalJSON(b []byte) error {
	bad := func(why string) error {
		return fault.New(fault.AgentInvalid, "a capability must be an ID or an object {ref, config}: %s", why).In("capabilities")
	}
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '"' {
		*c = CapabilityRef{}
		return json.Unmarshal(b, &c.Ref)
	}
	if len(b) == 0 || b[0] != '{' {
		return bad("it is neither a string nor an object")
	}
	var r refJSON
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return bad(err.Error())
	}
	if bytes.Equal(bytes.TrimSpace(r.Config), []byte("null")) {
		r.Config = nil
	}
	*c = CapabilityRef(r)
	return nil
}
