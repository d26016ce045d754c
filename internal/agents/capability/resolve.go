package capability

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
)

// MaxCapabilities bounds the capabilities of one agent, those that come with
// others included; MaxTools its tools.
const (
	MaxCapabilities = 64
	MaxTools        = 256
)

// Ref is a capability that an agent names, and how it configures it.
type Ref struct {
	Ref    string          // the capability's ID
	Config json.RawMessage // nil: not at all
}

// Resolved is what an agent's capabilities come to.
type Resolved struct {
	Parts    []ResolvedPart // in order: each after those that it requires
	Tools    []Offer        // of all parts, in order; no name twice
	Warnings []string       // for people
}

// ResolvedPart is one capability of an agent.
type ResolvedPart struct {
	Info   Info
	Config json.RawMessage // that its Part was made with; nil: none
	For    string          // the capability that requires it, where the agent does not name it itself
	Part   Part            // with the tools' names as they are renamed
}

// Resolve finds the capabilities that an agent names, with all that they
// require: in the agent's order, what is required first (depth first), each
// once. A capability that comes with another one is configured as the agent says
// where the agent names it too.
//
// All problems are found at once, each with its field below "capabilities": an
// unknown ID (fault.CapabilityUnknown), one that is coming soon, a capability
// named twice, requirements that go round in a circle, a configuration that does
// not fit, and two different tools of one name (fault.CapabilityInvalid).
//
// Two tools may not have one name: neither hides the other. The agent's
// configuration of either capability can give its tool another name with
// RenameKey. The same tool of the catalog, offered by two capabilities under one
// name and with the same defaults, is offered once.
func Resolve(reg *Registry, refs []Ref, s Session) (Resolved, error) {
	r := resolver{reg: reg.now(), refs: refs, session: s, named: map[string]int{}, state: map[string]int{}, offered: map[string]offered{}}
	for i, ref := range refs {
		if first, twice := r.named[ref.Ref]; twice {
			r.fail(i, fault.New(fault.CapabilityInvalid, "the capability %q is named twice, first as capabilities[%d]", ref.Ref, first))
			continue
		}
		r.named[ref.Ref] = i
	}
	for i, ref := range refs {
		if r.named[ref.Ref] == i {
			r.visit(ref.Ref, nil, i)
		}
	}
	if len(r.out.Parts) > MaxCapabilities {
		r.errs = append(r.errs, fault.New(fault.CapabilityInvalid, "the agent has %d capabilities, at most %d are allowed", len(r.out.Parts), MaxCapabilities).In("capabilities"))
	}
	if len(r.out.Tools) > MaxTools {
		r.errs = append(r.errs, fault.New(fault.CapabilityInvalid, "the agent has %d tools, at most %d are allowed", len(r.out.Tools), MaxTools).
			WithHint("choose fewer, as with the tools of the capability mcp").In("capabilities"))
	}
	if err := r.errs.Err(); err != nil {
		return Resolved{}, err
	}
	return r.out, nil
}

// How far a capability has come.
const (
	unseen = iota
	walking
	done
)

type resolver struct {
	reg     *Registry
	refs    []Ref
	session Session
	named   map[string]int // where the agent names it
	state   map[string]int
	offered map[string]offered
	out     Resolved
	errs    fault.List
}

// offered is who offers a tool, and which.
type offered struct {
	by    string
	offer Offer
}

func (r *resolver) fail(i int, e *fault.Error) {
	if e.Field == "" {
		e = e.In(fmt.Sprintf("capabilities[%d]", i))
	}
	r.errs = append(r.errs, e)
}

// visit adds a capability after all that it requires; way is how it was come to,
// i the place in the agent's list that led here.
func (r *resolver) visit(id string, way []string, i int) {
	if at, named := r.named[id]; named {
		i = at
	}
	switch r.state[id] {
	case done:
		return
	case walking:
		circle := append(slices.Clone(way[slices.Index(way, id):]), id)
		r.fail(i, fault.New(fault.CapabilityInvalid, "the capabilities require each other: %s", strings.Join(circle, " → ")))
		return
	}
	r.state[id] = walking
	defer func() { r.state[id] = done }()
	c, err := r.reg.Get(id)
	if err != nil {
		r.unknown(i, way, err)
		return
	}
	info := c.Info()
	way = append(slices.Clone(way), id)
	for _, need := range info.Requires {
		r.visit(need, way, i)
	}
	switch info.Status {
	case ComingSoon:
		r.fail(i, fault.New(fault.CapabilityInvalid, "the capability %q is not there yet: its status is %s", id, info.Status))
		return
	case Deprecated:
		r.warn("the capability %q is deprecated: %s", id, info.Description)
	}
	r.add(c, info, way, i)
}

func (r *resolver) warn(format string, args ...any) {
	r.out.Warnings = append(r.out.Warnings, fmt.Sprintf(format, args...))
}

// unknown says of an error also which capability led to it.
func (r *resolver) unknown(i int, way []string, err error) {
	e := coded(err)
	if len(way) > 0 {
		e = fault.Wrap(e.Code, e.Err, "%s; %q requires it", e.Msg, way[len(way)-1]).WithHint("%s", e.Hint)
	}
	r.fail(i, e)
}

// coded gives any error as one with a code.
func coded(err error) *fault.Error {
	if e, ok := err.(*fault.Error); ok {
		return e
	}
	return fault.Wrap(fault.CodeOf(err), err, "%s", fault.Message(err))
}

// add makes a capability's part.
func (r *resolver) add(c Capability, info Info, way []string, i int) {
	field := fmt.Sprintf("capabilities[%d].config", i)
	p := ResolvedPart{Info: info}
	var conf settings
	at, named := r.named[info.ID]
	if named {
		var errs fault.List
		if conf, errs = readConfig(info, r.refs[at].Config, field); len(errs) > 0 {
			r.errs = append(r.errs, errs...)
			return
		}
	} else if len(way) > 1 {
		p.For = way[len(way)-2]
	}
	part, err := c.Part(r.session, conf.own)
	if err != nil {
		r.fail(i, partFailed(info, err, field))
		return
	}
	p.Config = conf.own
	if p.Part, err = r.checkPart(info, part, conf.rename, field); err != nil {
		r.fail(i, coded(err))
		return
	}
	r.out.Parts = append(r.out.Parts, p)
	for _, w := range part.Warnings {
		r.warn("%s: %s", info.ID, w)
	}
	for _, o := range p.Part.Tools {
		r.offer(info, o, i)
	}
}

// partFailed names the capability that cannot be had, and the field of its
// configuration that is at fault.
func partFailed(info Info, err error, field string) *fault.Error {
	e := coded(err)
	if e.Field != "" {
		field += "." + e.Field
	}
	return fault.Wrap(fault.CapabilityInvalid, err, "%s: %s", info.ID, e.Msg).WithHint("%s", e.Hint).In(field)
}

// checkPart renames a part's tools and looks at what it holds.
func (r *resolver) checkPart(info Info, part Part, rename map[string]string, field string) (Part, error) {
	if strings.Contains(strings.ToLower(part.Prompt), blockEnd[:len(blockEnd)-1]) {
		return part, fault.New(fault.CapabilityInvalid, "the prompt of %q holds %s, which ends the block that it is put in", info.ID, blockEnd)
	}
	part.Tools = slices.Clone(part.Tools)
	names := make([]string, len(part.Tools))
	for i, o := range part.Tools {
		names[i] = o.Name
		if to, ok := rename[o.Name]; ok {
			part.Tools[i].Name = to
		}
		if !ValidName(part.Tools[i].Name) {
			return part, fault.New(fault.CapabilityInvalid, "%q offers a tool by the name %.100q, which no model takes", info.ID, o.Name)
		}
	}
	for _, old := range sortedKeys(rename) {
		if slices.Contains(names, old) {
			continue
		}
		e := fault.New(fault.CapabilityInvalid, "%q has no tool %.100q", info.ID, old).In(field + "." + RenameKey)
		if meant := near.Word(old, names); meant != "" {
			return part, e.WithHint("did you mean %q?", meant)
		}
		return part, e.WithHint("it has: %s", strings.Join(names, ", "))
	}
	return part, nil
}

// offer adds a tool, if none of its name is there.
func (r *resolver) offer(info Info, o Offer, i int) {
	before, taken := r.offered[o.Name]
	switch {
	case !taken:
		r.offered[o.Name] = offered{info.ID, o}
		r.out.Tools = append(r.out.Tools, o)
	case sameOffer(before.offer, o):
	default:
		r.fail(i, fault.New(fault.CapabilityInvalid, "%q (%s) and %q (%s) both offer a tool by the name %q", before.by, before.offer.ID, info.ID, o.ID, o.Name).
			WithHint(`give one of them another name in its configuration, as {"ref": %q, "config": {"rename": {%q: %q}}}`, info.ID, o.Name, clipName(info.ID+"_"+o.Name)))
	}
}

func clipName(s string) string { return s[:min(len(s), 64)] }

// sameOffer reports whether two offers are of one tool of the catalog.
func sameOffer(a, b Offer) bool {
	return a.Tool == nil && b.Tool == nil && a.ID == b.ID && equalArgs(a.Defaults, b.Defaults)
}

func equalArgs(a, b tool.Args) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// blockEnd is what ends the block that a part's text stands in, in an agent's
// prompt.
const blockEnd = "</capability>"
