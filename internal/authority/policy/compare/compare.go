// Package compare reports how two policies differ in their text and, with an
// example for each difference, in their decisions. It is pure. Start at
// [Documents] and [Witnesses].
//
// It does not prove that two policies decide alike. If no example shows a
// difference, [Change.Moot] reports whether an added or removed entry provably
// allows only calls that the other policy allows too.
package compare

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Change is one difference between two documents.
type Change struct {
	Where string `json:"where"`         // a key, as limits.calls, or a list, as files.read.allow
	Was   string `json:"was,omitempty"` // "": it was not there
	Is    string `json:"is,omitempty"`  // "": it is no longer there
	// Moot: one entry of the other policy allows all that this one does.
	Moot bool `json:"moot,omitempty"`
}

// Documents returns the changes between two documents, in the order of their
// canonical form. The order of entries within a list makes no difference to any
// decision, nor does the policy's name, so neither is compared.
func Documents(was, is *policy.Policy) []Change {
	a, b := read(was), read(is)
	var out []Change
	for _, l := range a.lines {
		if !l.entry {
			if now, ok := b.values[l.where]; !ok || now != l.text {
				out = append(out, Change{Where: l.where, Was: l.text, Is: now})
			}
		} else if !b.has(l) {
			out = append(out, Change{Where: l.where, Was: l.text})
		}
	}
	for _, l := range b.lines {
		_, known := a.values[l.where]
		if l.entry && !a.has(l) || !l.entry && !known {
			out = append(out, Change{Where: l.where, Is: l.text})
		}
	}
	return out
}

// line is one entry, or one key with a value, of a printed policy.
type line struct {
	where, text string
	entry       bool
}

type document struct {
	lines  []line
	values map[string]string
}

func (d *document) has(l line) bool { return slices.Contains(d.lines, l) }

// read takes the canonical form apart.
func read(p *policy.Policy) *document {
	d := &document{values: map[string]string{}}
	var keys []string
	entryAt := -1 // the indentation of the entry that goes on
	for text := range strings.Lines(string(p.Print())) {
		trimmed := strings.TrimSpace(text)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if entryAt >= 0 && indent > entryAt {
			d.lines[len(d.lines)-1].text += " " + trimmed
			continue
		}
		entryAt = -1
		keys = keys[:min(indent/2, len(keys))]
		if entry, ok := strings.CutPrefix(trimmed, "- "); ok {
			entryAt = indent
			d.lines = append(d.lines, line{strings.Join(keys, "."), entry, true})
			continue
		}
		key, value := cut(trimmed)
		keys = append(keys, key)
		where := strings.Join(keys, ".")
		if value == "" || where == "name" || where == "version" {
			continue
		}
		d.lines = append(d.lines, line{where, value, false})
		d.values[where] = value
	}
	return d
}

// cut parts a key, which may be quoted, from its value.
func cut(s string) (key, value string) {
	at := 0
	if strings.HasPrefix(s, `"`) {
		for at = 1; at < len(s) && s[at] != '"'; at++ {
			if s[at] == '\\' {
				at++
			}
		}
	}
	i := strings.Index(s[min(at, len(s)):], ":")
	if i < 0 {
		return s, ""
	}
	return s[:at+i], strings.TrimSpace(s[at+i+1:])
}

// kinds are the kinds of actions by the section that decides them.
var kinds = map[string]tool.ActionKind{
	"files.read": tool.FileRead, "files.write": tool.FileWrite, "files.delete": tool.FileDelete, "network": tool.Network, "commands": tool.Command, "models": tool.Model, "api": tool.API,
	"databases.read": tool.TableRead, "databases.write": tool.TableWrite,
}

// Mark sets Moot where an entry of allow was added that the old policy covers,
// or removed that the new one does.
func Mark(changes []Change, was, is policy.Chain) {
	for i := range changes {
		c := &changes[i]
		section, ok := strings.CutSuffix(c.Where, ".allow")
		kind := kinds[section]
		if !ok || kind == tool.NoAction {
			continue
		}
		text, other := c.Is, was
		if c.Is == "" {
			text, other = c.Was, is
		}
		if pattern, err := unquote(text); err == nil {
			c.Moot = other.Includes(kind, pattern)
		}
	}
}

// Witness is an action, or a call of a tool, that two policies decide
// differently.
type Witness struct {
	On   string        `json:"on"`
	Was  policy.Effect `json:"-"`
	Is   policy.Effect `json:"-"`
	Rule string        `json:"rule"` // the new policy's deciding rule
}

// Witnesses decides examples of all entries of both policies under both, and
// gives those on which they differ, at most one for each entry.
func Witnesses(was, is policy.Chain, env policy.Env) []Witness {
	var out []Witness
	seen := map[string]bool{}
	for _, group := range candidates(was, is, env) {
		for _, call := range group {
			var a, b policy.Decision
			on := ""
			if call.Tool != nil {
				a, b, on = was.Decide(with(was, call)), is.Decide(with(is, call)), describe(call)
			} else {
				a, b, on = was.DecideAction(call.Actions[0]), is.DecideAction(call.Actions[0]), call.Actions[0].String()
			}
			if a.Effect == b.Effect || seen[on] {
				continue
			}
			seen[on] = true
			out = append(out, Witness{on, a.Effect, b.Effect, b.Rule.String()})
			break
		}
	}
	return out
}

func with(c policy.Chain, call policy.Call) policy.Call {
	call.Actions = c.Within(call.Tool, call.Args)
	return call
}
