package runner

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// payload is the request and decision of a call, for its first event. Facts are recorded
// where they differ from the request, and always for high risks.
func (f *flight) payload() (ledger.Payload, error) {
	pay := ledger.Payload{}
	if f.args != nil {
		pay[ledger.PartArgs] = f.args
	}
	if f.c.Name != "" {
		pay[ledger.PartName] = []byte(f.c.Name)
	}
	f.takeNotes(pay)
	parts := map[string]any{}
	if len(f.decision.Refusals) > 0 {
		parts[ledger.PartRefusals] = refusals(f.decision)
	}
	if f.factsMatter() {
		parts[ledger.PartFacts] = ledger.Facts{Actions: f.actions}
	}
	if f.entry.Source != "" {
		s := f.entry.Spec
		parts[ledger.PartTool] = ledger.ToolUsed{Source: f.entry.Source, Kind: s.Source, Effects: s.Effects.List(), Actions: f.prepared.Actions}
	}
	if f.c.Commitment != nil {
		parts[ledger.PartCommitment] = f.c.Commitment
	}
	if f.answer != nil {
		parts[ledger.PartAnswer] = f.answer
	}
	if b := f.recordedBounds(); b != nil {
		parts[ledger.PartBounds] = b
	}
	for name, v := range parts {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the call's %s cannot be encoded", name)
		}
		pay[name] = b
	}
	return pay, nil
}

func refusals(d policy.Decision) []ledger.Refusal {
	out := make([]ledger.Refusal, len(d.Refusals))
	for i, x := range d.Refusals {
		out[i] = ledger.Refusal{Effect: x.Effect.String(), Rule: x.Rule.String(), Action: x.Action, Reason: x.Reason}
		if x.Rule != nil {
			out[i].Policy, out[i].File, out[i].Line = x.Rule.Policy, x.Rule.File, x.Rule.Line
		}
	}
	return out
}

// factsMatter reports whether the facts are recorded.
func (f *flight) factsMatter() bool {
	if f.entry.Spec != nil && f.entry.Spec.Risk >= tool.High {
		return len(f.actions) > 0
	}
	for _, a := range f.actions {
		if a.Real != "" && a.Real != a.Path || len(a.Addrs) > 0 || a.Exe != "" || len(a.Contents) > 0 {
			return true
		}
	}
	return false
}

// digest identifies the call: its tool, arguments and holder.
func (f *flight) digest() tool.Digest {
	h := sha256.New()
	h.Write(f.entry.Digest[:])
	a := sha256.Sum256(f.args)
	h.Write(a[:])
	h.Write([]byte(f.run.Grant.Holder()))
	return tool.Digest(h.Sum(nil))
}

// DigestOf is the digest of a document.
func DigestOf(b []byte) tool.Digest { return sha256.Sum256(b) }
