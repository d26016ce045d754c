// Package infer assesses the risk and the side effects of a tool from the evidence of its
// source: permissions of an extension, annotations of an MCP server, HTTP methods, words in
// names. It is pure. Start at [Infer].
//
// Evidence only raises the risk: no statement of a source makes its tool less risky than
// the other evidence shows. Three things lower it, and none is the source's statement: the
// operator's own assessment ([Said]), the operator's trust in the source ([Hints.Trusted]),
// and what the sandbox makes impossible ([Hints.Cannot]).
package infer

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// Hints are the known facts about a tool besides its specification. The first six are the source's
// own words; the zero value says nothing.
type Hints struct {
	// Permissions that the tool's extension requires: exec, network,
	// filesystem.read, filesystem.write, browser, llm, database.
	Permissions []string `json:"permissions,omitempty"`
	// Annotations of an MCP tool; nil is not said.
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
	// Method of the HTTP request that a call is, in upper case.
	Method string `json:"method,omitempty"`

	// Trusted: the operator trusts the claims of this source.
	Trusted bool `json:"-"`
	// Cannot are effects that the tool's confinement makes impossible.
	Cannot tool.Effects `json:"-"`
}

// Reason is one piece of evidence.
type Reason struct {
	Risk    tool.Risk
	Effects tool.Effects
	Why     string
}

// Verdict is what the evidence comes to.
type Verdict struct {
	Risk    tool.Risk
	Effects tool.Effects
	Reasons []Reason // never empty
}

// Said is the operator's setting for a tool; nil fields set nothing.
type Said struct {
	Risk    *tool.Risk
	Effects *tool.Effects
}

// Infer weighs the evidence. The verdict is never below the source's own description of the tool.
func Infer(spec *tool.Spec, h Hints) Verdict {
	var v Verdict
	for _, p := range h.Permissions {
		v.add(permission(p))
	}
	v.method(h.Method)
	v.annotations(spec.Source, h)
	for _, r := range words(spec) {
		v.add(r)
	}
	v.base(spec.Source, h)
	v.Effects &^= h.Cannot
	if spec.Risk > tool.Low || spec.Effects != 0 {
		v.add(Reason{spec.Risk, spec.Effects, "the source says so"})
	}
	return v
}

// Overrule puts the operator's word in the place of the verdict.
func (v Verdict) Overrule(s Said) Verdict {
	if s.Risk != nil {
		v.Reasons = append(v.Reasons, Reason{*s.Risk, 0, fmt.Sprintf("the configuration says %s, which holds instead of %s", *s.Risk, v.Risk)})
		v.Risk = *s.Risk
	}
	if s.Effects != nil {
		v.Reasons = append(v.Reasons, Reason{v.Risk, *s.Effects, "the configuration says which side effects it has"})
		v.Effects = *s.Effects
	}
	return v
}

func (v *Verdict) add(r Reason) {
	v.Risk = max(v.Risk, r.Risk)
	v.Effects |= r.Effects
	v.Reasons = append(v.Reasons, r)
}

func permission(name string) Reason {
	why := "it requires the permission " + name
	switch name {
	case "exec":
		return Reason{tool.High, tool.EffectSet(tool.SystemExec), why}
	case "network":
		return Reason{tool.High, tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS), why}
	case "browser":
		return Reason{tool.High, tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS, tool.SystemExec), why}
	case "filesystem.read":
		return Reason{tool.Low, tool.EffectSet(tool.FSRead), why}
	case "filesystem.write":
		return Reason{tool.Medium, tool.EffectSet(tool.FSWrite, tool.FSDelete), why}
	case "llm":
		return Reason{tool.Medium, tool.EffectSet(tool.NetworkHTTP), why}
	case "database":
		return Reason{tool.High, tool.EffectSet(tool.DatabaseRead, tool.DatabaseWrite, tool.DatabaseDelete), why}
	}
	return Reason{tool.Critical, everything, fmt.Sprintf("it requires a permission that is not known: %q", name)}
}

// everything is the set of possible effects of an unknown tool.
var everything = tool.EffectSet(tool.FSRead, tool.FSWrite, tool.FSDelete, tool.NetworkHTTP, tool.SystemExec)

func (v *Verdict) method(m string) {
	web := tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS)
	switch m {
	case "":
	case "GET", "HEAD", "OPTIONS", "TRACE":
		v.add(Reason{tool.Medium, web, "its HTTP method is " + m})
	default:
		v.add(Reason{tool.High, web, fmt.Sprintf("its HTTP method is %s, which changes things", m)})
	}
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// annotations weighs an MCP server's annotations of its tool. Where a server says that a tool
// changes things, a missing hint counts as in the protocol: destructive.
func (v *Verdict) annotations(source string, h Hints) {
	switch {
	case isTrue(h.Destructive) && !isTrue(h.ReadOnly):
		v.add(Reason{tool.High, 0, "it is annotated as destructive"})
	case isFalse(h.ReadOnly) && !isFalse(h.Destructive):
		v.add(Reason{tool.High, 0, "it is annotated as changing things, and not as harmless in that"})
	case isFalse(h.ReadOnly):
		v.add(Reason{tool.Medium, 0, "it is annotated as changing things"})
	case isTrue(h.ReadOnly) && !h.Trusted:
		v.add(Reason{tool.Medium, 0, "it is annotated as only reading, which its source is not trusted to say"})
	case isTrue(h.ReadOnly):
		v.add(Reason{tool.Low, 0, "it is annotated as only reading, by a source that the configuration trusts"})
	}
	if isTrue(h.OpenWorld) {
		v.add(Reason{tool.Medium, tool.EffectSet(tool.NetworkHTTP), "it is annotated as reaching the world outside"})
	}
	if isFalse(h.Idempotent) && !isTrue(h.ReadOnly) {
		v.add(Reason{tool.Medium, 0, "doing it twice is annotated as more than doing it once"})
	}
}

// base is the default for a source: a call of such a source can do this under any name.
func (v *Verdict) base(source string, h Hints) {
	r := Reason{Risk: tool.Medium}
	switch source {
	case "mcp":
		r.Effects, r.Why = tool.EffectSet(tool.NetworkHTTP, tool.FSWrite), "an MCP server may do more than it says"
		if h.Trusted && isTrue(h.ReadOnly) {
			r.Effects &^= tool.EffectSet(tool.FSWrite)
		}
		if h.Trusted && isFalse(h.OpenWorld) {
			r.Effects &^= tool.EffectSet(tool.NetworkHTTP)
		}
	case "mcp-remote", "api":
		r.Effects, r.Why = tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS), "a call goes out over the network"
	case "agent":
		r.Effects, r.Why = tool.EffectSet(tool.NetworkHTTP, tool.FSWrite), "an agent's tool may do more than its name says"
	case "extension":
		r.Why = "an extension's commands run on this machine"
	case "wasm":
		r.Effects, r.Why = tool.EffectSet(tool.FSWrite), "a module can act on its mounted folders"
	default:
		r.Effects, r.Why = everything, "nothing is known of this kind of source"
	}
	r.Effects &^= h.Cannot
	if !r.Effects.Effectful() && (h.Trusted && isTrue(h.ReadOnly) || source == "wasm") {
		r.Risk, r.Why = tool.Low, "nothing that it can do changes anything"
	}
	v.add(r)
}

// String returns the evidence as one line for each reason.
func (v Verdict) String() string {
	var b strings.Builder
	for _, r := range v.Reasons {
		fmt.Fprintf(&b, "%s: %s", r.Risk, r.Why)
		if r.Effects != 0 {
			fmt.Fprintf(&b, " (%s)", r.Effects)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
