package remit

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Capability is a module of this program that agents can be given: text for their
// prompt, and Go functions as tools. One without code is a file in
// $REMIT_HOME/capabilities instead.
type Capability struct {
	ID          string // a small letter, then small letters, digits and _: agents name it so
	Name        string // a few words for people; default: the ID
	Description string
	Version     string // default "1"
	Prompt      string
	Requires    []string // capabilities that come with it
	Tools       []AgentTool
	ReadOnly    bool // a call of its tools that could have a side effect is denied
	// Around, if not nil, is called around the calls of the capability's tools, as
	// [Options.Around] is around all calls.
	Around func(ctx context.Context, e HookEvent) (note string, err error)
}

// AgentTool is a Go function as agents' models can call it. Its ID in policies and
// records is that of the capability, a dot, and its name.
//
// A call is decided, budgeted, recorded and timed as any other, but the function does the program's
// own work: no sandbox is around it. So a policy must allow it by its ID, as tools: {allow:
// ["model.chat", "harbour.*"]}.
type AgentTool struct {
	Name        string          // letters, digits, _ and -
	Description string          // that the model is told
	Input       json.RawMessage // JSON Schema (2020-12) of an object: the arguments
	// Effects are the side effects that a call may have, as "network.http": by them
	// calls are made side by side or one after the other, and are repeated or not.
	// nil: nothing is known, which counts as "system.exec". Empty, but not nil: none.
	Effects []string
	Risk    string // low, medium, high or critical; default: high with side effects, else low
	// Run answers a call. args fit Input. The result is encoded as JSON: an object as it is,
	// anything else as {"result": ...}. The text of its error is told to the model and recorded.
	Run func(ctx context.Context, args json.RawMessage) (any, error)
}

// Func makes a tool of a function whose arguments are read into an A. input is the
// schema of an A.
func Func[A any](name, description, input string, run func(ctx context.Context, args A) (any, error)) AgentTool {
	t := AgentTool{Name: name, Description: description, Input: json.RawMessage(input)}
	if run != nil {
		t.Run = func(ctx context.Context, raw json.RawMessage) (any, error) {
			var a A
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be read: %v", err)
			}
			return run(ctx, a)
		}
	}
	return t
}

// Harmless is the tool, said to have no side effects.
func (t AgentTool) Harmless() AgentTool {
	t.Effects = []string{}
	return t
}

// CapabilityInfo describes a capability that agents can be given.
type CapabilityInfo struct {
	ID, Name, Description, Status, Category, Version string
	Requires                                         []string
	Config                                           json.RawMessage // JSON Schema; nil: nothing to configure
	Wants                                            []string        // the authority that it will need, as policies write it
}

// program is where tools of the embedding program come from: no policy allows them
// unless it names them.
const program = "program"

// made is the capability as the engine takes it.
func (c Capability) made() (capability.Capability, error) {
	info := capability.Info{
		ID: c.ID, Name: c.Name, Description: c.Description, ReadOnly: c.ReadOnly, Status: capability.Available, Icon: "puzzle", Category: "Program",
		Version: c.Version, Requires: c.Requires,
	}
	if info.Name == "" {
		info.Name = c.ID
	}
	if info.Version == "" {
		info.Version = "1"
	}
	out := &programCapability{info: info, part: capability.Part{Prompt: c.Prompt}}
	for _, t := range c.Tools {
		spec, err := t.spec(c.ID, info.Version)
		if err != nil {
			return nil, err
		}
		out.part.Tools = append(out.part.Tools, capability.Own(t.Name, newProgramTool(*spec, t.Run)))
		out.info.Wants = append(out.info.Wants, "tools "+string(spec.ID))
	}
	if c.Around != nil {
		return hookedCapability{out, c.Around}, nil
	}
	return out, nil
}

// programTools makes the tools of [Options.Tools].
func programTools(list []AgentTool) ([]permit.Tool, error) {
	var out []permit.Tool
	for _, t := range list {
		group, name, ok := strings.Cut(t.Name, ".")
		if !ok || !capability.ValidID(group) {
			return nil, fault.New(fault.CapabilityInvalid, "%q is not a valid name for a program's tool; expected a group and a name, as harbour.berths", t.Name)
		}
		t.Name = name
		spec, err := t.spec(group, "1")
		if err != nil {
			return nil, err
		}
		out = append(out, newProgramTool(*spec, t.Run))
	}
	return out, nil
}

// groupCapabilities give agents the tools of [Options.Tools], by group.
func groupCapabilities(list []AgentTool) []capability.Capability {
	var out []capability.Capability
	groups := map[string]*programCapability{}
	for _, t := range list {
		group, name, _ := strings.Cut(t.Name, ".") // Open checked it
		c := groups[group]
		if c == nil {
			c = &programCapability{info: capability.Info{ID: group, Name: group, Description: "Tools of this program: " + group + ".",
				Status: capability.Available, Icon: "puzzle", Category: "Program", Version: "1"}}
			groups[group], out = c, append(out, c)
		}
		c.part.Tools = append(c.part.Tools, capability.Offer{Name: name, ID: tool.ID(t.Name)})
		c.info.Wants = append(c.info.Wants, "tools "+t.Name)
	}
	return out
}

func (t AgentTool) spec(of, version string) (*tool.Spec, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.CapabilityInvalid, "tool "+of+"."+t.Name+": "+format, args...)
	}
	id, err := tool.ParseID(of + "." + t.Name)
	switch {
	case err != nil || !capability.ValidName(t.Name):
		return nil, fault.New(fault.CapabilityInvalid, "%q is not a valid tool name; expected a letter, then letters, digits, _ and -, at most 64", t.Name)
	case t.Run == nil || t.Description == "":
		return nil, bad("it has no function, or no description")
	case !json.Valid(t.Input):
		return nil, bad("its schema is not valid JSON")
	}
	spec := &tool.Spec{
		ID: id, Title: t.Name, Description: t.Description, Version: version, Source: program, Input: t.Input,
		Output: json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`),
	}
	if t.Effects == nil {
		spec.Effects = tool.EffectSet(tool.SystemExec)
	}
	for _, name := range t.Effects {
		var e tool.Effect
		if err := e.UnmarshalText([]byte(name)); err != nil {
			return nil, bad("%v", err)
		}
		spec.Effects |= tool.EffectSet(e)
	}
	if spec.Effects.Effectful() {
		spec.Risk = tool.High
	}
	if t.Risk != "" {
		var ok bool
		if spec.Risk, ok = tool.ParseRisk(t.Risk); !ok {
			return nil, bad("%q is not a valid risk; expected low, medium, high or critical", t.Risk)
		}
	}
	return spec, nil
}

type programCapability struct {
	info capability.Info
	part capability.Part
}

// hookedCapability is a programCapability that is called around its tools' calls.
type hookedCapability struct {
	*programCapability

	around func(context.Context, HookEvent) (string, error)
}

// Around implements capability.Hooked.
func (c hookedCapability) Around(ctx context.Context, e runner.HookEvent) (string, error) {
	return hookOf(c.around).Handle(ctx, e)
}

func (c *programCapability) Info() capability.Info { return c.info }

func (c *programCapability) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return c.part, nil
}

// newProgramTool makes a tool of a function. It needs no actions: everything that the function
// reaches is the program's own.
func newProgramTool(spec tool.Spec, run func(ctx context.Context, args json.RawMessage) (any, error)) permit.Tool {
	return typed.Func(spec, func(ctx context.Context, _ permit.Permit, args json.RawMessage) (map[string]any, error) {
		out, err := run(ctx, args)
		if err != nil {
			if ctx.Err() != nil {
				return nil, permit.Ended(ctx)
			}
			return nil, failure(err)
		}
		res, err := outputOf(out)
		if err != nil {
			return nil, fault.Wrap(fault.OutputInvalid, err, "%s returned what cannot be written as JSON: %v", spec.ID, err)
		}
		return res, nil
	})
}

// failure is a function's error as the runner takes it.
func failure(err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Code.Error() >= "E2000" && e.Code.Error() < "E3000" {
		return e // it has a code of the tool's own failures
	}
	return fault.Wrap(fault.ToolFailed, err, "%v", err)
}

func outputOf(out any) (map[string]any, error) {
	if out == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	v, err := canon.Decode(b)
	if err != nil {
		return nil, err
	}
	if m, ok := v.(map[string]any); ok {
		return m, nil
	}
	return map[string]any{"result": v}, nil
}

func infoOf(i capability.Info) CapabilityInfo {
	return CapabilityInfo{
		ID: i.ID, Name: i.Name, Description: i.Description, Status: string(i.Status), Category: i.Category, Version: i.Version,
		Requires: i.Requires, Config: i.Config, Wants: i.Wants,
	}
}
