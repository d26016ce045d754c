package capability

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// MaxCapabilities is the largest number of capabilities of an agent, with those that
// others require; MaxTools is the largest number of its tools.
const (
	MaxCapabilities = 64
	MaxTools        = 256
)

// Ref is a capability of an agent, with its configuration.
type Ref struct {
	Ref    string          // the capability's ID
	Config json.RawMessage // nil: none
}

// Resolved is the result of Resolve.
type Resolved struct {
	Parts    []ResolvedPart // in order: each after those that it requires
	Tools    []Offer        // of all parts, in order; each name once
	Warnings []string       // for people
}

// ResolvedPart is the part of one capability.
type ResolvedPart struct {
	Info   Info
	Config json.RawMessage // of the capability; nil: none
	For    string          // the capability that requires it, if the agent does not name it itself
	Part   Part            // with renamed tools
	Around Hooked          // nil: it is not called around calls
}

// Hook is called around the calls of the part's own tools; false: there is none.
func (p *ResolvedPart) Hook() (runner.Hook, bool) {
	if p.Around == nil {
		return runner.Hook{}, false
	}
	own := map[tool.ID]bool{}
	for _, o := range p.Part.Tools {
		if o.Tool != nil {
			own[o.ID] = true
		}
	}
	return runner.Hook{Name: p.Info.ID, Match: func(id tool.ID) bool { return own[id] }, Handle: p.Around.Around}, true
}

// Resolve finds the capabilities that an agent names, and those that they require. The
// order is the agent's, with required capabilities first (depth first), each once. A
// capability that another one requires has the agent's configuration if the agent names
// it too.
//
// A reference "id@version" asks for one version of a capability, and fails with any other.
//
// All problems are reported at once, each with its field below "capabilities": an unknown
// ID (fault.CapabilityUnknown), a capability that is coming soon or named twice, a cycle
// of requirements, an invalid configuration, and two different tools with the same name
// (fault.CapabilityInvalid).
//
// Two tools cannot have the same name: neither hides the other. The agent can rename one
// of them with RenameKey. The same tool of the catalog, offered by two capabilities under
// the same name and with the same defaults, is offered once.
func Resolve(reg *Registry, refs []Ref, s Session) (Resolved, error) {
	r := resolver{reg: reg.current(), refs: slices.Clone(refs), session: s, named: map[string]int{}, pinned: map[string]string{}, state: map[string]int{},
		offered: map[string]offered{}}
	refs = r.refs
	for i := range refs {
		id, version, pinned := strings.Cut(refs[i].Ref, "@")
		if refs[i].Ref = id; pinned {
			r.pinned[id] = version
		}
	}
	for i, ref := range refs {
		if first, twice := r.named[ref.Ref]; twice {
			r.fail(i, fault.New(fault.CapabilityInvalid, "the capability %q is named twice; first in capabilities[%d]", ref.Ref, first))
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
		r.errs = append(r.errs, fault.New(fault.CapabilityInvalid, "the agent has %d capabilities; the limit is %d", len(r.out.Parts), MaxCapabilities).In("capabilities"))
	}
	if len(r.out.Tools) > MaxTools {
		r.errs = append(r.errs, fault.New(fault.CapabilityInvalid, "the agent has %d tools; the limit is %d", len(r.out.Tools), MaxTools).
			WithHint("choose fewer tools, for instance with the key tools of the capability mcp").In("capabilities"))
	}
	if err := r.errs.Err(); err != nil {
		return Resolved{}, err
	}
	return r.out, nil
}

// The states of a capability while it is resolved.
const (
	unseen = iota
	walking
	done
)

type resolver struct {
	reg     *Registry
	refs    []Ref
	session Session
	named   map[string]int    // index of the agent's reference
	pinned  map[string]string // the version that the agent asks for
	state   map[string]int
	offered map[string]offered
	out     Resolved
	errs    fault.List
}

// offered is a tool with the capability that offers it.
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

// visit adds a capability after all that it requires. way is the chain of capabilities
// that require it, i the index of the agent's reference that leads to it.
func (r *resolver) visit(id string, way []string, i int) {
	if at, named := r.named[id]; named {
		i = at
	}
	switch r.state[id] {
	case done:
		return
	case walking:
		circle := append(slices.Clone(way[slices.Index(way, id):]), id)
		r.fail(i, fault.New(fault.CapabilityInvalid, "the capabilities require each other in a cycle: %s", strings.Join(circle, " → ")))
		return
	}
	r.state[id] = walking
	defer func() { r.state[id] = done }()
	c, err := r.reg.Get(id)
	if err != nil {
		r.failRequired(i, way, err)
		return
	}
	info := c.Info()
	if v, pinned := r.pinned[id]; pinned && v != info.Version {
		r.fail(i, fault.New(fault.CapabilityInvalid, "the capability %q has version %q; the agent asks for %.50q", id, info.Version, v).
			ForOperator("look at what changed with remit capabilities %s, then ask for %s@%s", id, id, info.Version))
		return
	}
	way = append(slices.Clone(way), id)
	for _, need := range info.Requires {
		r.visit(need, way, i)
	}
	switch info.Status {
	case ComingSoon:
		r.fail(i, fault.New(fault.CapabilityInvalid, "the capability %q cannot be used yet: its status is %s", id, info.Status))
		return
	case Deprecated:
		r.warn("the capability %q is deprecated: %s", id, info.Description)
	}
	r.add(c, info, way, i)
}

func (r *resolver) warn(format string, args ...any) {
	r.out.Warnings = append(r.out.Warnings, fmt.Sprintf(format, args...))
}

// failRequired reports an error, with the capability that requires the one at fault.
func (r *resolver) failRequired(i int, way []string, err error) {
	e := coded(err)
	if len(way) > 0 {
		e = fault.Wrap(e.Code, e.Err, "%s; %q requires it", e.Msg, way[len(way)-1]).WithHint("%s", e.Hint)
	}
	r.fail(i, e)
}

// coded gives an error a code.
func coded(err error) *fault.Error {
	if e, ok := err.(*fault.Error); ok {
		return e
	}
	return fault.Wrap(fault.CodeOf(err), err, "%s", fault.Message(err))
}

// add adds a capability's part.
func (r *resolver) add(c Capability, info Info, way []string, i int) {
	field := fmt.Sprintf("capabilities[%d].config", i)
	p := ResolvedPart{Info: info}
	p.Around, _ = c.(Hooked)
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

// partFailed adds the capability, and the field of its configuration, to an error.
func partFailed(info Info, err error, field string) *fault.Error {
	e := coded(err)
	if e.Field != "" {
		field += "." + e.Field
	}
	return fault.Wrap(fault.CapabilityInvalid, err, "%s: %s", info.ID, e.Msg).WithHint("%s", e.Hint).In(field)
}

// checkPart renames a part's tools and checks their names and the prompt.
func (r *resolver) checkPart(info Info, part Part, rename map[string]string, field string) (Part, error) {
	if strings.Contains(strings.ToLower(part.Prompt), blockEnd[:len(blockEnd)-1]) {
		return part, fault.New(fault.CapabilityInvalid, "the prompt of %q contains %s, which would end its block in the agent's prompt", info.ID, blockEnd)
	}
	part.Tools = slices.Clone(part.Tools)
	names := make([]string, len(part.Tools))
	for i, o := range part.Tools {
		names[i] = o.Name
		if to, ok := rename[o.Name]; ok {
			part.Tools[i].Name = to
		}
		if !ValidName(part.Tools[i].Name) {
			return part, fault.New(fault.CapabilityInvalid, "%q offers a tool with the name %.100q, which is not a valid tool name", info.ID, o.Name)
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
		return part, e.WithHint("its tools are: %s", strings.Join(names, ", "))
	}
	return part, nil
}

// offer adds a tool, unless another one has its name.
func (r *resolver) offer(info Info, o Offer, i int) {
	before, taken := r.offered[o.Name]
	switch {
	case !taken:
		if info.ReadOnly {
			o.ReadOnly = info.ID
		}
		r.offered[o.Name] = offered{info.ID, o}
		r.out.Tools = append(r.out.Tools, o)
	case sameOffer(before.offer, o):
	default:
		r.fail(i, fault.New(fault.CapabilityInvalid, "%q (%s) and %q (%s) both offer a tool with the name %q", before.by, before.offer.ID, info.ID, o.ID, o.Name).
			WithHint(`rename one of them in its configuration, as {"ref": %q, "config": {"rename": {%q: %q}}}`, info.ID, o.Name, clip.Prefix(info.ID+"_"+o.Name, 64)))
	}
}

// sameOffer reports whether two offers are the same tool of the catalog.
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

// blockEnd ends the block of a part's text in an agent's prompt.
const blockEnd = "</capability>"
