// Package extsource makes tools of an installed extension's slash commands: one for each
// action that runs a program or a module. Actions that call another tool do not become
// tools. Start at [New].
package extsource

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/extension"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Kind is the source in the specifications of the tools.
const Kind = "extension"

// Box runs commands confined: linux.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
}

// Config has the settings of a source.
type Config struct {
	ID   string                                     // of the extension
	Root string                                     // the folder that it is installed in: absolute, without links
	Load func() (*extension.Package, error)         // reads it, when it is first needed
	Box  Box                                        // runs its programs; nil: none is run
	WASM func(tool.Spec, Call) (permit.Tool, error) // makes the tools of its modules; nil: none is run
}

// Call names the program or module of an extension that a tool runs.
type Call struct {
	Package *extension.Package
	Command *extension.Command
	Action  *extension.Action
}

// Source is the tools of one extension. It is safe for concurrent use.
type Source struct {
	conf Config

	mu    sync.Mutex
	tools []*Tool
}

// New makes a source. Nothing is read before Discover.
func New(c Config) *Source { return &Source{conf: c} }

// Name is the prefix of the IDs of the source's tools, without the last colon.
func (s *Source) Name() string { return "ext:" + s.conf.ID }

// Discover returns the tools.
func (s *Source) Discover(context.Context) ([]*Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools != nil {
		return s.tools, nil
	}
	p, err := s.conf.Load()
	if err != nil {
		return nil, err
	}
	if p.Manifest.ID != s.conf.ID {
		return nil, fault.New(fault.ExtensionInvalid, "the extension %q calls itself %q", s.conf.ID, p.Manifest.ID)
	}
	bounds, err := p.Bounds(s.conf.Root)
	if err != nil {
		return nil, err
	}
	tools := []*Tool{}
	for i := range p.Commands {
		c := &p.Commands[i]
		for k := range c.Actions {
			if !c.Actions[k].Runner.Own() {
				continue
			}
			t, err := s.tool(Call{p, c, &c.Actions[k]}, bounds)
			if err != nil {
				return nil, err
			}
			tools = append(tools, t)
		}
	}
	s.tools = tools
	return tools, nil
}

// Changed returns nil: an extension changes only when it is installed anew, which
// makes a new source.
func (s *Source) Changed() <-chan struct{} { return nil }

// Close ends nothing, since nothing is started.
func (s *Source) Close() error { return nil }

// Tool is one action of an extension's command.
type Tool struct {
	Call

	box     Box
	module  permit.Tool // nil: a program runs it
	program string
	bin     string // of the extension's own programs
	work    string
	spec    tool.Spec
	bounds  *policy.Policy
}

func (s *Source) tool(call Call, bounds *policy.Policy) (*Tool, error) {
	p, c, a := call.Package, call.Command, call.Action
	t := &Tool{Call: call, box: s.conf.Box, work: extension.Work(s.conf.Root), bounds: bounds, spec: tool.Spec{
		ID: extension.ToolID(p.Manifest.ID, c.Name, a.ID), Title: "/" + c.Name + " " + a.ID, Description: describe(c, a),
		Version: p.Version(c, a), Source: Kind, Input: a.Schema(), Output: []byte(`{"type":"object"}`), Risk: a.Risk,
	}}
	if a.Runner.Kind == extension.RunExec {
		t.program, t.bin, t.spec.Output = p.Program(a, s.conf.Root), p.Programs(a, s.conf.Root), outputSchema
		return t, nil
	}
	if s.conf.WASM == nil {
		return nil, fault.New(fault.ToolFailed, "modules cannot run here")
	}
	var err error
	if t.module, err = s.conf.WASM(t.spec, call); err != nil {
		return nil, err
	}
	t.spec.Effects = t.module.Spec().Effects
	return t, nil
}

func describe(c *extension.Command, a *extension.Action) string {
	out := a.Description
	if c.Description != "" {
		out += "\n\n" + c.Description
	}
	return out
}

// Spec describes the tool.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Hints returns the known facts about the tool besides its specification: the permissions that its
// extension requires, and the effects that its bounds make impossible.
func (t *Tool) Hints() infer.Hints {
	h := infer.Hints{}
	m := &t.Package.Manifest
	for _, p := range m.Permissions {
		h.Permissions = append(h.Permissions, string(p))
	}
	if !m.Has(extension.Network) && !m.Has(extension.Browser) {
		h.Cannot = tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket, tool.NetworkDNS)
	}
	if t.module != nil {
		h.Permissions = nil // a module reaches only its own files, not those of the extension's other actions
		h.Cannot = ^t.spec.Effects
	}
	return h
}

// Bounds is the policy that the extension's permissions come to.
func (t *Tool) Bounds() []*policy.Policy { return []*policy.Policy{t.bounds} }

// Executor names what executes the tool, as the extension's commands do: "/postman",
// "get", "exec.postman_cli", and the program without its ending.
func (t *Tool) Executor() (command, action, runner, program string) {
	name := path.Base(filepath.ToSlash(t.Action.Runner.Name))
	return "/" + t.Command.Name, t.Action.ID, t.Action.Runner.Text, strings.TrimSuffix(name, path.Ext(name))
}

// Own is the extension's work folder.
func (t *Tool) Own() string { return t.work }

// Programs is the folder of the extension's own programs; "": it has none.
func (t *Tool) Programs() string { return t.bin }

// Prepare returns the program that the call starts, and what its arguments name.
func (t *Tool) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	if t.module != nil {
		return t.module.Prepare(env, args)
	}
	r, err := t.read(env, args)
	if err != nil {
		return permit.Prepared{}, err
	}
	return permit.Prepared{Actions: slices.Concat(r.starts, r.named), Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
		return t.exec(ctx, p, r)
	}}, nil
}
