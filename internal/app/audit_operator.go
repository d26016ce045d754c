package app

import (
	"context"
	"encoding/json"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// EventOperated is an operator's action: its status says whether it was begun, or failed
// after that.
const EventOperated = "operator_action"

// operated fills in what an operator's event says.
func (au *auditor) operated(ctx context.Context, s ledger.Stored, e *AuditEvent) error {
	e.Event, e.Status, e.By, e.Action = EventOperated, "recorded", s.Event.Principal, s.Event.Name
	if s.Event.Code != 0 {
		e.Status = "failed"
	}
	p, there := s.Parts[ledger.PartDoc]
	if !there { // it was erased
		return nil
	}
	b, err := au.st.Load(ctx, p)
	if err != nil {
		return err
	}
	var about ledger.OperatorAction
	if err := json.Unmarshal(b, &about); err != nil {
		return fault.Wrap(fault.StoreCorrupt, err, "the operator's action of event %d cannot be read", s.Seq)
	}
	e.Target, e.Digest = about.Target, about.Digest
	return nil
}
