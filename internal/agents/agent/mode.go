package agent

import (
	"bytes"
	"encoding/json"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/frozen"
)

// Mode narrows the tool calls of a session besides its grant. It is fixed when the session is
// made. Questions to the session's model are no part of it.
type Mode struct {
	Planning bool         // calls with side effects are refused
	Frozen   *frozen.Plan // other calls are refused; nil: none
}

// modeDoc is a mode as it is recorded.
type modeDoc struct {
	Planning bool            `json:"planning,omitempty"`
	Frozen   json.RawMessage `json:"frozen,omitempty"`
	Used     bool            `json:"frozen_used,omitempty"` // a run that is bound to the frozen plan was started
}

// maxFrozen is the most bytes that a frozen plan of a session may have: it is recorded with every
// state of the session.
const maxFrozen = 1 << 20

func (m Mode) doc() (modeDoc, error) {
	d := modeDoc{Planning: m.Planning}
	if m.Frozen == nil {
		return d, nil
	}
	if d.Frozen = m.Frozen.Encode(); len(d.Frozen) > maxFrozen {
		return d, fault.New(fault.PlanInvalid, "the frozen plan has %d bytes; a session takes at most %d", len(d.Frozen), maxFrozen).In("frozen")
	}
	return d, nil
}

// mode is the recorded mode.
func (d *modeDoc) mode() (Mode, error) {
	m := Mode{Planning: d.Planning}
	if d.Frozen == nil {
		return m, nil
	}
	var err error
	m.Frozen, err = frozen.Parse("the session's frozen plan", bytes.Clone(d.Frozen))
	return m, err
}

// begin gives the mode for a new run. Each step of a frozen plan is called once, and a run knows
// only its own calls: so a session has one run for its frozen plan.
func (d *modeDoc) begin() (Mode, error) {
	if d.Used {
		return Mode{}, fault.New(fault.NotInPlan, "the run of the session's frozen plan has ended").
			WithHint("fork the session with a frozen plan of the remaining steps")
	}
	d.Used = d.Frozen != nil
	return d.mode()
}

// ofChild is the mode of a sub-agent: it changes nothing where its parent may change nothing, or
// only by a frozen plan.
func (d *modeDoc) ofChild() modeDoc { return modeDoc{Planning: d.Planning || d.Frozen != nil} }

// name is the mode for clients.
func (d *modeDoc) name() string {
	switch {
	case d.Frozen != nil:
		return "frozen"
	case d.Planning:
		return "planning"
	}
	return ""
}
