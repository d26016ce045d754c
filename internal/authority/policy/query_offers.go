package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/tool"
)

// Opens returns the sections (files.read, network, ...) in which the chain may allow
// something, in the order of the format. Built-in tools that are allowed by default
// do not count.
func (c Chain) Opens() []string {
	var out []string
	for id := noSection + 1; id < numSections; id++ {
		if c.opens(id) && (id != deleteSection || c.PartsDeleting()) {
			out = append(out, sectionNames[id])
		}
	}
	return out
}

// PartsDeleting reports whether a policy of the chain decides deleting apart from
// writing: it has a section files.delete.
func (c Chain) PartsDeleting() bool {
	return slices.ContainsFunc(c, func(r *Rules) bool { return r != nil && r.policy.content().files.delete.set })
}

// OpensTools reports whether the chain may allow the call of any tool: one that
// policies name, or a built-in one, which is allowed where none names any.
func (c Chain) OpensTools() bool {
	for _, r := range c {
		if r == nil {
			return false
		}
		s := &r.sections[toolSection]
		if !s.inherits && s.allowSet && r.unlisted == nil && len(s.lists[Allow])+len(s.lists[Ask]) == 0 {
			return false
		}
	}
	return len(c) > 0
}

func (c Chain) opens(id sectionID) bool {
	said := false
	for _, r := range c {
		if r == nil {
			return false
		}
		s := &r.sections[id]
		switch {
		case s.inherits:
		case len(s.lists[Allow])+len(s.lists[Ask]) > 0:
			said = true
		case id == toolSection && r.unlisted != nil:
			said = true
		case id == toolSection && !s.allowSet: // the built-in ones
		default:
			return false
		}
	}
	return said
}

// Offers reports whether the chain could allow, or ask about, some call of a tool.
// False means that every call is denied, whatever its arguments; true promises
// nothing, as the arguments decide. It is for listing tools, and decides no call.
func (c Chain) Offers(t *tool.Spec) bool {
	if t == nil {
		return false
	}
	decided := false
	for _, r := range c {
		if r == nil || r.policy == nil || r.gatesOut(t) {
			return false
		}
		if r.sections[toolSection].inherits {
			continue
		}
		if decided = true; !r.offers(t) {
			return false
		}
	}
	if !decided {
		return false
	}
	need := neededSection(t)
	return need == noSection || c.opens(need)
}

// gatesOut reports whether a gate denies all calls of a tool.
func (r *Rules) gatesOut(t *tool.Spec) bool {
	for i := range r.gates.risks {
		if g := &r.gates.risks[i]; g.effect == Deny && t.Risk >= g.risk {
			return true
		}
	}
	for i := range r.gates.effects {
		if g := &r.gates.effects[i]; g.effect == Deny && t.Effects&g.set != 0 {
			return true
		}
	}
	return false
}

// offers is Offers by the section tools of one policy.
func (r *Rules) offers(t *tool.Spec) bool {
	s := &r.sections[toolSection]

	for i := range s.lists[Deny] {
		if b := &s.lists[Deny][i]; b.tool().args == nil && b.tool().matchName(t.ID) {
			return false
		}
	}
	for e := Ask; e <= Allow; e++ {
		for i := range s.lists[e] {
			if s.lists[e][i].tool().matchName(t.ID) {
				return true
			}
		}
	}
	return r.unlisted != nil || r.allowsBuiltIn(t)
}

// neededSection is the section that every call of a built-in tool needs: that of its
// strongest effect. Other tools are decided by their entries in tools alone.
func neededSection(t *tool.Spec) sectionID {
	if t.Source != "builtin" {
		return noSection
	}
	if strings.HasPrefix(string(t.ID), "db.") { // other tools with these effects use Remit's own records
		if t.Effects.Has(tool.DatabaseWrite) {
			return databaseWriteSection
		}
		return databaseReadSection
	}
	for _, n := range []struct {
		effects tool.Effects
		section sectionID
	}{
		{tool.EffectSet(tool.SystemExec), commandSection},
		{tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket), networkSection},
		{tool.EffectSet(tool.FSWrite, tool.FSChmod), writeSection},
		{tool.EffectSet(tool.FSDelete), deleteSection},
		{tool.EffectSet(tool.FSRead), readSection},
	} {
		if t.Effects&n.effects != 0 {
			return n.section
		}
	}
	return noSection
}

// maxWritten bounds the listed entries of a section.
const maxWritten = 12

// Written lists the allow and ask entries for a kind of action, one line for each
// policy with such a section. It shows a denied caller the permitted alternatives.
// Long lists are shortened, with a note.
func (c Chain) Written(kind tool.ActionKind) []string { return c.written(sectionOf(kind)) }

// WrittenTools is [Chain.Written] of the section tools.
func (c Chain) WrittenTools() []string { return c.written(toolSection) }

func (c Chain) written(id sectionID) []string {
	var out []string
	for _, r := range c {
		if r == nil || r.policy == nil || id == noSection || r.sections[id].inherits {
			continue
		}
		s := &r.sections[id]
		line := r.policy.content().deciding(id).String() + ".allow"
		if name := r.policy.Name(); name != "" {
			line += " of policy " + strconv.Quote(clip.Text(name, 40))
		}
		switch texts := entryTexts(s.lists[Allow]); {
		case texts != "" && id == toolSection && r.unlisted != nil:
			line += ": the built-in tools, " + texts
		case texts != "":
			line += ": " + texts
		case id == toolSection && (!s.allowSet || r.unlisted != nil):
			line += ": the built-in tools"
		default:
			line += ": nothing"
		}
		if texts := entryTexts(s.lists[Ask]); texts != "" {
			line += "; a person is asked about " + texts
		}
		if id == toolSection && r.unlisted != nil {
			line += "; a person is asked about all other tools"
		}
		out = append(out, line)
	}
	return out
}

func entryTexts(list []boundEntry) string {
	texts := make([]string, 0, maxWritten)
	for i := range list {
		if i == maxWritten {
			return strings.Join(texts, ", ") + " and " + strconv.Itoa(len(list)-i) + " more"
		}
		texts = append(texts, strconv.Quote(clip.Text(list[i].pattern.String(), 120)))
	}
	return strings.Join(texts, ", ")
}
