package policy

import (
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Rules is a policy bound to a workspace, ready to decide. It is immutable.
// The zero Rules denies everything.
type Rules struct {
	policy    *Policy
	env       Env
	tool      tool.Env // the settings that within derives commands with
	state     string   // Env.State, folded
	path      []string // the trusted PATH with commands.path
	added     []string // commands.path, resolved
	sections  [numSections]boundSection
	builtin   boundEntry // allows built-in tools where tools.allow is absent
	inherit   boundEntry // leaves the decision to other links
	typed     boundEntry // asks about a command that a person typed and no entry matches
	left      boundEntry // leaves a command's argument to the sandbox
	agents    boundEntry // allows an agent's own file that no entry names
	untold    untold
	folders   []folder // commands.cwd
	values    []boundVariable
	misplaced boundEntry  // denies a command outside of folders
	unlisted  *boundEntry // asks about tools that no entry matches; nil: they are denied
	gate      *boundEntry
	risk      tool.Risk
	gates     boundGates
	own       string    // see Chain.Owning
	data      []string  // see Chain.Carrying
	flow      *flowLink // nil: a policy's own rules
	program   int       // instructions of the policy's regular expressions, without its roles'
}

// Policy is the source of the rules.
func (r *Rules) Policy() *Policy { return r.policy }

// Env is the environment of the rules.
func (r *Rules) Env() Env { return r.env }

// Bind compiles p for env.
func (p *Policy) Bind(env Env) (*Rules, error) {
	d := p.content()
	if err := checkEnvironment(env); err != nil {
		return nil, err
	}
	r := &Rules{policy: p, env: env, state: glob.Fold(env.State)}
	if p != nil {
		r.program = p.program
	}
	for i := range d.roles {
		r.program -= d.roles[i].policy.program
	}
	r.builtin = r.synthetic("default", "built-in tools are allowed where tools.allow is absent")
	r.inherit = r.synthetic("rest", "rest: inherit leaves this to the policies before")
	r.left = r.synthetic("default", "no entry matches this argument, so the sandbox decides")
	r.agents = r.synthetic("default", "it is the agent's own file, and no entry names it")
	r.typed = r.synthetic("default", "no entry of commands knows it; the person who typed it must approve")
	r.typed.effect = Ask
	r.bindGates(d)
	var errs fault.List
	for id := range numSections {
		s := d.section(id)
		b := &r.sections[id]
		if as := d.deciding(id); as != id {
			*b = r.sections[as] // bound already
			continue
		}
		b.inherits = d.inherit && !s.set
		b.allowSet = s.allowSet
		for e := range s.lists {
			for i := range s.lists[e] {
				be, err := r.bindEntry(id, Effect(e), i, &s.lists[e][i])
				if err != nil {
					errs = append(errs, err)
				}
				b.lists[e] = append(b.lists[e], be)
			}
			if len(errs) == 0 { // else there are no rules
				b.index[e] = newIndex(b.lists[e])
				b.indexed = b.indexed || b.index[e] != nil
			}
		}
	}
	errs = append(errs, r.bindPath(d)...)
	errs = append(errs, r.bindStart(d)...)
	r.bindUntold(d)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	r.tool = tool.Env{Workspace: env.Workspace, Home: env.Home, Path: r.path, Pass: d.commands.env, AnyVariable: d.commands.env == nil, Values: Chain{r}.given()}
	return r, nil
}

func (r *Rules) synthetic(name, reason string) boundEntry {
	return boundEntry{effect: Allow, reason: reason, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Name: name}}
}

func checkEnvironment(env Env) error {
	for what, dir := range map[string]string{"workspace": env.Workspace, "home": env.Home, "state folder": env.State, "repository": env.Repository} {
		if dir == "" && what != "workspace" {
			continue
		}
		if why := pathProblem(dir); why != "" {
			return fault.New(fault.PolicyInvalid, "the %s %q cannot be used: %s", what, dir, why)
		}
	}
	return nil
}
