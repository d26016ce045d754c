package policy

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Rules is a policy bound to a workspace, ready to decide. It is immutable.
// The zero Rules denies everything.
type Rules struct {
	policy   *Policy
	env      Env
	tool     tool.Env // what within derives commands with
	state    string   // Env.State, folded
	path     []string // the trusted PATH with commands.path
	added    []string // commands.path, resolved
	sections [numSections]boundSection
	builtin  boundEntry // allows built-in tools where tools.allow is absent
	inherit  boundEntry // allows what another link decides
	typed    boundEntry // asks about a command that a person typed and no entry knows
	gate     *boundEntry
	risk     tool.Risk
	gates    boundGates
	own      string // see Chain.Owning
	program  int    // instructions of the policy's regular expressions, without its roles'
}

type boundSection struct {
	inherits bool // another link decides
	allowSet bool
	lists    [3][]boundEntry
}

// boundEntry is an entry with everything that a decision prints prepared.
type boundEntry struct {
	rule   Rule
	reason string
	effect Effect
	prefix string // of tools: what the names that match begin with
	admin  bool   // an ask that only somebody who may approve admin calls answers
	exact  *glob.Pattern
	fold   *glob.Pattern // deny only
	entry  *entry
	cmd    *command.Pattern
}

// Policy is what the rules were bound from.
func (r *Rules) Policy() *Policy { return r.policy }

// Bind compiles p for env.
func (p *Policy) Bind(env Env) (*Rules, error) {
	d := p.document()
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
	r.typed = r.synthetic("default", "no entry of commands knows it; the person who typed it must approve")
	r.typed.effect = Ask
	if d.askFromRisk != nil {
		r.risk = d.askFromRisk.risk
		r.gate = &boundEntry{effect: Ask, rule: Rule{Policy: d.name, File: p.file, Line: d.askFromRisk.pos.Line,
			Name: "tools.ask_from_risk", Pattern: d.askFromRisk.risk.String()}}
	}
	r.bindGates(d)
	var errs fault.List
	for id := range d.sections {
		s := &d.sections[id]
		b := &r.sections[id]
		b.inherits = d.inherit && !s.set
		b.allowSet = s.allowSet
		for e := range s.lists {
			for i := range s.lists[e] {
				be, err := r.bindEntry(sectionID(id), Effect(e), i, &s.lists[e][i])
				if err != nil {
					errs = append(errs, err)
				}
				b.lists[e] = append(b.lists[e], be)
			}
		}
	}
	errs = append(errs, r.bindPath(d)...)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	r.tool = tool.Env{Workspace: env.Workspace, Home: env.Home, Path: r.path, Pass: d.env}
	return r, nil
}

func (r *Rules) synthetic(name, reason string) boundEntry {
	return boundEntry{effect: Allow, reason: reason, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Name: name}}
}

func checkEnvironment(env Env) error {
	for what, dir := range map[string]string{"workspace": env.Workspace, "home": env.Home, "state folder": env.State} {
		if dir == "" && what != "workspace" {
			continue
		}
		if why := pathProblem(dir); why != "" {
			return fault.New(fault.PolicyInvalid, "the %s %q cannot be used: %s", what, dir, why)
		}
	}
	return nil
}

func (r *Rules) bindEntry(id sectionID, e Effect, i int, en *entry) (boundEntry, *fault.Error) {
	b := boundEntry{entry: en, effect: e, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Line: en.pos.Line,
		Name: id.String() + "." + listNames[e] + "[" + strconv.Itoa(i) + "]", Pattern: en.text}}
	if e == Allow {
		b.reason = "allowed by " + b.rule.String()
	}
	var err error
	switch id {
	case readSection, writeSection:
		if b.exact, err = compilePath(en.text, e == Deny, r.env, glob.Options{Beneath: e == Deny}); err == nil && e == Deny {
			b.fold, err = compilePath(en.text, true, r.env, glob.Options{Fold: true, Beneath: true})
		}
	case toolSection:
		b.prefix, _, _ = strings.Cut(en.text, "*")
	case commandSection:
		b.cmd = en.cmd.Bind(r.env.Workspace)
	}
	if err != nil {
		return b, fault.New(fault.PolicyInvalid, "%v", err).At(en.pos).In(b.rule.Name)
	}
	return b, nil
}

// bindPath resolves commands.path.
func (r *Rules) bindPath(d *document) fault.List {
	var errs fault.List
	r.path = slices.Clone(r.env.Path)
	for i, dir := range d.path {
		if rest, ok := strings.CutPrefix(dir, "~/"); ok {
			if r.env.Home == "" {
				errs = append(errs, fault.New(fault.PolicyInvalid, "%q: there is no home folder", dir).In(fmt.Sprintf("commands.path[%d]", i)))
				continue
			}
			dir = path.Join(r.env.Home, rest)
		}
		if dir == r.env.Workspace || strings.HasPrefix(dir, strings.TrimSuffix(r.env.Workspace, "/")+"/") {
			errs = append(errs, fault.New(fault.PolicyInvalid, "%q is in the workspace, whose files are never trusted commands", dir).
				At(fault.Pos{File: r.policy.file}).In(fmt.Sprintf("commands.path[%d]", i)))
			continue
		}
		r.added = append(r.added, dir)
		if !slices.Contains(r.path, dir) {
			r.path = append(r.path, dir)
		}
	}
	return errs
}

// anchor says which folder a path pattern is beneath, and the rest of it.
func anchor(pattern string, deny bool, env Env) (base, rest string, err error) {
	switch {
	case strings.HasPrefix(pattern, "~/"):
		if env.Home == "" {
			return "", "", fmt.Errorf("%q: there is no home folder", pattern)
		}
		return env.Home, pattern[2:], nil
	case strings.HasPrefix(pattern, "~"):
		return "", "", fmt.Errorf("%q: only ~/ stands for a home folder; write \\~ for the character", pattern)
	case strings.HasPrefix(pattern, "/"):
		return "/", pattern[1:], nil
	case deny && (pattern == "**" || strings.HasPrefix(pattern, "**/")):
		return "/", pattern, nil
	}
	return env.Workspace, pattern, nil
}

func compilePath(pattern string, deny bool, env Env, o glob.Options) (*glob.Pattern, error) {
	base, rest, err := anchor(pattern, deny, env)
	if err != nil {
		return nil, err
	}
	o.Base = base
	return glob.Compile(rest, o)
}

// pathProblem says why a path is none that a policy decides; "": it is one.
func pathProblem(p string) string {
	switch {
	case p == "":
		return "it is empty"
	case len(p) > 4096:
		return "it is longer than 4096 bytes"
	case p[0] != '/':
		return "it is not absolute"
	case !utf8.ValidString(p):
		return "it is not UTF-8"
	}
	if p == "/" {
		return ""
	}
	start := 1
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			if p[i] == 0 {
				return "it holds a NUL byte"
			}
			continue
		}
		switch seg := p[start:i]; {
		case seg == "" || seg == "." || seg == "..":
			return "it is not clean"
		case len(seg) > 255:
			return "a name in it is longer than 255 bytes"
		}
		start = i + 1
	}
	return ""
}
