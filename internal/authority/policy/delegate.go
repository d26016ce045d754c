package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// delegation is the authority that a policy's holder may hand on.
type delegation struct {
	pos     fault.Pos
	actions []string // names of sections
	to      []string
	names   []*glob.Text // to, compiled
	depth   int          // 0: not written, which is 1
}

// deepest a delegation goes where the policy does not say.
const defaultDelegation = 1

// MayDelegate reports whether the holder of the chain may hand authority over the
// sections (files.read, network, ...) on to a principal. Depth is how many times
// authority has then been handed on since the root grant, at least 1. Every
// policy of the chain must permit it. A policy that says rest: inherit and does
// not mention delegation leaves it to the others. The error is fault.NotDelegable
// and names the rule.
func (c Chain) MayDelegate(to string, depth int, sections []string) error {
	said := false
	for _, r := range c {
		if r == nil || r.policy == nil {
			return fault.New(fault.NotDelegable, "a policy of the chain is missing, so nothing may be handed on")
		}
		d := r.policy.content()
		if d.delegate == nil && d.inherit {
			continue
		}
		said = true
		if err := d.delegate.allows(d, to, depth, sections); err != nil {
			return err.At(fault.Pos{File: r.policy.file, Line: err.Pos.Line})
		}
	}
	if !said {
		return fault.New(fault.NotDelegable, "no policy says that anything may be handed on").
			WithHint("a policy's delegate says what, to whom and how deep")
	}
	return nil
}

func (d *delegation) allows(of *content, to string, depth int, sections []string) *fault.Error {
	if d == nil {
		return fault.New(fault.NotDelegable, "the policy %q does not say that anything may be handed on", of.name).
			WithHint("its delegate would have to say what, to whom and how deep")
	}
	bad := func(format string, args ...any) *fault.Error {
		return fault.New(fault.NotDelegable, format, args...).At(d.pos)
	}
	if err := checkName(to); err != nil {
		return bad("the principal %q cannot be one: %v", clip.Text(to, 40), err)
	}
	if !slices.ContainsFunc(d.names, func(n *glob.Text) bool { return n.Match(to) }) {
		return bad("no entry of delegate.to matches %q", clip.Text(to, 40)).WithHint("it has %s", listOrNone(d.to))
	}
	if most := max(d.depth, defaultDelegation); depth < 1 || depth > most {
		return bad("delegate.depth: authority may be handed on %d times, this would be the %d.", most, depth)
	}
	for _, s := range sections {
		if !slices.Contains(d.actions, of.deciding(sectionNamed(s)).String()) {
			return bad("delegate.actions does not have %q", clip.Text(s, 40)).WithHint("it has %s; leave the section out of what you hand on", listOrNone(d.actions))
		}
	}
	return nil
}

func listOrNone(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// delegate makes the setting of delegate. Lists that are missing are empty:
// nothing may be handed on, or to no one.
func delegate(into **delegation) setting {
	return setting{"delegate",
		func(p *parser) document.Field {
			return func(n *document.Node, path string) {
				d := &delegation{pos: p.Pos(n)}
				*into = d
				p.mapping(n, path, document.Fields{
					"actions": p.Strings(&d.actions, 0, checkSection),
					"to": p.Strings(&d.to, 0, func(s string) error {
						name, err := principalPattern(s)
						d.names = append(d.names, name)
						return err
					}),
					"depth": document.Int(p.Reader, &d.depth, 1, maxCount),
				})
			}
		},
		func(w *printer, in int) {
			d := *into
			if d == nil {
				return
			}
			w.line(in, "delegate:")
			w.line(in+1, "actions: %s", quoteAll(append([]string{}, d.actions...)))
			w.line(in+1, "to: %s", quoteAll(append([]string{}, d.to...)))
			if d.depth > 0 {
				w.line(in+1, "depth: %d", d.depth)
			}
		}}
}

func checkSection(s string) error {
	if sectionNamed(s) != noSection {
		return nil
	}
	return fmt.Errorf("%q is not a section; expected one of %s", clip.Text(s, 40), strings.Join(sectionNames[1:], ", "))
}

// principalPattern reads a pattern of principals, as "agent:*".
func principalPattern(s string) (*glob.Text, error) {
	name, err := compileToolName(s, false)
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid principal pattern; expected kind:name, with * as a wildcard", clip.Text(s, 40))
	}
	return name, nil
}
