package runner

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/grant"
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
	if len(f.references) > 0 {
		parts[ledger.PartReferences] = f.references
	}
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
	if f.held != nil {
		parts[ledger.PartHeld] = f.held
	} else if f.c.Release != nil { // refused before it came to that
		parts[ledger.PartHeld] = f.c.Release
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
		if a.Real != "" && a.Real != a.Path || a.Lead != "" || len(a.Addrs) > 0 || a.Exe != "" || len(a.Contents) > 0 || len(a.Uses) > 0 || len(a.Labels) > 0 || len(a.Below) > 0 {
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

func (f *flight) event(k ledger.Kind) ledger.Event {
	ev := ledger.Event{
		Kind: k, Run: f.run.Seq, Call: uint32(f.c.Index), Tool: tool.ID(recordable(string(f.c.Tool))), Step: recordable(f.c.Step),
		Effect: f.decision.Effect, Approved: f.answer != nil && f.answer.Yes,
	}
	if f.entry.Spec != nil {
		ev.Digest, ev.Risk = f.entry.Digest[:], f.entry.Spec.Risk
	}
	if f.decision.Rule != nil {
		ev.Rule, ev.Link, ev.Line = f.decision.Rule.String(), uint8(f.decision.Link), uint32(f.decision.Rule.Line)
	}
	return ev
}

// recordable returns a caller-chosen name as valid text of limited length.
func recordable(s string) string {
	if len(s) > maxName {
		s = s[:maxName] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (f *flight) recordOutcome(ctx context.Context, o Outcome, out []byte, used grant.Amounts) (ledger.Seq, error) {
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stop()
	ev := ledger.Event{Kind: ledger.CallOutcome, Run: f.run.Seq, Call: uint32(f.c.Index)}
	pay := ledger.Payload{}
	ev.At = f.created.UnixMicro() + f.marks[3]
	if f.intent == 0 {
		ev = f.event(ledger.CallDone)
		ev.At = f.created.UnixMicro()
		var err error
		if pay, err = f.payload(); err == nil {
			err = f.recordFlow(&ev, pay)
		}
		if err != nil {
			return 0, err
		}
	}
	labels, err := f.labelsOfOutcome(after)
	if err != nil {
		return 0, err
	}
	ev.Status, ev.Timeline = o.Status, f.marks[:]
	for _, h := range o.Happened {
		ev.Effects |= tool.EffectSet(h.Effect)
	}
	f.takeNotes(pay)
	if out != nil {
		pay[ledger.PartOutput] = out
		f.join(&o, pay)
	}
	if o.Err != nil {
		ev.Code = fault.CodeOf(o.Err)
		pay[ledger.PartError] = []byte(fault.ForModel(o.Err))
		if hint := fault.OperatorHint(o.Err); hint != "" {
			pay[ledger.PartHint] = []byte(hint)
		}
	}
	if f.budget != nil {
		ev.Usage = used.List()
	}
	ev.Refused = uint32(min(o.Attempts.Count(), math.MaxUint32))
	if err := addHappened(pay, o); err != nil {
		return 0, err
	}
	// Not Durable: until the next intent or the run's end is, a loss of power
	// can cost this outcome, and its intent then counts as interrupted.
	entries := append([]ledger.Entry{{Event: ev, Payload: pay}}, f.violationEntries(f.created.UnixMicro()+f.marks[3], o.Violations)...)
	entries = append(entries, labels...)
	stops := slices.ContainsFunc(o.Violations, func(v Violation) bool { return v.Response >= policy.PauseGrant })
	if f.run.Single && !stops { // the end of a grant is recorded after its reason
		f.run.keep(entries)
		return 0, nil
	}
	return f.r.append(after, f.run, entries...)
}

// addHappened adds the side effects and refused attempts of the call.
func addHappened(pay ledger.Payload, o Outcome) error {
	parts := map[string]any{}
	if len(o.Happened) > 0 {
		parts[ledger.PartHappened] = ledger.Touched{Effects: o.Happened, More: o.More}
	}
	if o.Attempts.Count() > 0 {
		parts[ledger.PartAttempts] = o.Attempts
	}
	for name, v := range parts {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		pay[name] = b
	}
	return nil
}
