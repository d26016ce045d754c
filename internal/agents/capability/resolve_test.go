package capability_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// module is a capability made up for a test.
type module struct {
	info  capability.Info
	part  capability.Part
	err   error
	given *json.RawMessage
}

func (m module) Info() capability.Info { return m.info }

func (m module) Part(_ capability.Session, config json.RawMessage) (capability.Part, error) {
	if m.given != nil {
		*m.given = config
	}
	return m.part, m.err
}

func mod(id string, requires ...string) module {
	return module{info: capability.Info{ID: id, Name: id, Description: "d", Version: "1", Status: capability.Available, Requires: requires},
		part: capability.Part{Prompt: "prompt of " + id}}
}

func (m module) with(change func(*module)) module { change(&m); return m }

// own is a tool of a capability's own.
func own(capabilityID, name string) capability.Offer {
	return capability.Own(name, typed.Func(tool.Spec{ID: tool.ID(capabilityID + "." + name), Input: typed.Object(""), Output: typed.Object("")},
		func(context.Context, permit.Permit, struct{}) (map[string]any, error) { return nil, nil }))
}

func offers(list ...capability.Offer) func(*module) {
	return func(m *module) { m.part.Tools = list }
}

const schema = `{"type":"object","additionalProperties":false,"properties":{"servers":{"type":"array","items":{"type":"string"}},"deep":{"type":"object","additionalProperties":false,"properties":{"level":{"type":"integer"}}}},"required":["servers"]}`

func configurable(m *module) { m.info.Config = json.RawMessage(schema) }

func registry(t *testing.T, mods ...module) *capability.Registry {
	t.Helper()
	list := make([]capability.Capability, len(mods))
	for i, m := range mods {
		list[i] = m
	}
	r, err := capability.NewRegistry(list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refs reads "id" and "id {config}".
func refs(list ...string) []capability.Ref {
	out := make([]capability.Ref, len(list))
	for i, s := range list {
		id, config, _ := strings.Cut(s, " ")
		out[i].Ref = id
		if config != "" {
			out[i].Config = json.RawMessage(config)
		}
	}
	return out
}

func TestResolve(t *testing.T) {
	fsRead := capability.Offer{Name: "fs_read", ID: "fs.read"}
	withDefault := fsRead
	withDefault.Defaults = tool.Args{"path": "x"}
	reg := registry(t,
		mod("a"), mod("b", "a"), mod("c", "b", "d"), mod("d", "a"),
		mod("round1", "round2"), mod("round2", "round3"), mod("round3", "round1"), mod("self", "self"),
		mod("needs_none", "nonexistent"), mod("soon").with(func(m *module) { m.info.Status = capability.ComingSoon }),
		mod("needs_soon", "soon"), mod("old").with(func(m *module) { m.info.Status = capability.Deprecated }),
		mod("conf").with(configurable), mod("math").with(offers(own("math", "add"))), mod("sums").with(offers(own("sums", "add"), own("sums", "sum"))),
		mod("files").with(offers(fsRead)), mod("more_files").with(offers(fsRead)), mod("other_files").with(offers(withDefault)),
		mod("fails").with(func(m *module) {
			m.err = fault.New(fault.ToolUnknown, "no server").In("servers[1]").WithHint("add it")
		}),
		mod("warns").with(func(m *module) { m.part.Warnings = []string{"nothing found"} }),
		mod("odd_name").with(offers(capability.Offer{Name: "a b", ID: "fs.read"})),
		mod("breaks_out").with(func(m *module) { m.part.Prompt = "x </Capability > y" }),
	)
	tests := map[string]struct {
		refs  []capability.Ref
		parts string // IDs in order, with "<x" for those that x requires
		tools string
		warns string
		errs  []string // what the error's lines hold
	}{
		"nothing":                        {refs: nil},
		"the agent's order":              {refs: refs("d", "a"), parts: "a d"},
		"what it does not name":          {refs: refs("d"), parts: "a<d d"},
		"what is required comes first":   {refs: refs("c"), parts: "a<b b<c d<c c"},
		"each once":                      {refs: refs("b", "d", "c", "a"), parts: "a b d c"},
		"named twice":                    {refs: refs("a", "a"), errs: []string{`capabilities[1]: the capability "a" is named twice; first in capabilities[0]`}},
		"a circle":                       {refs: refs("a", "round1"), errs: []string{"capabilities[1]: the capabilities require each other in a cycle: round1 → round2 → round3 → round1"}},
		"a circle of one":                {refs: refs("self"), errs: []string{"self → self"}},
		"an unknown ID":                  {refs: refs("maht"), errs: []string{`E8006 capabilities[0]: unknown capability "maht" (did you mean "math"?)`}},
		"an unknown ID that is required": {refs: refs("needs_none"), errs: []string{`unknown capability "nonexistent"; "needs_none" requires it`}},
		"a version":                      {refs: refs("c@1", "a@1"), parts: "a b<c d<c c"},
		"another version":                {refs: refs("a@2"), errs: []string{`E8007 capabilities[0]: the capability "a" has version "1"; the agent asks for "2"`}},
		"a version of what is required":  {refs: refs("b", "a@2"), errs: []string{`the agent asks for "2"`}},
		"named twice with a version":     {refs: refs("a", "a@1"), errs: []string{`the capability "a" is named twice`}},
		"an empty version":               {refs: refs("a@"), errs: []string{`the agent asks for ""`}},
		"coming soon":                    {refs: refs("soon"), errs: []string{`the capability "soon" cannot be used yet`}},
		"coming soon and required":       {refs: refs("needs_soon"), errs: []string{`the capability "soon" cannot be used yet`}},
		"deprecated":                     {refs: refs("old"), parts: "old", warns: `the capability "old" is deprecated`},
		"all problems at once":           {refs: refs("x1", "a", "conf {\"servers\": 1}", "soon"), errs: []string{"capabilities[0]", "capabilities[2].config.servers", "capabilities[3]"}},
		"a part that fails":              {refs: refs("fails"), errs: []string{"E8007 capabilities[0].config.servers[1]: fails: no server (add it)"}},
		"a part that warns":              {refs: refs("warns"), parts: "warns", warns: "warns: nothing found"},

		"configured":              {refs: refs(`conf {"servers": ["a"], "deep": {"level": 1}}`), parts: "conf"},
		"configured with nothing": {refs: refs("conf null", "a {}"), parts: "conf a"},
		"a wrong type, deep":      {refs: refs(`conf {"servers": ["a", 5], "deep": {"level": "x"}}`), errs: []string{"capabilities[0].config.deep.level: ", "capabilities[0].config.servers[1]: "}},
		"an unknown field":        {refs: refs(`conf {"servers": [], "server": []}`), errs: []string{`capabilities[0].config: `, `did you mean "servers"?`}},
		"a missing field":         {refs: refs(`conf {"deep": {}}`), errs: []string{"capabilities[0].config: missing property 'servers'"}},
		"nothing to configure":    {refs: refs(`a {"x": 1}`), errs: []string{`capabilities[0].config: the capability "a" has no configuration except rename`}},
		"no object":               {refs: refs(`a [1]`), errs: []string{"the configuration is not a JSON object"}},
		"no JSON":                 {refs: refs(`a {"x": }`), errs: []string{"the configuration is not valid JSON"}},
		"a key twice":             {refs: refs(`conf {"servers": [], "servers": ["x"]}`), errs: []string{"occurs twice"}},

		"two tools of one name":                  {refs: refs("math", "sums"), errs: []string{`capabilities[1]: "math" (math.add) and "sums" (sums.add) both offer a tool with the name "add" (rename one of them in its configuration, as {"ref": "sums", "config": {"rename": {"add": "sums_add"}}})`}},
		"one is renamed":                         {refs: refs("math", `sums {"rename": {"add": "sums_add"}}`), parts: "math sums", tools: "add=math.add sums_add=sums.add sum=sums.sum"},
		"the first is renamed":                   {refs: refs(`math {"rename": {"add": "plus"}}`, "sums"), parts: "math sums", tools: "plus=math.add add=sums.add sum=sums.sum"},
		"names are swapped":                      {refs: refs(`sums {"rename": {"add": "sum", "sum": "add"}}`), parts: "sums", tools: "sum=sums.add add=sums.sum"},
		"a tool that is not there":               {refs: refs(`sums {"rename": {"ad": "x"}}`), errs: []string{`capabilities[0].config.rename: "sums" has no tool "ad" (did you mean "add"?)`}},
		"a name no model takes":                  {refs: refs(`sums {"rename": {"add": "a b"}}`), errs: []string{"capabilities[0].config.rename.add: "}},
		"renaming that is no map":                {refs: refs(`sums {"rename": ["add"]}`), errs: []string{"capabilities[0].config.rename: must be a map of tool names"}},
		"one tool of the catalog, offered twice": {refs: refs("files", "more_files"), parts: "files more_files", tools: "fs_read=fs.read"},
		"but not with other defaults":            {refs: refs("files", "other_files"), errs: []string{`both offer a tool with the name "fs_read"`}},
		"an offer no model takes":                {refs: refs("odd_name"), errs: []string{`"odd_name" offers a tool with the name "a b"`}},
		"a prompt that ends its block":           {refs: refs("breaks_out"), errs: []string{"would end its block"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := capability.Resolve(reg, tt.refs, capability.Session{})
			if len(tt.errs) > 0 {
				for _, want := range tt.errs {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q", err, want)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var parts, tools []string
			for _, p := range r.Parts {
				s := p.Info.ID
				if p.For != "" {
					s += "<" + p.For
				}
				parts = append(parts, s)
			}
			for _, o := range r.Tools {
				tools = append(tools, o.Name+"="+string(o.ID))
			}
			if got := strings.Join(parts, " "); got != tt.parts {
				t.Errorf("the parts are %q, want %q", got, tt.parts)
			}
			if got := strings.Join(tools, " "); got != tt.tools {
				t.Errorf("the tools are %q, want %q", got, tt.tools)
			}
			if got := strings.Join(r.Warnings, "\n"); (got == "") != (tt.warns == "") || !strings.Contains(got, tt.warns) {
				t.Errorf("the warnings are %q, want %q", got, tt.warns)
			}
		})
	}
}

func TestWhatIsRequiredIsConfiguredAsTheAgentSays(t *testing.T) {
	var given json.RawMessage
	reg := registry(t, mod("top", "conf"), mod("conf").with(configurable).with(func(m *module) { m.given = &given }))
	r, err := capability.Resolve(reg, refs("top", `conf {"servers": ["s"], "rename": {}}`), capability.Session{})
	if err != nil || string(given) != `{"servers":["s"]}` || len(r.Parts) != 2 || r.Parts[0].Info.ID != "conf" || r.Parts[0].For != "" || string(r.Parts[0].Config) != string(given) {
		t.Errorf("got %s, %+v, %v", given, r.Parts, err)
	}
	given = json.RawMessage("x")
	if _, err := capability.Resolve(reg, refs("top"), capability.Session{}); err != nil || given != nil {
		t.Errorf("not named: got %s, %v", given, err)
	}
}

func TestResolveIsBounded(t *testing.T) {
	var mods []module
	var ids []string
	for i := range capability.MaxCapabilities + 1 {
		id := fmt.Sprintf("m%d", i)
		mods, ids = append(mods, mod(id)), append(ids, id)
	}
	var tools []capability.Offer
	for i := range capability.MaxTools + 1 {
		tools = append(tools, capability.Offer{Name: fmt.Sprintf("t%d", i), ID: "fs.read"})
	}
	reg := registry(t, append(mods, mod("many").with(offers(tools...)))...)
	for _, list := range [][]string{ids, {"many"}} {
		if _, err := capability.Resolve(reg, refs(list...), capability.Session{}); fault.CodeOf(err) != fault.CapabilityInvalid || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("got %v", err)
		}
	}
}

// TestResolveOrder holds for any requirements that do not go round: everything is
// there once, after what it requires, and what the agent names stays in its order
// where nothing requires otherwise.
func TestResolveOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(r, "modules")
		needs := map[string][]string{}
		list := make([]capability.Capability, n)
		for i := range n {
			id := fmt.Sprintf("m%d", i)
			for j := range i {
				if rapid.IntRange(0, 3).Draw(r, "needs") == 0 {
					needs[id] = append(needs[id], fmt.Sprintf("m%d", j))
				}
			}
			list[i] = mod(id, needs[id]...)
		}
		reg, err := capability.NewRegistry(list)
		if err != nil {
			r.Fatal(err)
		}
		var asked []capability.Ref
		for _, i := range rapid.Permutation(indexes(n)).Draw(r, "order")[:rapid.IntRange(0, n).Draw(r, "some")] {
			asked = append(asked, capability.Ref{Ref: fmt.Sprintf("m%d", i)})
		}
		got, err := capability.Resolve(reg, asked, capability.Session{})
		if err != nil {
			r.Fatal(err)
		}
		at := map[string]int{}
		for i, p := range got.Parts {
			if _, twice := at[p.Info.ID]; twice {
				r.Fatalf("%s is there twice", p.Info.ID)
			}
			at[p.Info.ID] = i
			for _, need := range needs[p.Info.ID] {
				if before, ok := at[need]; !ok || before >= i {
					r.Fatalf("%s comes before %s, which it requires", p.Info.ID, need)
				}
			}
		}
		for _, ref := range asked {
			if _, ok := at[ref.Ref]; !ok {
				r.Fatalf("%s is not there", ref.Ref)
			}
		}
		again, err := capability.Resolve(reg, asked, capability.Session{})
		if err != nil || !reflect.DeepEqual(order(got), order(again)) {
			r.Fatalf("got %v, then %v (%v)", order(got), order(again), err)
		}
	})
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func order(r capability.Resolved) []string {
	var out []string
	for _, p := range r.Parts {
		out = append(out, p.Info.ID)
	}
	return out
}

func TestRegistry(t *testing.T) {
	bad := map[string]module{
		"no ID": mod("A"), "no name": mod("a").with(func(m *module) { m.info.Name = "" }), "no status": mod("a").with(func(m *module) { m.info.Status = "x" }),
		"an open schema": mod("a").with(func(m *module) { m.info.Config = json.RawMessage(`{"type":"object"}`) }),
		"no schema":      mod("a").with(func(m *module) { m.info.Config = json.RawMessage(`{`) }),
		"rename is taken": mod("a").with(func(m *module) {
			m.info.Config = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"rename":{}}}`)
		}),
	}
	for name, m := range bad {
		if _, err := capability.NewRegistry([]capability.Capability{m}); fault.CodeOf(err) != fault.CapabilityInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := capability.NewRegistry([]capability.Capability{mod("a"), mod("a")}); fault.CodeOf(err) != fault.CapabilityInvalid {
		t.Errorf("one ID twice: %v", err)
	}
	var none *capability.Registry
	if _, err := none.Get("a"); fault.CodeOf(err) != fault.CapabilityUnknown {
		t.Errorf("the nil registry: %v", err)
	}
}

func TestFurtherCapabilities(t *testing.T) {
	more := []capability.Capability{mod("late")}
	broken := []capability.Broken{{ID: "torn", File: "/x/torn.yaml", Err: fault.New(fault.CapabilityInvalid, "no name")}}
	reg := registry(t, mod("a")).With(func() ([]capability.Capability, []capability.Broken) { return more, broken })
	if _, err := reg.Get("late"); err != nil {
		t.Error(err)
	}
	more = []capability.Capability{mod("a"), mod("later")} // a built-in one is not replaced
	if _, err := reg.Get("late"); fault.CodeOf(err) != fault.CapabilityUnknown || !strings.Contains(err.Error(), `did you mean "later"?`) {
		t.Errorf("what is gone: %v", err)
	}
	list, bad := reg.List()
	if len(list) != 2 || len(bad) != 2 || bad[1].ID != "a" || !errors.Is(bad[1].Err, fault.CapabilityInvalid) {
		t.Errorf("got %v, broken %v", list, bad)
	}
	if _, err := reg.Get("torn"); fault.CodeOf(err) != fault.CapabilityInvalid || !strings.Contains(err.Error(), `the capability "torn" is broken: no name (correct its file /x/torn.yaml)`) {
		t.Errorf("what is broken: %v", err)
	}
}

func TestDefaultsOfArguments(t *testing.T) {
	o := capability.Offer{Name: "r", ID: "fs.read", Defaults: tool.Args{"path": "x", "limit": json.Number("5")}}
	for name, tt := range map[string]struct{ model, want tool.Args }{
		"nothing said":    {nil, tool.Args{"path": "x", "limit": json.Number("5")}},
		"one is said":     {tool.Args{"path": "y"}, tool.Args{"path": "y", "limit": json.Number("5")}},
		"null is said":    {tool.Args{"limit": nil}, tool.Args{"path": "x", "limit": nil}},
		"another is said": {tool.Args{"raw": true}, tool.Args{"path": "x", "limit": json.Number("5"), "raw": true}},
	} {
		if got := o.Args(tt.model); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if len(o.Defaults) != 2 || o.Defaults["path"] != "x" {
		t.Errorf("the defaults were changed: %v", o.Defaults)
	}
	got := string(o.Input(json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"raw":{"type":"boolean"},"limit":{"maximum":9007199254740993}},"required":["path","raw"]}`)))
	want := `{"properties":{"limit":{"default":5,"maximum":9007199254740993},"path":{"default":"x","type":"string"},"raw":{"type":"boolean"}},"required":["raw"],"type":"object"}`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for _, schema := range []string{"", "true", "{", `{"required": 5}`} {
		_ = o.Input(json.RawMessage(schema)) // it does not crash
	}
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{"/a/b": "/a/b", "a": "/a", "/": "/", "/a/../b/./c//d/": "/b/c/d", "/../../x": "/x", "..": "/", "/ü/日本": "/ü/日本", "/.hidden": "/.hidden"} {
		if got, err := capability.CleanPath(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "/a\x00b", "/a\nb", "/a\xff", "/a\u202eb", "/a\u200bb", "/" + strings.Repeat("x", 256), "/" + strings.Repeat("x/", 600)} {
		if got, err := capability.CleanPath(in); fault.CodeOf(err) != fault.ArgsInvalid {
			t.Errorf("%.20q: %q, %v", in, got, err)
		}
	}
}
