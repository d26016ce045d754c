package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// confine makes the rules that keep commands where data can be withheld from them.
func (f *Flows) confine() error {
	at := slices.IndexFunc(f.labels, func(l flowLabel) bool { return len(l.only) > 0 })
	if at < 0 {
		return nil
	}
	var err error
	fk := *f.labels[at].only[0].flow
	f.local, err = flowRules(f.chain[fk.link], &fk, func(d *content) error {
		d.place.places, d.isolation.least = []string{Local.String(), Container.String()}, FullIsolation.String()
		return nil
	})
	return err
}

// Names lists the labels of a set, sorted.
func (f *Flows) Names(set Labels) []string {
	var out []string
	for i := range f.labels {
		if set&(1<<i) != 0 {
			out = append(out, f.labels[i].name)
		}
	}
	return out
}

// Lowers reports whether a label is known as one of data that is not trusted. A typed answer of a
// quarantined sub-agent loses it; any other label it keeps.
func (f *Flows) Lowers(name string) bool {
	return slices.ContainsFunc(f.labels, func(l flowLabel) bool { return l.name == name && !l.confidential })
}

// Set returns the names that are labels of the chain, as a set.
func (f *Flows) Set(names []string) Labels {
	var set Labels
	for i := range f.labels {
		if slices.Contains(names, f.labels[i].name) {
			set |= 1 << i
		}
	}
	return set
}

// Of are the labels of a call. Named: the call names their data, which other calls cannot reach.
// Holds: it can read their data while it runs, and pass it on. Result: its result has them.
type Of struct{ Named, Holds, Result Labels }

// Of returns the labels of a call. It is pure: the actions with their facts decide. foreign:
// another program carries out the call, so nothing is withheld from it.
func (f *Flows) Of(call Call, foreign bool) Of {
	var out Of
	call.Actions = f.typed(call.Actions, call.Recorded)
	for i := range f.labels {
		named, holds, result := f.labels[i].of(f.chain, &call, foreign)
		bit := Labels(1) << i
		if named {
			out.Named |= bit
		}
		if holds {
			out.Holds |= bit
		}
		if result {
			out.Result |= bit
		}
	}
	return out
}

// typed adds the files that typed commands name. Of other commands a call has them already.
func (f *Flows) typed(actions []tool.Action, recorded RecordedLabels) []tool.Action {
	given := len(actions)
	for _, a := range actions {
		if a.Kind == tool.Command && a.Typed && a.Unknown == "" {
			actions = append(slices.Clip(actions), command.Actions(a.Argv, f.chain[0].tool, a.Dir)...)
		}
	}
	for i := given; i < len(actions); i++ {
		actions[i].Labels = recorded.Typed[actions[i].Path]
	}
	return actions
}

// of finds the label's sources among the actions of a call. A process can do more than its actions
// name, unless the rest is withheld from it.
func (l *flowLabel) of(c Chain, call *Call, foreign bool) (named, holds, result bool) {
	withheld := len(l.only) > 0 && !foreign
	process := call.Tool.Effects.Has(tool.SystemExec)
	builtin := call.Tool.Source == "builtin"
	for i := range call.Actions {
		a := &call.Actions[i]
		process = process || a.Kind == tool.Command
	}
	for i := range call.Actions {
		a := &call.Actions[i]
		if !l.recorded(c, call, a, withheld) && (!l.fromAction(c, a, withheld) || l.spared(c, call, a)) {
			continue
		}
		named = true
		switch a.Kind {
		case tool.FileRead, tool.Command:
			holds, result = true, true
		case tool.FileWrite, tool.FileDelete:
			holds, result = holds || process, result || process
		default:
			holds, result = holds || !builtin || process, true
		}
	}
	if l.fromTool(c, call, process) && !l.spared(c, call, nil) {
		result = true
	}
	for i := range l.from {
		s := &l.from[i]
		switch {
		case !process && builtin:
		case s.Section == "secrets" && s.givenTo(c, call.Tool.ID):
			named, holds, result = true, true, true
		case withheld: // data that it does not name
		case s.Section == "network" && c.Connects(), s.Section == "files" && process:
			result = result || !l.sparesProcess(c, call)
		}
	}
	if process && !withheld && slices.Contains(call.Recorded.Around, l.name) {
		result = result || !l.sparesProcess(c, call)
	}
	return named, holds && l.confidential, result
}

// sparesProcess reports whether every command of a call is excepted, or its tool.
func (l *flowLabel) sparesProcess(c Chain, call *Call) bool {
	commands := 0
	for i := range call.Actions {
		if call.Actions[i].Kind != tool.Command {
			continue
		}
		commands++
		if !l.spared(c, call, &call.Actions[i]) {
			return false
		}
	}
	return commands > 0 || l.spared(c, call, nil)
}

// spared reports whether an entry of but matches the action, or the tool.
func (l *flowLabel) spared(c Chain, call *Call, a *tool.Action) bool {
	return slices.ContainsFunc(l.but, func(s flowSource) bool {
		return s.Section == "tools" && s.name.Match(string(call.Tool.ID)) || a != nil && s.matches(c, a, true)
	})
}

// fromAction reports whether the action is at one of the label's sources. Where other files
// are not withheld, a folder that may have some of them counts too.
func (l *flowLabel) fromAction(c Chain, a *tool.Action, withheld bool) bool {
	return slices.ContainsFunc(l.from, func(s flowSource) bool {
		return s.matches(c, a, false) || !withheld && s.Section == "files" && a.Kind == tool.FileRead && s.below(a)
	})
}

func (l *flowLabel) fromTool(c Chain, call *Call, process bool) bool {
	return slices.ContainsFunc(l.from, func(s flowSource) bool {
		switch s.Section {
		case "tools":
			return s.name.Match(string(call.Tool.ID))
		case "secrets":
			return !process && s.usedBy(c, call.Tool.ID)
		}
		return false
	})
}
