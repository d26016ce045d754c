package runner

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Violation is a refused action of a call, with the policy's response to it.
type Violation struct {
	Kind     policy.Violation
	Code     fault.Code // 0: refused while the call ran, which continued
	Reason   string     // for people
	Response policy.Response
}

// GrantStopper stops grants that are kept in the ledger.
type GrantStopper interface {
	// Stop revokes a grant, or pauses it until a person resumes it. The reason is
	// for people.
	Stop(ctx context.Context, node uuid.UUID, revoke bool, reason string) error
}

// violations lists the refusals, each kind once. A replay has none: its original run had them.
func (f *flight) violations(o *Outcome) []Violation {
	if f.run.Mode != ledger.Live || f.skipped {
		return nil
	}
	var out []Violation
	if kind, ok := f.violated(o); ok {
		out = append(out, Violation{Kind: kind, Code: fault.CodeOf(o.Err), Reason: fault.Message(o.Err)})
	}
	if n := o.Attempts.Count(); n > 0 && (len(out) == 0 || out[0].Kind != policy.HostViolation) {
		v := Violation{Kind: policy.HostViolation, Reason: "further attempts are not listed"}
		if list := o.Attempts.Refused; len(list) > 0 {
			v.Reason = list[0].Action + ": " + list[0].Reason
		}
		out = append(out, v)
	}
	for i := range out {
		out[i].Response = f.run.terms.Response(out[i].Kind)
	}
	return out
}

// violated is the kind of violation of a refused call.
func (f *flight) violated(o *Outcome) (policy.Violation, bool) {
	if o.Status == tool.Completed || o.Err == nil {
		return 0, false
	}
	switch code := fault.CodeOf(o.Err); code {
	case fault.Denied:
		return deniedKind(o.Decision), true
	case fault.FlowRefused:
		return policy.FlowViolation, true
	case fault.HandleRefused:
		return f.handleKind(), !errors.Is(o.Err, fault.NotFound) // a missing secret is not the agent's fault
	case fault.LimitReached, fault.BudgetSpent:
		return policy.BudgetViolation, o.Status == tool.StatusDenied || code == fault.BudgetSpent
	case fault.ToolDisabled:
		return policy.ToolViolation, true
	case fault.ToolChanged:
		return policy.DigestViolation, true
	case fault.NotInPlan:
		return policy.PlanViolation, true
	case fault.PlanOnly:
		return policy.ModeViolation, true
	case fault.NotDelegable:
		return policy.DepthViolation, true
	default:
		return policy.GrantViolation, code.OfGrant() && o.Status == tool.StatusDenied
	}
}

// handleKind is the kind of an action that a handle refused. Before the permit is minted
// only the lookup of facts can refuse, and only paths.
func (f *flight) handleKind() policy.Violation {
	if !f.permit.Minted() {
		return policy.PathViolation
	}
	return kindOf(f.permit.Denied())
}

// deniedKind is the kind of the first action that a policy denied.
func deniedKind(d policy.Decision) policy.Violation {
	for _, r := range d.Refusals {
		if r.Effect == policy.Deny {
			return sectionKind(r.Action)
		}
	}
	if d.Rule != nil && d.Rule.Name == "grant" {
		return policy.GrantViolation
	}
	return policy.ToolViolation
}

// sectionKind reads the kind of an action from its printed form, which begins with it.
func sectionKind(action string) policy.Violation {
	name, _, _ := strings.Cut(action, " ")
	for _, k := range [...]tool.ActionKind{tool.FileRead, tool.FileWrite, tool.FileDelete, tool.Network, tool.Command} {
		if name == k.String() {
			return kindOf(k)
		}
	}
	return policy.ToolViolation
}

func kindOf(k tool.ActionKind) policy.Violation {
	switch k {
	case tool.FileRead, tool.FileWrite, tool.FileDelete:
		return policy.PathViolation
	case tool.Network:
		return policy.HostViolation
	case tool.Command:
		return policy.CommandViolation
	}
	return policy.ToolViolation
}

// violationKinds are the kinds as the ledger numbers them.
var violationKinds = map[policy.Violation]ledger.Violated{
	policy.PathViolation: ledger.ViolatedPath, policy.HostViolation: ledger.ViolatedHost, policy.CommandViolation: ledger.ViolatedCommand,
	policy.ToolViolation: ledger.ViolatedTool, policy.BudgetViolation: ledger.ViolatedBudget, policy.DepthViolation: ledger.ViolatedDepth,
	policy.GrantViolation: ledger.ViolatedGrant, policy.DigestViolation: ledger.ViolatedDigest, policy.PlanViolation: ledger.ViolatedPlan,
	policy.ModeViolation: ledger.ViolatedMode, policy.FlowViolation: ledger.ViolatedFlow,
}

// violationEntries are the events of the violations, which follow the call's own.
func (f *flight) violationEntries(at int64, list []Violation) []ledger.Entry {
	out := make([]ledger.Entry, len(list))
	for i, v := range list {
		ev := ledger.Event{Kind: ledger.Violation, At: at, Run: f.run.Seq, Call: uint32(f.c.Index), Code: v.Code, Violated: violationKinds[v.Kind],
			Principal: recordable(f.run.Grant.Holder())}
		if id := f.run.Grant.ID(); id != uuid.Nil {
			ev.Grant = id[:]
		}
		switch v.Response {
		case policy.PauseGrant:
			ev.Standing = 1
		case policy.RevokeGrant:
			ev.Standing = 2
		}
		out[i] = ledger.Entry{Event: ev, Payload: ledger.Payload{ledger.PartReason: []byte(v.Reason)}}
	}
	return out
}

// respond carries out the policy's response to the violations.
func (f *flight) respond(ctx context.Context, list []Violation) error {
	worst := Violation{}
	for _, v := range list {
		if v.Response > worst.Response {
			worst = v
		}
	}
	if worst.Response < policy.PauseGrant {
		return nil
	}
	code, word := fault.GrantPaused, "paused"
	if worst.Response == policy.RevokeGrant {
		code, word = fault.GrantRevoked, "revoked"
	}
	reason := "violations." + worst.Kind.String() + " of the policy: call " + string(f.c.Tool) + " was refused: " + worst.Reason
	stopped := fault.New(code, "the grant of this run was %s by violations.%s", word, worst.Kind)
	node, ok := lastKept(f.run)
	if !ok {
		f.run.stop(stopped) // the grant ends with the run
		return nil
	}
	err := error(fault.New(fault.Internal, "grant %s must be %s, but grants cannot be changed here", node, word))
	if f.r.GrantStopper != nil {
		after, done := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer done()
		err = f.r.GrantStopper.Stop(after, node, worst.Response == policy.RevokeGrant, reason)
	}
	if err != nil {
		f.run.stop(stopped)
	}
	return err
}

// lastKept is the nearest node of the run's grant that the ledger keeps.
func lastKept(run *Run) (uuid.UUID, bool) {
	nodes := run.Grant.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- {
		if nodes[i].Kept {
			return nodes[i].ID, true
		}
	}
	return uuid.Nil, false
}
