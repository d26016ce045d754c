package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// folder is an entry of commands.cwd that is bound to a workspace.
type folder struct {
	exact *glob.Pattern
	bases []glob.Base
}

// compileFolder compiles an entry of commands.cwd; . is the workspace itself.
func compileFolder(text string, env Env) (*glob.Pattern, error) {
	if text == "." {
		text = glob.Escape(env.Workspace)
	}
	return compilePath(text, false, env, glob.Options{})
}

// matches reports whether commands may start in a folder. DIR/** matches DIR, too.
func (f *folder) matches(dir string) bool {
	return f.exact.Match(dir) || slices.ContainsFunc(f.bases, func(b glob.Base) bool { return b.Exact && b.Path == dir })
}

// bindStart compiles commands.cwd and prepares what decides where, and with which
// variables, commands start.
func (r *Rules) bindStart(d *content) fault.List {
	var errs fault.List
	for i, text := range d.commands.cwd {
		p, err := compileFolder(text, r.env)
		if err != nil {
			errs = append(errs, fault.New(fault.PolicyInvalid, "%v", err).At(fault.Pos{File: r.policy.file}).In(fmt.Sprintf("commands.cwd[%d]", i)))
			continue
		}
		r.folders = append(r.folders, folder{p, p.Bases()})
	}
	r.misplaced = boundEntry{effect: Deny, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Name: "commands.cwd", Pattern: quoteAll(d.commands.cwd)}}
	for _, v := range d.commands.values {
		rule := Rule{Policy: r.policy.Name(), File: r.policy.file, Name: "commands.env[" + strconv.Itoa(v.at) + "]", Pattern: v.name + "=" + v.value}
		if v.at < len(d.commands.envPos) {
			rule.Line = d.commands.envPos[v.at].Line
		}
		r.values = append(r.values, boundVariable{v, boundEntry{effect: Deny, rule: rule}})
	}
	return errs
}

// boundVariable is a variable with the entry that denies another value.
type boundVariable struct {
	variable
	boundEntry
}

// judgeStart gives the entry that denies a command for the folder that it starts in, or
// for a variable; nil: there is none.
func (r *Rules) judgeStart(a *tool.Action) *boundEntry {
	for i := range r.values {
		if a.Variable != "" && r.values[i].name == a.Variable {
			return &r.values[i].boundEntry
		}
	}
	if r.policy.content().commands.cwd == nil {
		return nil
	}
	inside, certain := command.Folders(a.Argv, a.Dir)
	if !certain {
		return &r.misplaced
	}
	for _, dir := range append(inside, a.Dir, cmp.Or(a.RealDir, a.Dir)) {
		if !slices.ContainsFunc(r.folders, func(f folder) bool { return f.matches(dir) }) {
			return &r.misplaced
		}
	}
	return nil
}

// contradiction gives the entry of commands.env whose value no command can have, or nil:
// another policy gives the variable another value, or does not let a call set it.
func (c Chain) contradiction() (link int, b *boundEntry, why string) {
	for i, r := range c {
		if r == nil || r.policy == nil || len(r.values) == 0 {
			continue
		}
		for k := range r.values {
			v := &r.values[k]
			for _, o := range c[:i] {
				if o == nil || o.policy == nil || o.sections[commandSection].inherits {
					continue
				}
				was, same := o.policy.content().commands.value(v.name)
				switch {
				case same && was.value == v.value:
				case same:
					return i, &v.boundEntry, fmt.Sprintf("the policy %q gives the variable %s another value", o.policy.Name(), v.name)
				default:
					if why := command.Assignable(v.name, o.tool); why != "" {
						return i, &v.boundEntry, fmt.Sprintf("the policy %q does not let it be set: %s", o.policy.Name(), why)
					}
				}
			}
		}
	}
	return 0, nil, ""
}

// given are the values that the policies of a chain give variables.
func (c Chain) given() map[string]string {
	var out map[string]string
	for _, r := range c {
		if r == nil {
			continue
		}
		for i := range r.values {
			if out == nil {
				out = map[string]string{}
			}
			if _, first := out[r.values[i].name]; !first {
				out[r.values[i].name] = r.values[i].value
			}
		}
	}
	return out
}

// folders reports whether a policy of the chain says where commands may start.
func (c Chain) folders() bool {
	return slices.ContainsFunc(c, func(r *Rules) bool { return r != nil && r.policy.content().commands.cwd != nil })
}
