// Package frozen holds frozen plans: documents that fix in advance which calls a run may
// make. A frozen plan is made from a plan, the values of its inputs and the current tools.
// A run bound to it may make only its calls, each once, with matching arguments. The
// package is pure. Start at [Freeze] and [Plan.Match].
//
// A document is JSON:
//
//	{"version": 1,
//	 "plan": {"name": …, "digest": "sha256:…", "source": …},
//	 "inputs": {…},                       every declared input's value
//	 "steps": [{"id": …, "tool": …, "digest": "sha256:…", "risk": …, "effects": […], "args": {…}}],
//	 "digest": "sha256:…",
//	 "approvals": […]}
//
// The digest is that of the document's canonical form (package canon) without
// digest and approvals. args are written as in the plan, with its expressions: literal
// values must be equal, and an expression must give the value that the frozen inputs and
// the recorded outputs of earlier steps give. An approval is a note
// (golang.org/x/mod/sumdb/note) of the digest, signed by a ledger's key.
package frozen

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
)

// Version is the version of the documents that this package writes and reads.
const Version = 1

// MaxSize is the most bytes that a document may have.
const MaxSize = 2*plan.MaxSize + 1<<20

// MaxApprovals is how many approvals a document may have.
const MaxApprovals = 100

// Plan is a frozen plan. It is immutable; the zero Plan has no call.
type Plan struct {
	plan      *plan.Plan
	inputs    map[string]any
	steps     []Step
	digest    tool.Digest
	approvals []string
}

// Step is one call that the plan allows.
type Step struct {
	ID      string         `json:"id"`
	Tool    tool.ID        `json:"tool"`
	Digest  string         `json:"digest"` // the tool's, as tool.Digest prints
	Risk    string         `json:"risk"`
	Effects []tool.Effect  `json:"effects"`
	Args    map[string]any `json:"args"` // as the plan writes them
}

// document is the written form.
type document struct {
	Version   int            `json:"version"`
	Plan      planPart       `json:"plan"`
	Inputs    map[string]any `json:"inputs"`
	Steps     []Step         `json:"steps"`
	Digest    string         `json:"digest,omitempty"`
	Approvals []string       `json:"approvals,omitempty"`
}

type planPart struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Source string `json:"source"`
}

// Tools finds the tools that a plan calls.
type Tools interface {
	Spec(id tool.ID) (*tool.Spec, bool)
}

// Freeze fixes the calls of a plan, whose inputs are what [plan.Plan.Inputs]
// returned. Every step's tool must be there: fault.ToolUnknown.
func Freeze(p *plan.Plan, inputs map[string]any, tools Tools) (*Plan, error) {
	f := &Plan{plan: p, inputs: inputs}
	for _, s := range p.Steps {
		spec, ok := tools.Spec(s.Tool)
		if !ok {
			return nil, fault.New(fault.ToolUnknown, "the step %q calls the unknown tool %q", s.ID, string(s.Tool)).At(s.Pos)
		}
		f.steps = append(f.steps, Step{ID: s.ID, Tool: s.Tool, Digest: spec.Digest().String(), Risk: spec.Risk.String(), Effects: spec.Effects.List(), Args: orEmpty(s.Args)})
	}
	b, err := canon.Marshal(f.document(false))
	if err != nil {
		return nil, fault.New(fault.PlanInvalid, "the plan cannot be frozen: %v", err)
	}
	f.digest = sha256.Sum256(b)
	if size := len(f.Encode()); size > MaxSize {
		return nil, fault.New(fault.PlanInvalid, "the frozen plan has %d bytes, more than %d", size, MaxSize)
	}
	return f, nil
}

func orEmpty(args tool.Args) map[string]any {
	if args == nil {
		return map[string]any{}
	}
	return args
}

// Is reports whether a text is meant to be a frozen plan, well formed or not.
func Is(src []byte) bool {
	v, err := canon.Decode(src)
	m, ok := v.(map[string]any)
	_, plan := m["plan"]
	_, digest := m["digest"]
	return err == nil && ok && plan && digest
}

func (f *Plan) document(whole bool) document {
	d := document{Version: Version, Inputs: f.inputs, Steps: f.steps,
		Plan: planPart{Name: f.plan.Name, Digest: f.plan.Digest().String(), Source: string(f.plan.Source())}}
	if d.Inputs == nil {
		d.Inputs = map[string]any{}
	}
	if whole {
		d.Digest, d.Approvals = f.digest.String(), f.approvals
	}
	return d
}

// Parse reads a document. Name is what messages call it. A document that differs from Freeze's
// output is fault.PlanInvalid, and so is one whose parts do not belong together: its digest is
// computed anew, and its steps are those of its plan.
func Parse(name string, src []byte) (*Plan, error) {
	bad := func(format string, args ...any) (*Plan, error) {
		return nil, fault.New(fault.PlanInvalid, format, args...).At(fault.Pos{File: name})
	}
	if len(src) > MaxSize {
		return bad("the frozen plan has %d bytes, more than %d", len(src), MaxSize)
	}
	v, err := canon.Decode(src)
	if err != nil {
		if _, perr := plan.Parse(name, src); perr == nil {
			return nil, fault.New(fault.PlanInvalid, "this is a plan, not a frozen plan").At(fault.Pos{File: name}).
				ForOperator("freeze it with remit plan freeze %s -o FROZEN", name)
		}
		return bad("not a valid frozen plan: %v", err)
	}
	b, err := canon.Marshal(v)
	if err != nil {
		return bad("not a valid frozen plan: %v", err)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		return bad("not a valid frozen plan: %v", err)
	}
	if d.Version != Version {
		return bad("unsupported frozen plan version; expected %d, got %d", Version, d.Version)
	}
	p, err := plan.Parse(name+" (its plan)", []byte(d.Plan.Source))
	if err != nil {
		return bad("its plan cannot be read: %s", fault.Message(err))
	}
	f := &Plan{plan: p, inputs: d.Inputs, steps: d.Steps, approvals: d.Approvals}
	if again, err := canon.Marshal(f.document(false)); err == nil {
		f.digest = sha256.Sum256(again)
	}
	// The written document must equal the one that was read: nothing is left out, and the plan's
	// name and digest are its own.
	again, err := canon.Marshal(f.document(true))
	if err != nil || !bytes.Equal(again, b) {
		return bad("the frozen plan was changed after it was frozen (freeze the plan again)")
	}
	return f, f.consistent(name)
}

// consistent reports steps that are not the plan's, and inputs that are not.
func (f *Plan) consistent(name string) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.PlanInvalid, format, args...).At(fault.Pos{File: name})
	}
	if len(f.approvals) > MaxApprovals {
		return bad("it has %d approvals, more than %d", len(f.approvals), MaxApprovals)
	}
	if len(f.steps) != len(f.plan.Steps) {
		return bad("it lists %d steps, its plan has %d", len(f.steps), len(f.plan.Steps))
	}
	for i, s := range f.plan.Steps {
		at := f.steps[i]
		was, err := canon.Marshal(at.Args)
		is, err2 := canon.Marshal(orEmpty(s.Args))
		if err != nil || err2 != nil || at.ID != s.ID || at.Tool != s.Tool || !bytes.Equal(was, is) {
			return bad("its step %d differs from its plan", i+1)
		}
		if _, ok := tool.ParseRisk(at.Risk); !ok {
			return bad("its step %q has an unknown risk %q", at.ID, at.Risk)
		}
	}
	if len(f.inputs) != len(f.plan.Params) {
		return bad("it has %d inputs, its plan declares %d", len(f.inputs), len(f.plan.Params))
	}
	for _, p := range f.plan.Params {
		if _, ok := f.inputs[p.Name]; !ok {
			return bad("it has no value for the input %q", p.Name)
		}
	}
	return nil
}

// Encode writes the document in its canonical form.
func (f *Plan) Encode() []byte {
	b, err := canon.Marshal(f.document(true))
	if err != nil {
		return nil // Freeze and Parse have written it before
	}
	return b
}

// Digest identifies the frozen content: the plan's source, the inputs and the tools.
// Approvals are not part of it.
func (f *Plan) Digest() tool.Digest { return f.digest }

// Plan is the plan that was frozen.
func (f *Plan) Plan() *plan.Plan { return f.plan }

// Inputs are the values that the plan's inputs were frozen with. The caller must
// not change them.
func (f *Plan) Inputs() map[string]any { return f.inputs }

// Steps are the calls that it allows, in plan order.
func (f *Plan) Steps() []Step { return slices.Clone(f.steps) }

// Check reports all that keeps the frozen plan from being carried out as it is:
// tools that are gone (fault.ToolUnknown) or not the ones that were frozen
// (fault.ToolChanged), and, where p is not nil, that it is another plan
// (fault.NotInPlan).
func (f *Plan) Check(p *plan.Plan, tools Tools) error {
	var errs fault.List
	if p != nil && p.Digest() != f.plan.Digest() {
		errs = append(errs, fault.New(fault.NotInPlan, "the plan %q has changed since it was frozen: its digest is %s, frozen was %s",
			p.File, p.Digest(), f.plan.Digest()).WithHint("freeze it again, or restore the plan"))
	}
	for _, s := range f.steps {
		spec, ok := tools.Spec(s.Tool)
		switch {
		case !ok:
			errs = append(errs, fault.New(fault.ToolUnknown, "the step %q calls the unknown tool %q", s.ID, string(s.Tool)))
		case spec.Digest().String() != s.Digest:
			errs = append(errs, fault.New(fault.ToolChanged, "the step %q calls %q, which has changed since the plan was frozen", s.ID, string(s.Tool)).
				ForOperator("see the tool with remit tool %s, then freeze the plan again", s.Tool))
		}
	}
	return errs.Err()
}
