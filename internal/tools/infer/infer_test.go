package infer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

var yes, no = new(true), new(false)

func effects(t *testing.T, names string) tool.Effects {
	t.Helper()
	var set tool.Effects
	for _, name := range strings.Fields(names) {
		var e tool.Effect
		if err := e.UnmarshalText([]byte(name)); err != nil {
			t.Fatal(err)
		}
		set |= tool.EffectSet(e)
	}
	return set
}

func TestInfer(t *testing.T) {
	tests := map[string]struct {
		spec  tool.Spec
		hints infer.Hints
		risk  tool.Risk
		has   string
		not   string
	}{
		"a server's tool that says nothing":  {tool.Spec{ID: "mcp:a:frobnicate", Source: "mcp"}, infer.Hints{}, tool.Medium, "network.http fs.write", "system.exec"},
		"a reading name proves nothing":      {tool.Spec{ID: "mcp:a:get_issue", Source: "mcp"}, infer.Hints{}, tool.Medium, "network.http fs.write", ""},
		"nor does the annotation":            {tool.Spec{ID: "mcp:a:get_issue", Source: "mcp"}, infer.Hints{ReadOnly: yes, OpenWorld: no}, tool.Medium, "network.http fs.write", ""},
		"unless the operator trusts it":      {tool.Spec{ID: "mcp:a:get_issue", Source: "mcp"}, infer.Hints{ReadOnly: yes, OpenWorld: no, Trusted: true}, tool.Low, "", "network.http fs.write"},
		"trusted, but out in the world":      {tool.Spec{ID: "mcp:a:get_issue", Source: "mcp"}, infer.Hints{ReadOnly: yes, Trusted: true}, tool.Medium, "network.http", "fs.write"},
		"trusted against its own name":       {tool.Spec{ID: "mcp:a:delete_issue", Source: "mcp"}, infer.Hints{ReadOnly: yes, OpenWorld: no, Trusted: true}, tool.High, "fs.delete", ""},
		"destructive":                        {tool.Spec{ID: "mcp:a:x", Source: "mcp"}, infer.Hints{Destructive: yes}, tool.High, "", ""},
		"changing, with the default":         {tool.Spec{ID: "mcp:a:x", Source: "mcp"}, infer.Hints{ReadOnly: no}, tool.High, "", ""},
		"changing, harmlessly":               {tool.Spec{ID: "mcp:a:x", Source: "mcp"}, infer.Hints{ReadOnly: no, Destructive: no}, tool.Medium, "", ""},
		"a confined server":                  {tool.Spec{ID: "mcp:a:x", Source: "mcp"}, infer.Hints{Cannot: tool.EffectSet(tool.NetworkHTTP)}, tool.Medium, "fs.write", "network.http"},
		"a server elsewhere":                 {tool.Spec{ID: "mcp:a:x", Source: "mcp-remote"}, infer.Hints{ReadOnly: yes, OpenWorld: no, Trusted: true}, tool.Medium, "network.http", "fs.write"},
		"GET":                                {tool.Spec{ID: "api:a:pets", Source: "api"}, infer.Hints{Method: "GET"}, tool.Medium, "network.http network.dns", "fs.read"},
		"POST":                               {tool.Spec{ID: "api:a:search", Source: "api"}, infer.Hints{Method: "POST"}, tool.High, "network.http", ""},
		"DELETE":                             {tool.Spec{ID: "api:a:deletePet", Source: "api"}, infer.Hints{Method: "DELETE"}, tool.High, "network.http", "fs.delete"},
		"a method that is not known":         {tool.Spec{ID: "api:a:pets", Source: "api"}, infer.Hints{Method: "FROB"}, tool.High, "network.http", ""},
		"money":                              {tool.Spec{ID: "api:a:createRefund", Source: "api"}, infer.Hints{Method: "GET"}, tool.Critical, "payments", ""},
		"sending money":                      {tool.Spec{ID: "mcp:a:send_money", Source: "mcp"}, infer.Hints{}, tool.Critical, "payments", ""},
		"a payment later":                    {tool.Spec{ID: "mcp:a:schedule_transaction", Source: "mcp"}, infer.Hints{}, tool.Critical, "payments", ""},
		"a payment later, changed":           {tool.Spec{ID: "mcp:a:update_scheduled_transaction", Source: "mcp"}, infer.Hints{}, tool.Critical, "payments", ""},
		"payments in the title":              {tool.Spec{ID: "mcp:a:t1", Title: "Issue a refund", Source: "mcp"}, infer.Hints{}, tool.Critical, "payments", ""},
		"reading and paying":                 {tool.Spec{ID: "mcp:a:get_or_create_invoice", Source: "mcp"}, infer.Hints{}, tool.Critical, "payments", ""},
		"a harmless title of a payment":      {tool.Spec{ID: "mcp:a:create_payout", Title: "List", Source: "mcp"}, infer.Hints{}, tool.Critical, "payments", ""},
		"reading of payments":                {tool.Spec{ID: "mcp:a:list_payments", Description: "Lists payments and refunds.", Source: "mcp"}, infer.Hints{}, tool.Medium, "network.http", "payments"},
		"paying by its description":          {tool.Spec{ID: "mcp:a:get_it", Description: "Makes a payment.", Source: "mcp"}, infer.Hints{}, tool.High, "payments", ""},
		"paying by its arguments":            {tool.Spec{ID: "mcp:a:get_it", Source: "mcp", Input: []byte(`{"properties": {"body": {"properties": {"to_address": {}, "amount": {}}}}}`)}, infer.Hints{}, tool.Critical, "payments", ""},
		"an IBAN and an amount":              {tool.Spec{ID: "mcp:a:do", Source: "mcp", Input: []byte(`{"anyOf": [{"properties": {"creditorIban": {}}}, {"properties": {"amountCents": {}}}]}`)}, infer.Hints{}, tool.Critical, "payments", ""},
		"a card":                             {tool.Spec{ID: "mcp:a:do", Source: "mcp", Input: []byte(`{"properties": {"card_number": {}}}`)}, infer.Hints{}, tool.Critical, "payments", ""},
		"a recipient only":                   {tool.Spec{ID: "mcp:a:do", Source: "mcp", Input: []byte(`{"properties": {"recipient": {}, "text": {}}}`)}, infer.Hints{}, tool.Medium, "", "payments"},
		"a schema that is none":              {tool.Spec{ID: "mcp:a:do", Source: "mcp", Input: []byte(`{"properties": [`)}, infer.Hints{}, tool.Medium, "", "payments"},
		"checking out a branch":              {tool.Spec{ID: "mcp:a:git_checkout", Source: "mcp"}, infer.Hints{}, tool.Medium, "", "payments"},
		"a transaction of a database":        {tool.Spec{ID: "mcp:a:begin_transaction", Source: "mcp"}, infer.Hints{}, tool.Medium, "", "payments"},
		"exec":                               {tool.Spec{ID: "ext:a:go", Source: "extension"}, infer.Hints{Permissions: []string{"exec"}}, tool.High, "system.exec", "network.http"},
		"network":                            {tool.Spec{ID: "ext:a:go", Source: "extension"}, infer.Hints{Permissions: []string{"network"}}, tool.High, "network.http", ""},
		"reading files":                      {tool.Spec{ID: "ext:a:go", Source: "extension"}, infer.Hints{Permissions: []string{"filesystem.read"}}, tool.Medium, "fs.read", "fs.write"},
		"database":                           {tool.Spec{ID: "ext:a:go", Source: "extension"}, infer.Hints{Permissions: []string{"database"}}, tool.High, "database.write", ""},
		"a permission that is not known":     {tool.Spec{ID: "ext:a:go", Source: "extension"}, infer.Hints{Permissions: []string{"root"}}, tool.Critical, "system.exec network.http", ""},
		"a module that can do nothing":       {tool.Spec{ID: "wasm:a:calc", Source: "wasm"}, infer.Hints{Cannot: ^tool.Effects(0)}, tool.Low, "", "fs.write"},
		"a module that can write":            {tool.Spec{ID: "wasm:a:calc", Source: "wasm"}, infer.Hints{}, tool.Medium, "fs.write", ""},
		"a source that is not known":         {tool.Spec{ID: "x:a:calc", Source: "x"}, infer.Hints{}, tool.Medium, "fs.write network.http system.exec", ""},
		"write in a name":                    {tool.Spec{ID: "mcp:a:writeFile", Source: "mcp"}, infer.Hints{}, tool.Medium, "fs.write", ""},
		"delete in a name":                   {tool.Spec{ID: "mcp:a:delete-file", Source: "mcp"}, infer.Hints{}, tool.High, "fs.delete", ""},
		"delete rows":                        {tool.Spec{ID: "mcp:a:delete_rows", Source: "mcp"}, infer.Hints{}, tool.High, "database.delete", "fs.delete"},
		"delete buckets":                     {tool.Spec{ID: "mcp:a:deleteBucket", Source: "mcp"}, infer.Hints{}, tool.Critical, "cloud.resource_delete", ""},
		"make instances":                     {tool.Spec{ID: "mcp:a:create_instance", Source: "mcp"}, infer.Hints{}, tool.Critical, "cloud.resource_create", ""},
		"commands":                           {tool.Spec{ID: "mcp:a:execute_command", Source: "mcp"}, infer.Hints{}, tool.High, "system.exec", ""},
		"secrets":                            {tool.Spec{ID: "mcp:a:getSecret", Source: "mcp"}, infer.Hints{}, tool.High, "cloud.key_read", ""},
		"new secrets":                        {tool.Spec{ID: "mcp:a:rotate_api_key", Source: "mcp"}, infer.Hints{}, tool.Critical, "cloud.key_write", ""},
		"the title counts":                   {tool.Spec{ID: "mcp:a:t1", Title: "Run shell command", Source: "mcp"}, infer.Hints{}, tool.High, "system.exec", ""},
		"so does what is strongly described": {tool.Spec{ID: "mcp:a:t1", Description: "Permanently removes the file.", Source: "mcp"}, infer.Hints{}, tool.High, "fs.delete", ""},
		"a mail":                             {tool.Spec{ID: "mcp:a:send_email", Source: "mcp"}, infer.Hints{}, tool.High, "network.http", ""},
		"the source's own risk":              {tool.Spec{ID: "mcp:a:x", Source: "mcp", Risk: tool.Critical, Effects: tool.EffectSet(tool.SystemEnv)}, infer.Hints{Cannot: tool.EffectSet(tool.SystemEnv)}, tool.Critical, "system.env", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := infer.Infer(&tt.spec, tt.hints)
			has, not := effects(t, tt.has), effects(t, tt.not)
			if v.Risk != tt.risk || v.Effects&has != has || v.Effects&not != 0 {
				t.Fatalf("%s, %s; want %s with %q and without %q, because\n%s", v.Risk, v.Effects, tt.risk, tt.has, tt.not, v)
			}
		})
	}
}

var (
	vocabulary  = []string{"get", "read", "list", "delete", "file", "table", "bucket", "secret", "pay", "run", "command", "send", "x", "url", "create"}
	permissions = []string{"exec", "network", "filesystem.read", "filesystem.write", "browser", "llm", "database", "other"}
	sources     = []string{"mcp", "mcp-remote", "api", "extension", "wasm", "x"}
)

func drawSpec(t *rapid.T) tool.Spec {
	words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 4)
	return tool.Spec{
		ID: tool.ID("k:s:" + strings.Join(words.Draw(t, "name"), "_")), Title: strings.Join(words.Draw(t, "title"), " "), Description: strings.Join(words.Draw(t, "description"), " "),
		Source: rapid.SampledFrom(sources).Draw(t, "source"), Risk: tool.Risk(rapid.IntRange(0, 3).Draw(t, "risk")),
		Effects: tool.Effects(rapid.Uint32Range(0, 1<<17-1).Draw(t, "effects")),
	}
}

func drawHints(t *rapid.T) infer.Hints {
	b := rapid.SampledFrom([]*bool{nil, yes, no})
	return infer.Hints{
		Permissions: rapid.SliceOfNDistinct(rapid.SampledFrom(permissions), 0, 3, rapid.ID[string]).Draw(t, "permissions"),
		ReadOnly:    b.Draw(t, "readOnly"), Destructive: b.Draw(t, "destructive"), Idempotent: b.Draw(t, "idempotent"), OpenWorld: b.Draw(t, "openWorld"),
		Method: rapid.SampledFrom([]string{"", "GET", "POST", "DELETE"}).Draw(t, "method"), Trusted: rapid.Bool().Draw(t, "trusted"),
		Cannot: tool.Effects(rapid.Uint32Range(0, 1<<17-1).Draw(t, "cannot")),
	}
}

func atLeast(t *rapid.T, what string, more, less infer.Verdict) {
	if more.Risk < less.Risk || less.Effects&^more.Effects != 0 {
		t.Fatalf("%s: %s (%s) is less than %s (%s)\n%s---\n%s", what, more.Risk, more.Effects, less.Risk, less.Effects, more, less)
	}
}

func TestEvidenceOnlyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, h := drawSpec(t), drawHints(t)
		v := infer.Infer(&spec, h)
		atLeast(t, "what the source says itself", v, infer.Verdict{Risk: spec.Risk, Effects: spec.Effects})

		quiet := spec
		quiet.Risk, quiet.Effects = tool.Low, 0
		atLeast(t, "a source that raises its own", v, infer.Infer(&quiet, h))

		more := h
		more.Permissions = append(slices.Clone(h.Permissions), rapid.SampledFrom(permissions).Draw(t, "one more"))
		atLeast(t, "one more permission", infer.Infer(&spec, more), v)

		if !h.Trusted {
			claims := h
			claims.ReadOnly, claims.Idempotent, claims.OpenWorld = yes, yes, no
			silent := h
			silent.ReadOnly, silent.Destructive, silent.Idempotent, silent.OpenWorld = nil, nil, nil, nil
			atLeast(t, "harmless by its own untrusted word", infer.Infer(&spec, claims), infer.Infer(&spec, silent))
		}
		named := spec
		named.ID += tool.ID("_" + rapid.SampledFrom(vocabulary).Draw(t, "one more word"))
		if nv := infer.Infer(&named, h); nv.Risk < v.Risk {
			t.Fatalf("one more word in its name makes %s of %s", nv.Risk, v.Risk)
		}
		if len(v.Reasons) == 0 || v.Reasons[0].Why == "" {
			t.Fatal("no reason is given")
		}
	})
}

func TestTheOperatorOverrules(t *testing.T) {
	low, none := tool.Low, tool.Effects(0)
	v := infer.Infer(&tool.Spec{ID: "mcp:a:delete_all", Source: "mcp"}, infer.Hints{})
	got := v.Overrule(infer.Said{Risk: &low, Effects: &none})
	if got.Risk != tool.Low || got.Effects != 0 || len(got.Reasons) != len(v.Reasons)+2 {
		t.Fatalf("%+v", got)
	}
	if got := v.Overrule(infer.Said{}); got.Risk != v.Risk || got.Effects != v.Effects {
		t.Fatalf("%+v", got)
	}
}

func TestSplit(t *testing.T) {
	for in, want := range map[string]string{
		"getIssueByID": "get issue by id", "get_issue-2.x": "get issue 2 x", "HTTPRequest": "http request", "v2Pets": "v2 pets", "": "", "ÄpfelÖl": "äpfel öl",
	} {
		if got := strings.Join(tool.Words(in), " "); got != want {
			t.Errorf("%q has the words %q, want %q", in, got, want)
		}
	}
}

func ExampleInfer() {
	v := infer.Infer(&tool.Spec{ID: "mcp:files:delete_file", Source: "mcp"}, infer.Hints{})
	fmt.Print(v.Risk, "\n", v)
	// Output:
	// high
	// high: its name says "delete" (fs.delete)
	// medium: an MCP server may do more than it says (fs.write network.http)
}
