package policy

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
)

// effectEntry is an entry of side_effects: the effects that its pattern names.
type effectEntry struct {
	pos  fault.Pos
	text string
	set  tool.Effects
}

// allEffects is the whole vocabulary of side effects.
var allEffects = ^tool.Effects(0)

// more adds the readers of the keys that say how calls are gated.
func (p *parser) more(d *document, k keys) keys {
	k["side_effects"] = func(n *yaml.Node, field string) {
		p.mapping(n, field, keys{"ask": p.effects(&d.effects[Ask]), "deny": p.effects(&d.effects[Deny])})
	}
	k["approvals"] = func(n *yaml.Node, field string) {
		p.mapping(n, field, keys{"approvers": p.count(&d.approvers, 1), "timeout": p.duration(&d.approvalTimeout),
			"expires": p.duration(&d.approvalExpires), "session": p.maybe(&d.session)})
	}
	k["frozen_plan"] = func(n *yaml.Node, field string) {
		p.mapping(n, field, keys{
			"required":  p.placed(&d.planPos, p.truth(&d.planRequired)),
			"otherwise": p.placed(&d.elsePos, p.oneOf(&d.planElse, "ask", "deny")),
		})
	}
	k["delegate"] = p.delegation(&d.delegate)
	k["on_revoke"] = p.oneOf(&d.onRevoke, "finish", "cancel")
	k["violations"] = func(n *yaml.Node, field string) {
		kinds := keys{}
		for v, name := range violationNames {
			kinds[name] = p.oneOf(&d.responses[v], responseNames[:]...)
		}
		p.mapping(n, field, kinds)
	}
	return k
}

// placed notes where a value stands.
func (p *parser) placed(at *fault.Pos, read func(*yaml.Node, string)) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		*at = p.pos(n)
		read(n, field)
	}
}

// maybe reads a truth value that may also be left out.
func (p *parser) maybe(into **bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		v := new(bool)
		before := len(p.errs)
		if p.truth(v)(n, field); len(p.errs) == before {
			*into = v
		}
	}
}

// effects reads a list of patterns of side effects.
func (p *parser) effects(into *[]effectEntry) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.SequenceNode {
			p.fail(n, field, "must be a list, not %s", describe(n))
			return
		}
		for i, item := range n.Content {
			f := fmt.Sprintf("%s[%d]", field, i)
			text, ok := p.text(item, f)
			if !ok {
				continue
			}
			set := effectsOf(text)
			if set == 0 {
				p.fail(item, f, "%q is no side effect", clip(text)).Hint = suggestEffect(text)
				continue
			}
			*into = append(*into, effectEntry{p.pos(item), text, set})
		}
	}
}

// effectsOf is the side effects that a pattern names: one by its name, all of a
// group as "fs.*", or all as "*".
func effectsOf(pattern string) tool.Effects {
	var set tool.Effects
	for _, e := range allEffects.List() {
		group, _, _ := strings.Cut(e.String(), ".")
		if pattern == "*" || pattern == e.String() || pattern == group+".*" {
			set |= tool.EffectSet(e)
		}
	}
	return set
}

func suggestEffect(got string) string {
	var names []string
	for _, e := range allEffects.List() {
		names = append(names, e.String())
	}
	if best := near.Word(got, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "write * for all, fs.* for a group, or one of " + strings.Join(names, ", ")
}

func checkSection(s string) error {
	if i := slices.Index(sectionNames[:], s); i > int(noSection) {
		return nil
	}
	return fmt.Errorf("%q is none of %s", clip(s), strings.Join(sectionNames[1:], ", "))
}

// principalPattern reads a pattern of principals, as "agent:*".
func principalPattern(s string) (*glob.Text, error) {
	name, err := toolPattern(s, false)
	if err != nil {
		return nil, fmt.Errorf("%q is no principal pattern: write kind:name, with * for any part", clip(s))
	}
	return name, nil
}

// gates prints what the document says of how calls are gated, but for the keys
// of tools.
func (w *printer) gates(in int, d *document) {
	w.fields(in, "side_effects", []field{{"ask", effectTexts(d.effects[Ask])}, {"deny", effectTexts(d.effects[Deny])}})
	session := ""
	if d.session != nil {
		session = fmt.Sprint(*d.session)
	}
	w.fields(in, "approvals", []field{{"approvers", d.approvers}, {"timeout", d.approvalTimeout}, {"expires", d.approvalExpires}, {"session", session}})
	w.fields(in, "frozen_plan", []field{{"required", d.planRequired}, {"otherwise", d.planElse}})
	if g := d.delegate; g != nil {
		w.line(in, "delegate:")
		w.line(in+1, "actions: %s", field{value: nonNil(g.actions)}.text())
		w.line(in+1, "to: %s", field{value: nonNil(g.to)}.text())
		if g.depth > 0 {
			w.line(in+1, "depth: %d", g.depth)
		}
	}
	if d.onRevoke != "" {
		w.line(in, "on_revoke: %s", d.onRevoke)
	}
	var responses []field
	for v, r := range d.responses {
		responses = append(responses, field{violationNames[v], r})
	}
	w.fields(in, "violations", responses)
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func effectTexts(list []effectEntry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.text)
	}
	return out
}
