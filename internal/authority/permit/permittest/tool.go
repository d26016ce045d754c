// Package permittest is the contract of tools: every built-in tool passes [Tool]. It also
// makes permits for tests.
package permittest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
)

// World is the environment in which a built-in tool's contract is tested.
type World struct {
	Policy string            // a policy document that allows the valid calls
	Files  map[string]string // in the workspace; a name that ends in "/" is a folder
}

// Permit makes a fresh workspace and a permit for it.
func (w World) Permit(t *testing.T) permit.Permit {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range w.Files {
		p := filepath.Join(dir, name)
		parent := filepath.Dir(p)
		if name[len(name)-1] == '/' {
			parent = p
		}
		if err := os.MkdirAll(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		if parent == p {
			continue
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return PermitFor(t, dir, w.Policy)
}

// PermitFor makes a permit for a workspace under a policy document.
func PermitFor(t testing.TB, workspace, document string) permit.Permit {
	t.Helper()
	return PermitWith(t, workspace, document, nil, nil)
}

// PermitWith makes a permit for a run whose writes are held, or kept for an undo.
func PermitWith(t testing.TB, workspace, document string, held permit.Held, keep permit.Keeper) permit.Permit {
	t.Helper()
	pol, err := policy.Parse("policy.yaml", []byte(document))
	if err != nil {
		t.Fatalf("the test's policy: %v", err)
	}
	rules, err := pol.Bind(policy.Env{Workspace: workspace, Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}})
	if err != nil {
		t.Fatalf("the test's policy: %v", err)
	}
	chain := policy.Chain{rules}
	return permit.Mint(permit.Terms{Chain: chain, Env: tool.Env{Workspace: workspace}, Limits: chain.Limits(), Held: held, Keep: keep})
}

// Run prepares a call in the permit's own environment and runs it under the
// permit.
func Run(ctx context.Context, tl permit.Tool, p permit.Permit, args tool.Args) (tool.Result, error) {
	call, err := tl.Prepare(p.Env(), args)
	if err != nil {
		return tool.Result{}, err
	}
	return call.Run(ctx, p)
}

// Actions returns the actions of a call.
func Actions(tl permit.Tool, env tool.Env, args tool.Args) ([]tool.Action, error) {
	call, err := tl.Prepare(env, args)
	return call.Actions, err
}

// Tool is the contract of every built-in tool. valid are arguments that work,
// each in a fresh world, numbers as [json.Number].
func Tool(t *testing.T, tl permit.Tool, w World, valid ...tool.Args) {
	t.Helper()
	if len(valid) == 0 {
		t.Fatal("no valid arguments: the contract would not be tested")
	}
	spec := tl.Spec()
	t.Run("the description is complete", func(t *testing.T) { CheckSpec(t, spec) })
	in, out := CompileSchema(t, spec.Input), CompileSchema(t, spec.Output)
	t.Run("unknown arguments are refused", func(t *testing.T) {
		odd := with(valid[0], "not_an_argument", true)
		if in.Validate(map[string]any(odd)) == nil {
			t.Errorf("%v was admitted", odd)
		}
	})
	for _, args := range valid {
		if err := in.Validate(map[string]any(args)); err != nil {
			t.Fatalf("%v is to be valid: %v", args, err)
		}
	}
	t.Run("actions are pure", func(t *testing.T) { checkPrepare(t, tl, valid) })
	t.Run("odd arguments do not crash Prepare", func(t *testing.T) { checkOddArgs(t, tl, spec) })
	t.Run("output fits its schema", func(t *testing.T) { checkOutput(t, tl, w, out, valid) })
	t.Run("a cancelled context ends the call", func(t *testing.T) { checkCancelled(t, tl, w, valid[0]) })
	t.Run("an ended permit refuses", func(t *testing.T) { checkEnded(t, tl, w, valid[0]) })
	t.Run("no policy refuses what needs the world", func(t *testing.T) { checkNoPolicy(t, tl, w, valid[0]) })
}

// CheckSpec checks that a tool's description is complete and its schemas are closed.
func CheckSpec(t *testing.T, s *tool.Spec) {
	if _, err := tool.ParseID(string(s.ID)); err != nil {
		t.Error(err)
	}
	if s.Title == "" || len(s.Description) < 20 || s.Version == "" || s.Source != "builtin" {
		t.Errorf("title, description, version or source is missing: %+v", s)
	}
	for name, raw := range map[string]json.RawMessage{"input": s.Input, "output": s.Output} {
		doc, err := schema.Decode(raw)
		if err != nil {
			t.Fatalf("%s schema: %v", name, err)
		}
		m, ok := doc.(map[string]any)
		if !ok || m["type"] != "object" || m["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s schema is not a 2020-12 object schema", name)
		}
		CheckClosed(t, name, doc, false)
	}
}

// CheckClosed finds objects that admit unknown members and, if described, members without
// a description.
func CheckClosed(t *testing.T, at string, node any, described bool) {
	switch n := node.(type) {
	case map[string]any:
		props, isObject := n["properties"].(map[string]any)
		if isObject {
			if extra, ok := n["additionalProperties"]; !ok || extra == true {
				t.Errorf("%s is not closed", at)
			}
			for name, p := range props {
				m, ok := p.(map[string]any)
				if described && (!ok || m["description"] == nil) {
					t.Errorf("%s.%s has no description", at, name)
				}
				CheckClosed(t, at+"."+name, p, described)
			}
		}
		if items, ok := n["items"]; ok {
			CheckClosed(t, at+"[]", items, described)
		}
	case bool:
	default:
		t.Errorf("%s: %T is not a schema", at, node)
	}
}

// CompileSchema compiles a JSON Schema.
func CompileSchema(t *testing.T, raw json.RawMessage) *schema.Schema {
	t.Helper()
	s, err := schema.Compile("the tool", raw)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkPrepare(t *testing.T, tl permit.Tool, valid []tool.Args) {
	env := tool.Env{Workspace: "/no/such/workspace", Home: "/no/such/home", Path: []string{"/usr/bin", "/bin"}}
	for _, args := range valid {
		before := Encode(t, args)
		first, err := tl.Prepare(env, args)
		if err != nil {
			t.Fatalf("Prepare(%v): %v", args, err)
		}
		if first.Run == nil {
			t.Fatalf("Prepare(%v) returned no Run", args)
		}
		for range 3 {
			again, err := tl.Prepare(env, args)
			if err != nil || !reflect.DeepEqual(first.Actions, again.Actions) {
				t.Errorf("Prepare(%v) returned the actions %v, then %v (%v)", args, first.Actions, again.Actions, err)
			}
		}
		if after := Encode(t, args); after != before {
			t.Errorf("Prepare changed its arguments from %s to %s", before, after)
		}
		for _, a := range first.Actions {
			checkAction(t, tl.Spec(), a)
		}
	}
}

// Encode returns a value as JSON.
func Encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkAction compares an action with the effects that the tool declares.
func checkAction(t *testing.T, s *tool.Spec, a tool.Action) {
	if a.Real != "" || a.Addrs != nil || a.Exe != "" {
		t.Errorf("%v holds facts: Prepare looked at the world", a)
	}
	if a.Unknown != "" {
		t.Errorf("%v of valid arguments", a)
	}
	fitting := map[tool.ActionKind]tool.Effects{
		tool.FileRead:  tool.EffectSet(tool.FSRead, tool.FSWrite, tool.SystemExec),
		tool.FileWrite: tool.EffectSet(tool.FSWrite, tool.SystemExec), tool.FileDelete: tool.EffectSet(tool.FSDelete, tool.SystemExec),
		tool.Network:   tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket),
		tool.Command:   tool.EffectSet(tool.SystemExec),
		tool.Model:     tool.EffectSet(tool.NetworkHTTP),
		tool.TableRead: tool.EffectSet(tool.DatabaseRead), tool.TableWrite: tool.EffectSet(tool.DatabaseWrite),
	}[a.Kind]
	if s.Effects&fitting == 0 {
		t.Errorf("the action %v does not belong to the effects %q", a, s.Effects)
	}
}

// checkOddArgs gives every argument every JSON type. Prepare may refuse, or return an
// unknown action; it must not crash.
func checkOddArgs(t *testing.T, tl permit.Tool, s *tool.Spec) {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(s.Input, &schema); err != nil {
		t.Fatal(err)
	}
	odd := []any{nil, true, json.Number("1e999"), json.Number("-1"), "", "\x00", "\xff", "../..", []any{}, []any{nil}, map[string]any{}, map[string]any{"x": nil}}
	for _, v := range odd {
		args := tool.Args{}
		for name := range schema.Properties {
			args[name] = v
		}
		_, _ = tl.Prepare(tool.Env{Workspace: "/w"}, args)
		_, _ = tl.Prepare(tool.Env{}, args)
	}
}

func checkOutput(t *testing.T, tl permit.Tool, w World, out *schema.Schema, valid []tool.Args) {
	for _, args := range valid {
		p := w.Permit(t)
		res, err := Run(t.Context(), tl, p, args)
		if err != nil {
			t.Errorf("Run(%v): %v", args, err)
			continue
		}
		doc, err := schema.Decode([]byte(Encode(t, res.Output)))
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Validate(doc); err != nil {
			t.Errorf("the output of %v does not fit: %v", args, err)
		}
		notes, _ := p.Happened()
		for _, h := range notes {
			if !tl.Spec().Effects.Has(h.Effect) {
				t.Errorf("%v happened, which the tool does not declare", h)
			}
		}
	}
}

// soon bounds how long a call may go on after its context ended.
const soon = 20 * time.Second

func checkCancelled(t *testing.T, tl permit.Tool, w World, args tool.Args) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := w.Permit(t)
	begin := time.Now()
	_, err := Run(ctx, tl, p, args)
	if code := fault.CodeOf(err); err == nil || code != fault.ToolCancelled && code != fault.ToolTimeout {
		t.Errorf("got %v, want a fault.ToolCancelled error", err)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("it took %v", took)
	}
	untouched(t, p)
}

func checkEnded(t *testing.T, tl permit.Tool, w World, args tool.Args) {
	p := w.Permit(t)
	p.End()
	for _, p := range []permit.Permit{p, {}} {
		if _, err := Run(t.Context(), tl, p, args); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("got %v, want a fault.HandleRefused error", err)
		}
		untouched(t, p)
	}
}

func checkNoPolicy(t *testing.T, tl permit.Tool, w World, args tool.Args) {
	env := w.Permit(t).Env()
	call, err := tl.Prepare(env, args)
	if err != nil {
		t.Fatal(err)
	}
	if len(call.Actions) == 0 {
		return
	}
	p := permit.Mint(permit.Terms{Env: env})
	if _, err := call.Run(t.Context(), p); err == nil {
		t.Error("it ran")
	}
	untouched(t, p)
}

func untouched(t *testing.T, p permit.Permit) {
	t.Helper()
	if notes, more := p.Happened(); len(notes)+more > 0 {
		t.Errorf("%v happened all the same", notes)
	}
}

func with(args tool.Args, name string, v any) tool.Args {
	out := tool.Args{name: v}
	for k, v := range args {
		out[k] = v
	}
	return out
}
