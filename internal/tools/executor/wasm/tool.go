package wasm

import (
	"context"
	"path"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Tool is one function of a module.
type Tool struct {
	m    *Module
	f    Function
	spec tool.Spec

	once   sync.Once
	output *schema.Schema // nil: any object
	broken error          // why output cannot be had
}

// anyObject is the schema of results where a manifest has none.
const anyObject = `{"type":"object"}`

// Tools makes tools of a module's functions. Their IDs are prefix, a colon and the
// function's name; source is what they give as tool.Spec.Source ("wasm",
// "extension"). A manifest need not have been read from a file: limits that it does
// not say are the defaults. Nothing is loaded before a tool is called.
func Tools(prefix, source string, man *Manifest, m *Module) []*Tool {
	out := make([]*Tool, len(man.Functions))
	for i, f := range man.Functions {
		if f.Memory <= 0 {
			f.Memory = DefaultMemory
		}
		if f.Timeout <= 0 {
			f.Timeout = DefaultTimeout
		}
		if f.Title == "" {
			f.Title = f.Name
		}
		t := &Tool{m: m, f: f, spec: tool.Spec{
			ID: tool.ID(prefix + ":" + f.Name), Title: f.Title, Description: f.Description, Version: man.Version(&f, m.digest), Source: source,
			Input: f.Input, Output: f.Output, Risk: f.Risk, Effects: f.Wants.Effects(),
		}}
		if t.spec.Output == nil {
			t.spec.Output = []byte(anyObject)
		}
		out[i] = t
	}
	return out
}

// Spec describes the tool as its manifest does.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Hints says which side effects the tool's confinement makes impossible: all that
// its manifest does not want.
func (t *Tool) Hints() infer.Hints { return infer.Hints{Cannot: ^t.f.Wants.Effects()} }

// Wants is the resources that the tool requests.
func (t *Tool) Wants() Wants { return t.f.Wants }

// Prepare returns the folders that the call mounts, and the files that its arguments
// name. The files in the folders are decided when they are opened.
func (t *Tool) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	places := t.places(env, args)
	actions := places.actions()
	return permit.Prepared{Actions: actions, Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
		return t.run(ctx, p, args, places, actions)
	}}, nil
}

// run has the module carry the call out.
func (t *Tool) run(ctx context.Context, p permit.Permit, args tool.Args, places places, actions []tool.Action) (tool.Result, error) {
	if err := begun(ctx, p); err != nil {
		return tool.Result{}, err
	}
	for _, a := range actions {
		if err := p.Check(a); err != nil {
			return tool.Result{}, err
		}
	}
	out, err := t.m.host.run(ctx, p, t.m, &t.f, places, args)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: out}, t.fitting(out)
}

// fitting checks a result against the schema that callers were told.
func (t *Tool) fitting(out map[string]any) error {
	if t.f.Output == nil {
		return nil
	}
	t.once.Do(func() { t.output, t.broken = schema.Compile(string(t.spec.ID), t.f.Output) })
	if t.broken != nil {
		return fault.Wrap(fault.OutputInvalid, t.broken, "the schema of the result cannot be used")
	}
	if err := t.output.Validate(out); err != nil {
		return fault.Wrap(fault.OutputInvalid, err, "the module's result does not fit the schema that its manifest gives it")
	}
	return nil
}

// where is one place that a call mounts.
type where struct {
	action tool.Action
	path   string // absolute, clean, in the workspace
	folder bool   // the manifest says that it is a folder
}

// places are all that a call mounts.
type places struct {
	workspace string
	list      []where
	refused   []tool.Action // actions in the arguments that no call may do
}

// maxPlaces is the maximum number of paths in the arguments of one call.
const maxPlaces = 1000

func (w places) actions() []tool.Action {
	if len(w.list)+len(w.refused) > maxPlaces {
		return []tool.Action{{Kind: tool.FileWrite, Unknown: "the arguments name more files than a decision can list; split the call"}}
	}
	out := make([]tool.Action, 0, len(w.list)+len(w.refused))
	for _, one := range w.list {
		out = append(out, one.action)
	}
	return append(out, w.refused...)
}

// places returns the folders and files that a call mounts. It is pure.
func (t *Tool) places(env tool.Env, args tool.Args) places {
	w := places{workspace: env.Workspace}
	for _, p := range t.f.Wants.Read {
		w.add(tool.FileRead, p, args)
	}
	for _, p := range t.f.Wants.Write {
		w.add(tool.FileWrite, p, args)
	}
	return w
}

func (w *places) add(kind tool.ActionKind, p Place, args tool.Args) {
	if p.Argument == "" {
		at := path.Join(w.workspace, p.Folder)
		if !path.IsAbs(w.workspace) {
			w.refused = append(w.refused, tool.Action{Kind: kind, Unknown: "there is no workspace"})
			return
		}
		w.list = append(w.list, where{tool.Action{Kind: kind, Path: at}, at, true})
		return
	}
	v, ok := args[p.Argument]
	if !ok {
		return
	}
	values, many := v.([]any)
	if !many {
		values = []any{v}
	}
	for _, one := range values {
		a := policy.PathArgument(kind, w.workspace, one, policy.Env{})
		if a.Unknown == "" && !beneath(w.workspace, a.Path) {
			a.Unknown = "the argument " + quote(p.Argument, 100) + " names a file outside of the workspace, which modules do not see"
		}
		if a.Unknown != "" {
			w.refused = append(w.refused, a)
			continue
		}
		w.list = append(w.list, where{action: a, path: a.Path})
	}
}

// beneath reports whether an absolute clean path is a folder or in it.
func beneath(folder, p string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// Digest is that of the module's bytes.
func (t *Tool) Digest() tool.Digest { return t.m.digest }
