package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

// sample makes a value that fits a schema, as far as that is simple: what is
// required and nothing else.
func sample(schema any, defs map[string]any, depth int) any {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok && depth < 12 {
		return sample(defs[strings.TrimPrefix(ref, "#/$defs/")], defs, depth+1)
	}
	for _, k := range []string{"const", "default"} {
		if v, ok := s[k]; ok {
			return v
		}
	}
	if list, ok := s["enum"].([]any); ok {
		return list[0]
	}
	out := map[string]any{}
	if all, ok := s["allOf"].([]any); ok {
		for _, part := range all {
			m, ok := sample(part, defs, depth+1).(map[string]any)
			if !ok {
				return sample(part, defs, depth+1)
			}
			for k, v := range m {
				out[k] = v
			}
		}
	}
	if anyOf, ok := s["anyOf"].([]any); ok && s["properties"] == nil {
		return sample(anyOf[0], defs, depth+1)
	}
	return sampleOf(s, out, defs, depth)
}

func sampleOf(s, out, defs map[string]any, depth int) any {
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok {
		kind, _ = list[0].(string)
	}
	switch {
	case kind == "object" || s["properties"] != nil || len(out) > 0:
		required, _ := s["required"].([]any)
		props, _ := s["properties"].(map[string]any)
		for _, name := range required {
			n, _ := name.(string)
			out[n] = sample(props[n], defs, depth+1)
		}
		if len(out) == 0 && s["additionalProperties"] != false {
			out["k"] = "v"
		}
		return out
	case kind == "array":
		return []any{sample(s["items"], defs, depth+1)}
	case kind == "integer" || kind == "number":
		if n, ok := s["minimum"].(float64); ok {
			b, _ := json.Marshal(n)
			return json.Number(b)
		}
		return json.Number("1")
	case kind == "boolean":
		return true
	case kind == "null":
		return nil
	}
	return map[string]string{"date": "2026-01-31", "date-time": "2026-01-31T09:00:00Z", "uuid": "00000000-0000-4000-8000-000000000001",
		"uri": "https://a.example", "email": "a@b.example"}[text(s["format"])] + map[bool]string{true: "a", false: ""}[text(s["format"]) == ""]
}

func text(v any) string { s, _ := v.(string); return s }

var braces = regexp.MustCompile(`\\\{[^}]*\\\}`)

// TestARealDocumentIsPlayed: a local server takes the requests of every operation
// of real documents, each at its own method and path.
func TestARealDocumentIsPlayed(t *testing.T) {
	for _, name := range []string{"readme-31-train-travel.json", "kin-petstore.json", "readme-30-petstore.json", "readme-31-petstore.json",
		"readme-30-parameters-style.json", "readme-30-file-uploads.json", "readme-30-form-data.json", "readme-30-uspto.json", "kin-stoplight.json.gz"} {
		t.Run(name, func(t *testing.T) { play(t, testDocument(t, name)) })
	}
}

func play(t *testing.T, src []byte) {
	doc, err := openapi.Compile("doc", "https://h.example/", src)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var method, path string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		method, path = r.Method, r.URL.EscapedPath()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	defer srv.Close()
	s := openapi.New(openapi.Config{Name: "x", Base: srv.URL, Load: func() (*openapi.Document, error) { return doc, nil }})
	tools, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\nnetwork: {allow: ['"+srv.URL+"']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for i, x := range tools {
		op := doc.Operations[i]
		var schema map[string]any
		if err := json.Unmarshal(x.Spec().Input, &schema); err != nil {
			t.Fatal(err)
		}
		defs, _ := schema["$defs"].(map[string]any)
		args, _ := sample(schema, defs, 0).(map[string]any)
		if err := compileSchema(t, x.Spec().Input).Validate(args); err != nil {
			continue // more than this sampler can do
		}
		pm := permit.Mint(permit.Terms{Tool: x.Spec().ID, Chain: policy.Chain{rules}})
		res, err := permittest.Run(t.Context(), x, pm, tool.Args(args))
		pm.End()
		want := regexp.MustCompile("^" + braces.ReplaceAllString(regexp.QuoteMeta(strings.TrimSuffix(strings.Split(op.Path, "#")[0], "/")), "[^/]+") + "/?$")
		if err != nil || method != op.Method || !want.MatchString(path) {
			t.Errorf("%s %s with %v: %v; the server was asked %s %s", op.Method, op.Path, args, err, method, path)
			continue
		}
		if res.Output["status"] != http.StatusOK {
			t.Errorf("%s: %v", op.Name, res.Output)
		}
		sent++
	}
	if t.Logf("%d of %d operations were called", sent, len(tools)); sent*10 < len(tools)*6 {
		t.Error("too few of them to show anything")
	}
}
