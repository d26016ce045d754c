// Package plan reads plans: which tools to call, with which arguments, in which order. It
// is pure: it checks everything that can be checked before the run, and computes the
// arguments of a step from given values. Package schedule carries plans out. Start at
// [Parse].
//
// A plan is YAML or JSON in UTF-8:
//
//	version: 1                  # optional
//	name: …                     # optional, as is description
//	inputs:
//	  NAME: {type: string, required: false, default: …, enum: […], pattern: RE2, description: …}
//	max_parallel: 1             # how many steps may run side by side, 1 to 64
//	steps:
//	  - tool: fs.read           # the only required key
//	    args: {path: "${{ inputs.NAME }}"}
//	    id: read                # step-N where it is absent, N counted from 1
//	    name: …
//	    needs: [ID, …]
//	    if: inputs.NAME != ''
//	    on_error: stop          # or continue
//	commitments: # conditions on the end, checked by further steps
//	  - run: [go, test, ./...]  # with exit: 0 and cwd: …
//	  - file: PATH
//	  - json: PATH              # with equals: {/POINTER: VALUE}
//
// # Expressions
//
// A string in args may hold ${{ REFERENCE }}, where REFERENCE is inputs.NAME, steps.ID.output,
// steps.ID.status or steps.ID.error, followed by any number of .FIELD, ['FIELD'] and [INDEX]. A
// string that is exactly one expression becomes the value with its type; inside a longer string the
// value's text is inserted: strings as they are, everything else as compact JSON. Inserted text is
// never read again. $${{ stands for ${{ itself. A status is completed, denied, failed, timeout,
// cancelled or skipped; an error is null or {code, message}.
//
// A condition (if) may combine references, 'text' (a quote inside is doubled),
// numbers, true, false and null with == != < <= > >= && || ! and parentheses,
// and call success(), failure() and always(). It ends always: there are no
// loops and no other functions. null, false, 0 and the empty string count as false. && and
// || give booleans and stop at the first operand that decides. == and != take
// any values; < and its like only two numbers or two strings. A condition
// without one of the three functions means success() && (condition); no
// condition means success().
//
// # Order
//
// A step depends on its needs and on every step that its expressions name. It
// starts once these have ended; of several that could start, the first in plan
// order does. success() holds if every one of them completed and the plan was
// not stopped; failure() holds if the plan was stopped, or a step that this one
// depends on, directly or not, was denied, failed, timed out or was cancelled.
// A step that does not complete stops the plan unless it says on_error:
// continue: steps that run already come to their end, no other starts unless
// its own condition, with failure() or always(), says so.
//
// Commitments become steps named commitment-1 and so on, which run after all others unless
// the plan was stopped. One that is not met fails, so that the run does not complete.
package plan

import (
	"crypto/sha256"
	"regexp"
	"slices"

	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of accepted plans.
const (
	MaxSize     = 16 << 20 // bytes of a plan's source
	MaxSteps    = 100_000
	MaxParallel = 64
	MaxKey      = 250       // bytes of a key
	maxValues   = 5_000_000 // of a plan
	MaxText     = 64 << 20  // bytes of the text that one string with expressions may become
	maxDepth    = 100       // of nesting
)

// Plan is a plan that was read and makes sense in itself. It must not be changed.
type Plan struct {
	File        string // as it was called, for messages
	Name        string
	Description string
	Params      []Param // the declared inputs, in the order of the source
	MaxParallel int     // 1 to MaxParallel
	Steps       []*Step // in plan order; Steps[i].Index is i+1

	source []byte
	byID   map[string]*Step
	params map[string]*Param
}

// Type is the type of an input.
type Type string

// The types of inputs.
const (
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	Array   Type = "array"
	Object  Type = "object"
)

// Param is one declared input.
type Param struct {
	Name        string
	Type        Type
	Required    bool
	HasDefault  bool
	Default     any    // meaningful if HasDefault; without one the value is null
	Enum        []any  // allowed values, if any are listed
	Pattern     string // RE2 that the whole string must match
	Description string
	Pos         fault.Pos

	pattern *regexp.Regexp
}

// OnError is the effect on the plan of a step that does not complete.
type OnError uint8

// The zero OnError stops.
const (
	Stop OnError = iota
	Continue
)

func (o OnError) String() string {
	if o == Continue {
		return "continue"
	}
	return "stop"
}

// Step is one call of a plan. It must not be changed.
type Step struct {
	Index   int    // from 1, plan order
	ID      string // unique in the plan
	Name    string
	Tool    tool.ID
	Args    tool.Args // as written, expressions included
	Needs   []string  // as written
	If      string    // as written; "" for none
	OnError OnError
	Pos     fault.Pos
	// Commitment is the condition that the step checks, of a step that Parse made of an
	// entry of commitments; nil: an ordinary step.
	Commitment *commitment.Commitment

	args   *template
	argPos []argPos
	cond   *expr
	deps   []int // indexes of the steps it depends on, ascending
	feeds  []int // of deps, those whose output it uses, ascending
	used   bool  // a later step uses its output

	path string // of a commitment's step: the field of its commitment
}

// argPos is where an argument's name stands.
type argPos struct {
	name         string
	line, column int32
}

// Parse reads a plan. File is what messages call it. Every problem is reported
// at once, as a [fault.List] of fault.PlanInvalid and fault.PlanReference with
// file, line, column, field and the way out.
func Parse(file string, src []byte) (*Plan, error) {
	r := newReader(file)
	root := r.Read(src)
	if root == nil || r.Failed() {
		return nil, r.Err()
	}
	if r.refusePolicy(root); r.Failed() {
		return nil, r.Err()
	}
	p := r.plan(file, root)
	if !r.Failed() {
		r.link(p)
	}
	if r.Failed() {
		return nil, r.Err()
	}
	p.source = slices.Clone(src)
	return p, nil
}

// Source is the plan as it was read, byte for byte.
func (p *Plan) Source() []byte { return slices.Clone(p.source) }

// Digest is the SHA-256 of the source.
func (p *Plan) Digest() tool.Digest { return sha256.Sum256(p.source) }

// Step finds a step by its ID.
func (p *Plan) Step(id string) (*Step, bool) {
	s, ok := p.byID[id]
	return s, ok
}

// Referenced reports whether the output of the step with this index (from 1)
// is used by another step, so that it has to be kept.
func (p *Plan) Referenced(index int) bool {
	return index >= 1 && index <= len(p.Steps) && p.Steps[index-1].used
}

// Deps are the indexes (from 1, ascending) of the steps that must have ended
// before this one can start.
func (s *Step) Deps() []int { return slices.Clone(s.deps) }

// Feeds are the indexes (from 1, ascending) of the steps whose output this
// one's expressions use.
func (s *Step) Feeds() []int { return slices.Clone(s.feeds) }
