package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
)

// sideEffectSettings is the section side_effects: its gates by Deny and Ask.
type sideEffectSettings struct {
	gates [2][]sideEffectEntry
	hold  []sideEffectEntry // calls of such tools wait for review in a held run
}

// sideEffectEntry is one entry: the effects that its pattern names.
type sideEffectEntry struct {
	pos  fault.Pos
	text string
	set  tool.Effects
}

func (s *sideEffectSettings) setting() setting {
	return mapping("side_effects", sideEffects("ask", &s.gates[Ask]), sideEffects("deny", &s.gates[Deny]), sideEffects("hold", &s.hold))
}

func sideEffects(key string, into *[]sideEffectEntry) setting {
	read := func(p *parser) document.Field {
		return p.List(0, func(n *document.Node, path string) {
			text, ok := p.Text(n, path)
			if !ok {
				return
			}
			set := effectsOf(text)
			if set == 0 {
				p.Fail(n, path, "%q is not a side effect", clip.Text(text, 40)).Hint = suggestEffect(text)
				return
			}
			*into = append(*into, sideEffectEntry{p.Pos(n), text, set})
		})
	}
	return value(key, read, func() string {
		var texts []string
		for _, e := range *into {
			texts = append(texts, e.text)
		}
		return quoteAll(texts)
	})
}

// allEffects is the whole vocabulary of side effects.
var allEffects = ^tool.Effects(0)

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

// effectGate is a bound entry of side_effects.
type effectGate struct {
	boundEntry

	set tool.Effects
}

// bindEffects prepares the entries of side_effects.
func (r *Rules) bindEffects(d *content) {
	for e, list := range d.sideEffects.gates {
		for i, en := range list {
			b := r.gateEntry(Effect(e), en.pos.Line, "side_effects."+listNames[e]+"["+strconv.Itoa(i)+"]", en.text)
			b.reason = verb(b.effect) + " by " + b.rule.String()
			r.gates.effects = append(r.gates.effects, effectGate{b, en.set})
		}
	}
}

func (c *collector) matchEffects(link int, b *effectGate, call *Call) {
	if c != nil {
		reason := b.reason + ": the tool declares " + (call.Tool.Effects & b.set).String()
		c.matches = append(c.matches, Match{Link: link, Effect: b.effect, Rule: &b.rule, Action: string(call.Tool.ID), Reason: reason})
	}
}
