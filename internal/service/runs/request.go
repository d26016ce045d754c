package runs

import (
	"encoding/json"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/frozen"
)

// Read adds to a request the plan, frozen plan and inputs that another program sent. Of plan and
// frozen one may be empty. Inputs are JSON values.
func (s *Runs) Read(q *Request, plan string, frozenPlan []byte, inputs map[string]json.RawMessage) (err error) {
	if q.Frozen, err = ParseFrozen(frozenPlan); err != nil {
		return err
	}
	switch {
	case plan != "":
		if q.Plan, err = s.ParsePlan("plan", []byte(plan)); err != nil {
			return err
		}
	case q.Frozen != nil:
		q.Plan = q.Frozen.Plan()
	default:
		return fault.New(fault.ArgsInvalid, "the plan is missing").In("body.plan").WithHint("send plan, frozen or both")
	}
	q.Inputs = map[string]string{}
	for name, v := range inputs {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v) // not a string: inputs are read as JSON
		}
		q.Inputs[name] = text
	}
	return nil
}

// ParseFrozen reads a frozen plan that another program sent; nil if src is.
func ParseFrozen(src []byte) (*frozen.Plan, error) {
	if src == nil {
		return nil, nil //nolint:nilnil // said above
	}
	return frozen.Parse("frozen", src)
}
