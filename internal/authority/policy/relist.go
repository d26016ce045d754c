package policy

import (
	"reflect"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Relist gives a policy with the lists of src, a document that holds nothing
// but lists, and with everything else as the chain has it: the deny entries of
// every link, the limits and the modes. Entries of tools.ask are kept for the
// tools of asked, which a person was asked about; for the other tools of used
// they become entries of deny. It has no roles and does not say rest: inherit.
//
// Errors have the code PolicyInvalid: src cannot be read, or links say
// something that one document cannot say for all of them.
func (c Chain) Relist(name string, src []byte, used, asked []tool.ID) (*Policy, error) {
	p, err := Parse(name, src)
	if err != nil || len(c) == 0 {
		return p, err
	}
	if slices.ContainsFunc(c, func(r *Rules) bool { return r == nil || r.policy == nil }) {
		return nil, fault.New(fault.PolicyInvalid, "a policy of the chain is missing")
	}
	d := *c[0].policy.document()
	d.name, d.inherit, d.roles, d.sections = p.doc.name, false, nil, p.doc.sections
	for _, r := range c[1:] {
		if field := unlike(&d, r.policy.document()); field != "" {
			return nil, fault.New(fault.PolicyInvalid, "the policies of the chain cannot be written as one: %q also says something of %s",
				r.policy.Name(), field)
		}
	}
	c.carryDenied(&d)
	for _, id := range used {
		if err := c.carryAsked(&d, id, slices.Contains(asked, id)); err != nil {
			return nil, err
		}
	}
	c.carryModes(&d)
	c.carryLimits(&d)
	return Parse(name, (&Policy{doc: &d}).Print())
}

// carryDenied adds the chain's deny entries.
func (c Chain) carryDenied(d *document) {
	for id := range d.sections {
		s := &d.sections[id]
		if !s.set {
			continue
		}
		for _, r := range c {
			from := r.policy.document().sections[id].lists[Deny]
			for i := range from {
				s.add(Deny, &from[i])
			}
		}
	}
}

// carryAsked adds what the chain asks about one tool. An entry of ask lets a
// tool through by itself, so where one link asks, the others must not constrain
// the tool: nothing but the asking would be left of that.
func (c Chain) carryAsked(d *document, id tool.ID, asked bool) error {
	for i, r := range c {
		from := r.policy.document().sections[toolSection].lists[Ask]
		for k := range from {
			en := from[k]
			if !en.name.Match(string(id)) {
				continue
			}
			en.text = string(id)
			if !asked && !en.args.within() {
				d.sections[toolSection].add(Deny, &en)
				continue
			}
			if o := c.constraining(id, i); o != nil {
				return fault.New(fault.PolicyInvalid, "the policies of the chain cannot be written as one: %q asks about %s, and %q constrains its arguments or does not allow it",
					r.policy.Name(), id, o.policy.Name())
			}
			if o := c.acting(id); o != "" {
				return fault.New(fault.PolicyInvalid, "the policies cannot be written as one: %q asks about %s, and the entry %q makes actions of its arguments",
					r.policy.Name(), id, o)
			}
			d.sections[toolSection].add(Ask, &en)
		}
	}
	return nil
}

// acting gives an entry that makes actions of a tool's arguments, "" if there
// is none.
func (c Chain) acting(id tool.ID) string {
	for _, r := range c {
		for e := Ask; e <= Allow; e++ {
			list := r.policy.document().sections[toolSection].lists[e]
			for i := range list {
				if list[i].args.within() && list[i].name.Match(string(id)) {
					return list[i].text
				}
			}
		}
	}
	return ""
}

// constraining gives a link but the one at skip that does not let every call of
// a tool through, deny entries apart.
func (c Chain) constraining(id tool.ID, skip int) *Rules {
	for i, r := range c {
		s := &r.policy.document().sections[toolSection]
		if i == skip || r.sections[toolSection].inherits {
			continue
		}
		plain := func(en entry) bool { return en.args == nil && en.name.Match(string(id)) }
		if !slices.ContainsFunc(s.lists[Allow], plain) && !slices.ContainsFunc(s.lists[Ask], plain) {
			return r
		}
	}
	return nil
}

// within reports whether a constraint makes an action of an argument, which an
// entry of deny cannot.
func (a *arguments) within() bool {
	return a != nil && slices.ContainsFunc(a.list, func(a argument) bool {
		for c := a.rule; c != nil; c = c.each {
			if c.within != noSection {
				return true
			}
		}
		return false
	})
}

// add adds an entry that the list does not have yet.
func (s *section) add(e Effect, en *entry) {
	text := printed(en)
	for i := range s.lists[e] {
		if printed(&s.lists[e][i]) == text {
			return
		}
	}
	s.lists[e] = append(s.lists[e], *en)
}

func printed(en *entry) string {
	var w printer
	w.entry(0, en)
	return w.b.String()
}

// carryModes sets the modes to the strictest of the chain.
func (c Chain) carryModes(d *document) {
	d.system = ""
	if c.StandardSystem() {
		d.system = "standard"
	}
	d.isolation, d.tier = "", ""
	d.asking = c.MCP().asking()
	if least := c.Isolation(); least != FullIsolation {
		d.isolation = least.String()
	}
	if c.SessionTier() {
		d.tier = "session"
	}
	d.inspect, d.hold, d.durability = false, c.Limits().Hold, ""
	d.askFromRisk = nil
	for _, r := range c {
		o := r.policy.document()
		d.inspect = d.inspect || o.inspect
		if o.durability == "power" || d.durability == "" {
			d.durability = o.durability
		}
		if g := o.askFromRisk; g != nil && (d.askFromRisk == nil || g.risk < d.askFromRisk.risk) {
			d.askFromRisk = g
		}
	}
}

// carryLimits sets the limits to the smallest of the chain.
func (c Chain) carryLimits(d *document) {
	l := c.Limits()
	d.readBytes, d.writeBytes, d.responseBytes = l.ReadBytes, l.WriteBytes, l.ResponseBytes
	d.requestTimeout, d.commandTimeout = l.RequestTimeout, l.CommandTimeout
	d.bandwidth, d.totalBytes = l.Bandwidth, l.TotalBytes
	d.outputBytes, d.memory, d.processes, d.openFiles, d.cpu, d.disk = l.OutputBytes, l.Memory, l.Processes, l.OpenFiles, l.CPU, l.Disk
	d.tokens, d.spawn, d.depth = l.Tokens, l.Spawn, l.Depth
	d.calls, d.callsPerTool, d.time = l.Calls, l.CallsPerTool, l.Time
	d.bytesIn, d.bytesOut, d.money = l.BytesIn, l.BytesOut, l.Money
	d.env = l.Env
	d.path = slices.DeleteFunc(slices.Clone(l.Path), func(dir string) bool { return slices.Contains(c[0].env.Path, dir) })
	if len(d.path) == 0 {
		d.path = nil
	}
	d.perTool = nil
	for _, r := range c {
		for _, t := range r.policy.document().perTool {
			if !slices.ContainsFunc(d.perTool, func(o toolCount) bool { return o.pattern == t.pattern }) {
				d.perTool = append(d.perTool, t)
			}
		}
	}
	for i := range d.perTool {
		for _, r := range c {
			for _, t := range r.policy.document().perTool {
				if t.pattern == d.perTool[i].pattern {
					d.perTool[i].calls = min(d.perTool[i].calls, t.calls)
				}
			}
		}
	}
}

// carried are the fields of a document that Relist combines.
var carried = strings.Fields(`name inherit system isolation tier asking durability sections readBytes writeBytes responseBytes hold
	requestTimeout commandTimeout bandwidth totalBytes inspect outputBytes memory processes openFiles cpu disk env path
	askFromRisk tokens spawn depth calls callsPerTool bytesIn bytesOut money perTool time roles`)

// unlike names a field that Relist does not know how to combine and that other
// sets to something else than first: what is not understood is not dropped.
func unlike(first, other *document) string {
	a, b := reflect.ValueOf(first).Elem(), reflect.ValueOf(other).Elem()
	for i := range a.NumField() {
		name, x, y := a.Type().Field(i).Name, a.Field(i), b.Field(i)
		if slices.Contains(carried, name) || y.IsZero() || x.Comparable() && y.Comparable() && x.Equal(y) {
			continue
		}
		return name
	}
	return ""
}
