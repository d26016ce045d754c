package policy

import (
	"maps"
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
	d := *c[0].policy.content()
	d.name, d.inherit, d.roles = p.doc.name, false, nil
	for id := noSection + 1; id < numSections; id++ {
		*d.section(id) = *p.doc.section(id)
	}
	for _, r := range c[1:] {
		key := uncombined(&d, r.policy.content())
		if data := &r.policy.content().data; key == "" && len(data.labels) > 0 && !d.data.same(data) {
			key = "labels"
		}
		if key != "" {
			return nil, fault.New(fault.PolicyInvalid, "the policies of the chain cannot be written as one: %q also has the section %s",
				r.policy.Name(), key)
		}
	}
	d.files.delete.set = d.files.delete.set || c.PartsDeleting() // else writing would mean deleting, too
	c.carryDenied(&d)
	for _, id := range used {
		if err := c.carryAsked(&d, id, slices.Contains(asked, id)); err != nil {
			return nil, err
		}
	}
	if err := c.carryStart(&d); err != nil {
		return nil, err
	}
	if err := c.carryPlaces(&d); err != nil {
		return nil, err
	}
	c.carryModes(&d)
	c.carryLimits(&d)
	return Parse(name, (&Policy{doc: &d}).Print())
}

// carryDenied adds the chain's deny entries.
func (c Chain) carryDenied(d *content) {
	for id := noSection + 1; id < numSections; id++ {
		s := d.section(id)
		if !s.set {
			continue
		}
		for _, r := range c {
			of := r.policy.content()
			from := of.section(of.deciding(id)).lists[Deny]
			for i := range from {
				s.add(Deny, from[i])
			}
		}
	}
}

// carryAsked adds the chain's ask entries of one tool. An entry of ask lets a
// tool through by itself, so if one link asks, the others must not constrain the
// tool: their constraints would be lost.
func (c Chain) carryAsked(d *content, id tool.ID, asked bool) error {
	for i, r := range c {
		from := r.policy.content().tools.lists[Ask]
		for k := range from {
			if !from[k].tool().matchName(id) {
				continue
			}
			one := *from[k].tool()
			one.text = string(id)
			en := entry{from[k].pos, &one}
			if !asked && !one.args.hasWithin() {
				d.tools.add(Deny, en)
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
			d.tools.add(Ask, en)
		}
		if err := c.carryUnlisted(d, i, id, asked); err != nil {
			return err
		}
	}
	return nil
}

// carryUnlisted adds an entry of ask for a tool that a person was asked about because no entry of one link matched its call.
func (c Chain) carryUnlisted(d *content, link int, id tool.ID, asked bool) error {
	r, builtin := c[link], !strings.Contains(string(id), ":") // others have a source in their ID
	s := &r.sections[toolSection]
	names := func(b boundEntry) bool { return b.tool().matchName(id) }
	always := func(b boundEntry) bool { return names(b) && b.tool().args == nil }
	if !asked || r.unlisted == nil || slices.ContainsFunc(slices.Concat(s.lists[Ask], s.lists[Allow]), always) || builtin && !slices.ContainsFunc(s.lists[Allow], names) {
		return nil
	}
	if slices.ContainsFunc(slices.Concat(s.lists[Ask], s.lists[Allow]), names) || c.constraining(id, link) != nil || c.acting(id) != "" {
		return fault.New(fault.PolicyInvalid, "the policies of the chain cannot be written as one: %q asks about %s by tools.unlisted, and an entry constrains its arguments",
			r.policy.Name(), id)
	}
	return d.also(toolSection, Ask, string(id))
}

// acting returns an entry that makes actions of a tool's arguments, or "".
func (c Chain) acting(id tool.ID) string {
	for _, r := range c {
		for e := Ask; e <= Allow; e++ {
			list := r.policy.content().tools.lists[e]
			for i := range list {
				if p := list[i].tool(); p.args.hasWithin() && p.matchName(id) {
					return p.text
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
		s := &r.policy.content().tools
		if i == skip || r.sections[toolSection].inherits {
			continue
		}
		plain := func(en entry) bool { return en.tool().args == nil && en.tool().matchName(id) }
		if !slices.ContainsFunc(s.lists[Allow], plain) && !slices.ContainsFunc(s.lists[Ask], plain) {
			return r
		}
	}
	return nil
}

// hasWithin reports whether a constraint makes an action of an argument, which
// an entry of deny cannot.
func (a *arguments) hasWithin() bool {
	return a != nil && slices.ContainsFunc(a.list, func(a argument) bool {
		for c := a.rule; c != nil; c = c.each {
			if c.within != noSection {
				return true
			}
		}
		return false
	})
}

// carryStart keeps the folders that commands may start in. Those of several policies
// cannot be written as one list.
func (c Chain) carryStart(d *content) error {
	for _, r := range c {
		switch cwd := r.policy.content().commands.cwd; {
		case cwd == nil || slices.Equal(cwd, d.commands.cwd):
		case d.commands.cwd == nil:
			d.commands.cwd = cwd
		default:
			return fault.New(fault.PolicyInvalid, "the policies of the chain cannot be written as one: %q also has commands.cwd", r.policy.Name())
		}
	}
	return nil
}

// carryModes sets the modes to the strictest of the chain.
func (c Chain) carryModes(d *content) {
	d.isolation = isolationSettings{}
	if c.StandardSystem() {
		d.isolation.system = "standard"
	}
	if least := c.Isolation(); least != FullIsolation {
		d.isolation.least = least.String()
	}
	if c.SessionTier() {
		d.isolation.tier = "session"
	}
	if c.KeepsHome() {
		d.isolation.home = "kept"
	}
	if c.ShowsKeys(nil) {
		d.isolation.keys = "show"
	}
	d.mcp = c.MCP().settings()
	d.network.inspect, d.durability, d.tools.unlisted = false, "", ""
	d.tools.askFromRisk, d.tools.denyFromRisk, d.tools.adminFromRisk, d.tools.planFromRisk = nil, nil, nil, nil
	for _, r := range c {
		o := r.policy.content()
		d.network.inspect = d.network.inspect || o.network.inspect
		if o.durability == "power" || d.durability == "" {
			d.durability = o.durability
		}
		if o.commands.untold == Deny.String() || d.commands.untold == Allow.String() && o.commands.untold != Allow.String() && !r.sections[commandSection].inherits {
			d.commands.untold = o.commands.untold
		}
		stricter(&d.tools.askFromRisk, o.tools.askFromRisk)
		stricter(&d.tools.denyFromRisk, o.tools.denyFromRisk)
		stricter(&d.tools.adminFromRisk, o.tools.adminFromRisk)
		stricter(&d.tools.planFromRisk, o.tools.planFromRisk)
	}
}

// stricter keeps the gate that begins at the lower risk.
func stricter(into **riskGate, g *riskGate) {
	if g != nil && (*into == nil || g.risk < (*into).risk) {
		*into = g
	}
}

// carryLimits sets the limits to the smallest of the chain.
func (c Chain) carryLimits(d *content) {
	l := c.Limits()
	d.files.readMax, d.files.writeMax, d.files.hold = l.ReadBytes, l.WriteBytes, l.Hold
	d.network.maxBytes, d.network.timeout, d.network.bandwidth, d.network.totalBytes = l.ResponseBytes, l.RequestTimeout, l.Bandwidth, l.TotalBytes
	m := &d.commands
	m.timeout, m.maxOutput, m.memory, m.processes = l.CommandTimeout, l.OutputBytes, l.Memory, l.Processes
	m.openFiles, m.cpu, m.disk, m.env, m.values = l.OpenFiles, l.CPU, l.Disk, l.Env, nil
	for _, name := range slices.Sorted(maps.Keys(l.Values)) {
		m.values = append(m.values, variable{name: name, value: l.Values[name]})
	}
	m.path = slices.DeleteFunc(slices.Clone(l.Path), func(dir string) bool { return slices.Contains(c[0].env.Path, dir) })
	if len(m.path) == 0 {
		m.path = nil
	}
	d.models.tokensIn, d.models.tokensOut = l.TokensIn, l.TokensOut
	d.models.tokens, d.agents = l.Tokens, agentSettings{l.Spawn, l.Depth}
	d.limits = limitSettings{calls: l.Calls, callsPerTool: l.CallsPerTool, time: l.Time, bytesIn: l.BytesIn, bytesOut: l.BytesOut, money: l.Money, perKind: l.PerKind}
	for _, r := range c {
		for _, t := range r.policy.content().limits.perTool {
			d.limits.lowerTool(t)
		}
	}
}

// lowerTool adds a limit of calls, or lowers the one of the same pattern.
func (s *limitSettings) lowerTool(t toolCount) {
	for i := range s.perTool {
		if s.perTool[i].pattern == t.pattern {
			s.perTool[i].calls = min(s.perTool[i].calls, t.calls)
			return
		}
	}
	s.perTool = append(s.perTool, t)
}

// combined are the sections that Relist combines.
var combined = []string{"files", "network", "commands", "tools", "models", "api", "agents", "limits", "ledger",
	"system", "isolation", "sandbox", "output", "where", "labels", "mcp", "rest"}

// uncombined names a section that Relist cannot combine and that other sets to
// something else than first; "" if there is none.
func uncombined(first, other *content) string {
	was := first.settings()
	for i, s := range other.settings() {
		var a, b printer
		was[i].print(&a, 0)
		s.print(&b, 0)
		if !slices.Contains(combined, s.key) && b.b.Len() > 0 && b.b.String() != a.b.String() {
			return s.key
		}
	}
	return ""
}
