// Package decide asks Remit, cedar-go and OPA the same questions under the
// same policy. The policy is written in each language as its users would write
// it; all that can be done beforehand is done beforehand, also the conversion
// of the questions. Start at [Engines].
package decide

import (
	"context"
	_ "embed" // the policies
	"encoding/json"
	"fmt"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// The policies. Remit's two entries that allow whole families of built-in tools have no
// counterpart: there, the kind of an action is its group.
var (
	//go:embed policy.yaml
	remitPolicy []byte
	//go:embed policy.cedar
	cedarPolicy []byte
	//go:embed policy.rego
	regoPolicy string
)

// Question is one call to decide.
type Question struct {
	Tool  string
	Kind  tool.ActionKind // NoAction for calls that need nothing but the tool
	Path  string
	To    tool.Target
	Args  map[string]any
	Allow bool // the right answer
}

// Questions are asked of every engine: ten that are allowed, five that are not.
var Questions = []Question{
	{Tool: "fs.read", Kind: tool.FileRead, Path: "/w/src/app/main.go", Allow: true},
	{Tool: "fs.read", Kind: tool.FileRead, Path: "/w/docs/guide/install.md", Allow: true},
	{Tool: "fs.write", Kind: tool.FileWrite, Path: "/w/out/report.json", Allow: true},
	{Tool: "http.get", Kind: tool.Network, To: get("api.github.com", "/repos/remitrun/remit"), Allow: true},
	{Tool: "http.get", Kind: tool.Network, To: get("eu.example.com", "/v1/items/17"), Allow: true},
	{Tool: "mcp:github:get_issue", Args: args("repo", "remit-docs", "number", 17), Allow: true},
	{Tool: "mcp:mail:send_email", Args: args("recipients", []any{"ann@example.com", "bob@example.com"},
		"subject", "Figures of the week", "body", "See the attached page."), Allow: true},
	{Tool: "mcp:calendar:create_event", Args: args("calendar", "work", "title", "Review", "minutes", 45), Allow: true},
	{Tool: "mcp:bank:transfer", Args: args("to", "rent", "amount", 850, "currency", "EUR"), Allow: true},
	{Tool: "mcp:db:query", Args: args("table", "orders", "limit", 50), Allow: true},
	{Tool: "fs.read", Kind: tool.FileRead, Path: "/w/src/app/secrets/token.txt"},
	{Tool: "fs.write", Kind: tool.FileWrite, Path: "/w/src/app/main.go"},
	{Tool: "http.get", Kind: tool.Network, To: get("db.internal.example.com", "/v1/dump")},
	{Tool: "mcp:bank:transfer", Args: args("to", "rent", "amount", 25000, "currency", "EUR")},
	{Tool: "mcp:github:delete_repo", Args: args("repo", "remit-docs")},
}

func get(host, path string) tool.Target {
	return tool.Target{Method: "GET", Scheme: "https", Host: host, Port: 443, Path: path}
}

func args(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		if n, ok := v.(int); ok {
			v = json.Number(fmt.Sprint(n))
		}
		m[pairs[i].(string)] = v
	}
	return m
}

// Engine answers questions by their index.
type Engine struct {
	Name  string
	Allow func(i int) bool
}

// Engines prepares Remit, cedar-go and OPA, in this order.
func Engines() ([]Engine, error) {
	chain, err := Chain()
	if err != nil {
		return nil, err
	}
	ours := calls()
	engines := []Engine{{"Remit", func(i int) bool { return chain.Decide(ours[i]).Effect == policy.Allow }}}
	for _, prepare := range []func() (Engine, error){prepareCedar, prepareOPA} {
		e, err := prepare()
		if err != nil {
			return nil, err
		}
		engines = append(engines, e)
	}
	for _, e := range engines {
		for i, q := range Questions {
			if got := e.Allow(i); got != q.Allow {
				return nil, fmt.Errorf("%s decides question %d (%s %s) as %v, not %v", e.Name, i, q.Tool, q.Path, got, q.Allow)
			}
		}
	}
	return engines, nil
}

// Chain is Remit's policy, bound to the workspace /w.
func Chain() (policy.Chain, error) {
	p, err := policy.Parse("policy.yaml", remitPolicy)
	if err != nil {
		return nil, err
	}
	r, err := p.Bind(policy.Env{Workspace: "/w", Home: "/home/ann", State: "/home/ann/.local/share/remit"})
	return policy.Chain{r}, err
}

func calls() []policy.Call {
	out := make([]policy.Call, len(Questions))
	for i, q := range Questions {
		out[i] = policy.Call{Tool: &tool.Spec{ID: tool.ID(q.Tool), Source: "builtin"}, Args: q.Args}
		if q.Kind != tool.NoAction {
			out[i].Actions = []tool.Action{{Kind: q.Kind, Path: q.Path, Target: q.To}}
		}
	}
	return out
}

func prepareCedar() (Engine, error) {
	set, err := cedar.NewPolicySetFromBytes("policy.cedar", cedarPolicy)
	if err != nil {
		return Engine{}, err
	}
	entities := cedar.EntityMap{}
	for name, group := range map[string]string{"fs.read": "files.read", "fs.write": "files.write", "http.get": "network"} {
		uid := cedar.NewEntityUID("Action", cedar.String(name))
		entities[uid] = cedar.Entity{UID: uid, Parents: cedar.NewEntityUIDSet(cedar.NewEntityUID("Action", cedar.String(group)))}
	}
	reqs := make([]cedar.Request, len(Questions))
	for i, q := range Questions {
		action := q.Tool
		if q.Kind == tool.NoAction && q.Tool != "time.now" {
			action = "mcp"
		}
		ctx := cedar.RecordMap{"tool": cedar.String(q.Tool), "path": cedar.String(q.Path + q.To.Path)}
		if q.Kind == tool.Network {
			ctx["method"], ctx["scheme"] = cedar.String(q.To.Method), cedar.String(q.To.Scheme)
			ctx["host"], ctx["port"] = cedar.String(q.To.Host), cedar.Long(q.To.Port)
		}
		ctx["args"] = cedarValue(q.Args)
		reqs[i] = cedar.Request{
			Principal: cedar.NewEntityUID("User", "ann"), Action: cedar.NewEntityUID("Action", cedar.String(action)),
			Resource: cedar.NewEntityUID("Workspace", "w"), Context: cedar.NewRecord(ctx),
		}
	}
	return Engine{"cedar-go v1.9.0", func(i int) bool {
		d, _ := cedar.Authorize(set, entities, reqs[i])
		return d == cedar.Allow
	}}, nil
}

func cedarValue(v any) cedar.Value {
	switch v := v.(type) {
	case json.Number:
		n, _ := v.Int64() // the questions hold small integers
		return cedar.Long(n)
	case []any:
		var list []cedar.Value
		for _, e := range v {
			list = append(list, cedarValue(e))
		}
		return cedar.NewSet(list...)
	case map[string]any:
		m := cedar.RecordMap{}
		for k, e := range v {
			m[cedar.String(k)] = cedarValue(e)
		}
		return cedar.NewRecord(m)
	case string:
		return cedar.String(v)
	}
	return cedar.NewRecord(nil)
}

func prepareOPA() (Engine, error) {
	ctx := context.Background()
	query, err := rego.New(rego.Query("data.bench.allow"), rego.Module("policy.rego", regoPolicy)).PrepareForEval(ctx)
	if err != nil {
		return Engine{}, err
	}
	inputs := make([]ast.Value, len(Questions))
	for i, q := range Questions {
		in := map[string]any{"tool": q.Tool, "kind": q.Kind.String(), "path": q.Path + q.To.Path, "args": q.Args,
			"method": q.To.Method, "scheme": q.To.Scheme, "host": q.To.Host, "port": q.To.Port}
		if inputs[i], err = ast.InterfaceToValue(in); err != nil {
			return Engine{}, err
		}
	}
	return Engine{"OPA v1.22.2", func(i int) bool {
		rs, err := query.Eval(ctx, rego.EvalParsedInput(inputs[i]))
		return err == nil && rs.Allowed()
	}}, nil
}
