package extensions

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/tools/extension"
	extsource "github.com/remitrun/remit/internal/tools/source/extension"
)

// Offer is all that a person should know of an extension: before it is
// installed, and any time after.
type Offer struct {
	Extension

	Was         *Extension            `json:"was,omitempty"` // what it takes the place of
	Wants       []ExtensionPermission `json:"wants"`         // its permissions
	Never       []string              `json:"never"`         // the actions that it can never take, under any policy
	Actions     []ExtensionAction     `json:"actions"`
	Folder      string                `json:"folder"`
	WorkFolder  string                `json:"work_folder"`
	Files       int                   `json:"files"`
	Bytes       int64                 `json:"bytes"`
	Bounds      string                `json:"bounds"` // the policy that bounds each of its calls
	InstallPlan string                `json:"install_plan,omitempty"`
	// InstallPolicy is what InstallPlan runs under, besides Bounds.
	InstallPolicy string   `json:"install_policy,omitempty"`
	Warnings      []string `json:"warnings,omitempty"`
}

// ExtensionPermission is a permission, and its meaning.
type ExtensionPermission struct {
	Name  extension.Permission `json:"name"`
	Means string               `json:"means"`
	New   bool                 `json:"new,omitempty"` // the one that it takes the place of did not have it
}

// ExtensionAction is what one action of a command runs.
type ExtensionAction struct {
	Command string   `json:"command"` // "/git log"
	Usage   string   `json:"usage"`
	Runner  string   `json:"runner"`
	Runs    string   `json:"runs"`           // for people: its description
	Tool    tool.ID  `json:"tool,omitempty"` // that is called
	Risk    string   `json:"risk,omitempty"` // of a tool of its own
	Effects []string `json:"side_effects,omitempty"`
	About   string   `json:"description"`
}

// offer describes an extension that is, or would be, installed at root.
func (x *Extensions) offer(ctx context.Context, p *extension.Package, e Extension, root string) (Offer, error) {
	bounds, err := p.Bounds(root)
	if err != nil {
		return Offer{}, err
	}
	o := Offer{Extension: e, Folder: root, WorkFolder: extension.Work(root), Files: len(p.Files), Bounds: string(bounds.Source()), Never: never(&p.Manifest)}
	for _, f := range p.Files {
		o.Bytes += int64(len(f.Data))
	}
	for _, known := range extension.Permissions {
		if p.Manifest.Has(known.Name) {
			o.Wants = append(o.Wants, ExtensionPermission{Name: known.Name, Means: known.Means})
		}
	}
	if o.Actions, err = x.actionsOf(ctx, p, root); err != nil {
		return o, err
	}
	thePlan, under := p.Install()
	o.InstallPlan, o.InstallPolicy = string(thePlan), string(under)
	o.Warnings = warnings(p)
	return o, nil
}

// never lists what an extension without some permissions cannot do.
func never(m *extension.Manifest) []string {
	var out []string
	for _, one := range []struct {
		closed bool
		what   string
	}{
		{!m.Has(extension.Exec), "start a program"},
		{!m.Has(extension.Network) && !m.Has(extension.Browser), "reach the network"},
		{!m.Has(extension.ReadFiles), "read files besides those in its work folder"},
		{!m.Has(extension.WriteFiles), "write files"},
		{m.Has(extension.WriteFiles), "write files besides those in its work folder"},
		{!m.Has(extension.LLM), "ask a model"},
	} {
		if one.closed {
			out = append(out, one.what)
		}
	}
	return out
}

// actionsOf says what the actions run. The tools among them are judged as the
// catalog would: one that it would not list is an error.
func (x *Extensions) actionsOf(ctx context.Context, p *extension.Package, root string) ([]ExtensionAction, error) {
	c, err := catalog.Open(catalog.Config{BuiltIn: x.BuiltIn(), Sources: []catalog.Source{catalog.From(extsource.New(extsource.Config{
		ID: p.Manifest.ID, Root: root, Box: x.Box, WASM: x.extensionModule, Load: func() (*extension.Package, error) { return p, nil },
	}))}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // nothing was started
	list := c.List(ctx, catalog.Filter{})
	if len(list.Failing) > 0 {
		return nil, list.Failing[0].Err
	}
	if len(list.Refused) > 0 {
		return nil, fault.New(fault.ExtensionInvalid, "its tool %q cannot be listed: %s", list.Refused[0].ID, list.Refused[0].Why)
	}
	var out []ExtensionAction
	for i := range p.Commands {
		cmd := &p.Commands[i]
		for k := range cmd.Actions {
			act := &cmd.Actions[k]
			one := ExtensionAction{Command: "/" + cmd.Name + " " + act.ID, Usage: chat.Usage(cmd, act), Runner: act.Runner.Text, Runs: whatRuns(p, act, root), About: act.Description, Tool: act.Runner.Tool()}
			if act.Runner.Own() {
				one.Tool = extension.ToolID(p.Manifest.ID, cmd.Name, act.ID)
				for _, t := range list.Tools {
					if t.Spec.ID == one.Tool {
						one.Risk = t.Spec.Risk.String()
						for _, e := range t.Spec.Effects.List() {
							one.Effects = append(one.Effects, e.String())
						}
					}
				}
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// whatRuns describes what an action runs, for people.
func whatRuns(p *extension.Package, act *extension.Action, root string) string {
	switch act.Runner.Kind {
	case extension.RunExec:
		words := act.Argv
		if words == nil {
			words = []string{act.ID}
		}
		where := "its work folder"
		if act.Workspace {
			where = "the workspace"
		}
		argv := []string{p.Program(act, root)}
		for _, w := range words {
			argv = append(argv, strings.ReplaceAll(w, extension.WorkWord, extension.Work(root)))
		}
		return tool.Action{Kind: tool.Command, Argv: argv}.Subject() + " … in " + where
	case extension.RunWASM:
		return "its module " + act.Runner.Name
	case extension.RunAnalyze:
		return "a model, on the session's last response"
	}
	return "the tool " + act.Runner.Tool().String()
}

// warnings are what in its texts looks like an attempt on whoever reads them.
func warnings(p *extension.Package) []string {
	var out []string
	look := func(where, text string) {
		for _, f := range inspect.Text(where, text) {
			out = append(out, f.Where+": "+f.Why+": "+f.Quote)
		}
	}
	look("description", p.Manifest.Description)
	for _, c := range p.Commands {
		look("/"+c.Name, c.Summary+"\n"+c.Description)
		for _, act := range c.Actions {
			look("/"+c.Name+" "+act.ID, act.Description)
		}
	}
	return out
}

// Show says all of an installed extension that there is to know.
func (x *Extensions) Show(ctx context.Context, id string) (Offer, error) {
	e, err := x.Find(id)
	if err != nil {
		return Offer{}, err
	}
	p, err := x.loadExtension(e)
	if err != nil {
		return Offer{Extension: e}, err
	}
	return x.offer(ctx, p, e, x.extensionRoot(id))
}

// listing is how an extension is listed once it is installed.
func listing(p *extension.Package) Extension {
	m := &p.Manifest
	e := Extension{ID: m.ID, Name: m.Name, Version: m.Version, Description: m.Description, Author: m.Author, License: m.License,
		Permissions: slices.Clone(m.Permissions), Platforms: m.Platforms, Enabled: true, Digest: p.Digest.String(), Signer: m.SignerText(), Tools: p.Tools()}
	if e.Permissions == nil {
		e.Permissions = []extension.Permission{}
	}
	if e.Tools == nil {
		e.Tools = []tool.ID{}
	}
	for _, c := range p.Commands {
		e.Commands = append(e.Commands, ExtensionCommand{"/" + c.Name, c.Summary})
	}
	return e
}

// conflicts reports a name of an extension that is taken: its own, or that of a command. The one
// that it takes the place of does not count.
func conflicts(e Extension, list []Extension) error {
	for _, other := range list {
		id := other.ID
		if id == e.ID {
			continue
		}
		if inspect.Alike(id, e.ID) {
			return fault.New(fault.ExtensionConflict, "the ID %q could be taken for that of the extension %q", e.ID, id)
		}
		for _, c := range e.Commands {
			for _, o := range other.Commands {
				switch {
				case c.Name == o.Name:
					return fault.New(fault.ExtensionConflict, "%s is a command of the extension %s already", c.Name, id).WithHint("remit ext remove %s makes room", id)
				case inspect.Alike(c.Name, o.Name):
					return fault.New(fault.ExtensionConflict, "%s could be taken for %s, a command of the extension %s", c.Name, o.Name, id)
				}
			}
		}
	}
	return nil
}

// installPlan reads the plan that runs at installation, and its policy; nil if there
// is none.
func (x *Extensions) installPlan(p *extension.Package) (*plan.Plan, *policy.Policy, error) {
	src, under := p.Install()
	if src == nil {
		return nil, nil, nil
	}
	file := func(name string) string { return filepath.Join("("+p.Manifest.ID+")", name) }
	pol, err := policy.Parse(file(extension.PolicyFile), under)
	if err != nil {
		return nil, nil, err
	}
	if pol.Inherits() {
		return nil, nil, fault.New(fault.ExtensionInvalid, "the policy of an installation cannot say rest: inherit").At(fault.Pos{File: pol.File()})
	}
	thePlan, err := x.Runs.ParsePlan(file(extension.PlanFile), src)
	return thePlan, pol, err
}
