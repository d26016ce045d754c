package openapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

// testDocument reads one of the collected documents.
func testDocument(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA names no collection of documents")
	}
	b, err := os.ReadFile(filepath.Join(dir, "openapi", name))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return b
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		b, err = io.ReadAll(z)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compileSchema(t *testing.T, src []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatalf("%v in %.400s", err, src)
	}
	return s
}

// TestRealDocumentsBecomeTools: every operation is a tool with a name of its own
// and a closed schema that can be used; older documents are refused in words.
func TestRealDocumentsBecomeTools(t *testing.T) {
	var index []struct {
		File, Version string
		Operations    int
	}
	if err := json.Unmarshal(testDocument(t, "index.json"), &index); err != nil {
		t.Fatal(err)
	}
	for _, e := range index {
		t.Run(e.File, func(t *testing.T) {
			d, err := openapi.Compile(e.File, "https://docs.example.com/x/openapi.json", testDocument(t, e.File))
			if e.Version == "2.0" {
				if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "Swagger") {
					t.Errorf("got %v", err)
				}
				return
			}
			if e.Operations == 0 && err != nil && strings.Contains(err.Error(), "no operation") {
				return
			}
			if e.File == "readme-30-server-path-level.json" {
				e.Operations++ // one of its paths refers to another
			}
			if err != nil || len(d.Operations) != e.Operations {
				t.Fatalf("%v; want %d operations", err, e.Operations)
			}
			seen := map[string]bool{}
			for i, op := range d.Operations {
				id := "api:x:" + op.Name
				if _, err := tool.ParseID(id); err != nil || seen[strings.ToLower(id)] {
					t.Errorf("%s: %v, twice: %v", id, err, seen[id])
				}
				seen[strings.ToLower(id)] = true
				if len(op.Input) > 512<<10 || !bytes.Contains(op.Input, []byte(`"additionalProperties":false`)) {
					t.Errorf("%s: a schema of %d bytes", id, len(op.Input))
				}
				if len(d.Operations) < 200 || i%50 == 0 { // compiling all of GitHub's takes a while
					compileSchema(t, op.Input)
				}
			}
			b, err := d.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := openapi.Decode(b); err != nil || !reflect.DeepEqual(again, d) {
				t.Errorf("decoded is another document: %v", err)
			}
		})
	}
}

// TestGitHubsDocument measures what the largest real document costs.
func TestGitHubsDocument(t *testing.T) {
	src := testDocument(t, "github-api.github.com.json.gz")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	d, err := openapi.Compile("github.json", "", src)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if _, err := openapi.Decode(b); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations of %d bytes in %v, %d MB allocated in all; compiled %d bytes, read in %v", len(d.Operations), len(src), took,
		(after.TotalAlloc-before.TotalAlloc)>>20, len(b), time.Since(start))
	if d.Base != "https://api.github.com" || took > 20*time.Second || (after.TotalAlloc-before.TotalAlloc) > 1<<30 {
		t.Errorf("%s in %v", d.Base, took)
	}
}

const head = `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"servers":[{"url":"https://api.example.com/v1/"}],`

func compile(t *testing.T, src string) *openapi.Document {
	t.Helper()
	d, err := openapi.Compile("doc.json", "", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBadDocumentsAreRefused(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"empty":               {"", "doc.json"},
		"not JSON":            {"{\"openapi\": \"3.0.0\",\n  \"paths\": {,}\n}", "doc.json:2:13: not JSON"},
		"cut off":             {head + `"paths":{`, "not JSON: unexpected end"},
		"a list":              {"[]", "mapping"},
		"not UTF-8":           {"{\"a\":\"\xff\"}", "not UTF-8"},
		"no version":          {`{"paths":{}}`, "the key openapi is missing"},
		"Swagger":             {`{"swagger":"2.0"}`, "Swagger \"2.0\" is not supported"},
		"version 4":           {`{"openapi":"4.0.0"}`, "expected 3.0 or 3.1"},
		"no operation":        {head + `"paths":{}}`, "no operation"},
		"paths are a list":    {head + `"paths":[]}`, "paths: is a array; expected an object"},
		"another document":    {"{\"openapi\":\"3.0.0\",\"paths\":{\n\"/a\":{\"get\":{\"parameters\":[{\"$ref\":\"other.yaml#/x\"}]}}}}", `doc.json:2:`},
		"a remote document":   {head + `"paths":{"/a":{"$ref" : "https://evil.example/x"}}}`, "leads to another document"},
		"nowhere":             {head + `"paths":{"/a":{"get":{"parameters":[{"$ref":"#/components/parameters/x"}]}}}}`, "paths./a.get.parameters: the reference"},
		"a circle":            {head + `"components":{"parameters":{"x":{"$ref":"#/components/parameters/x"}}},"paths":{"/a":{"get":{"parameters":[{"$ref":"#/components/parameters/x"}]}}}}`, "is circular"},
		"a parameter nowhere": {head + `"paths":{"/a":{"get":{"parameters":[{"name":"x","in":"body"}]}}}}`, "in path, query, header or cookie"},
		"no name":             {head + `"paths":{"/a":{"get":{"parameters":[{"in":"query"}]}}}}`, "name must be 1-200 bytes"},
		"an unknown style":    {head + `"paths":{"/a":{"get":{"parameters":[{"name":"x","in":"query","style":"matrix"}]}}}}`, "cannot have the style"},
		"a wrong type":        {head + `"paths":{"/a":{"get":{"summary":5}}}}`, "paths./a.get.summary: is a number; expected a text"},
		"no slash":            {head + `"paths":{"a":{"get":{}}}}`, "must begin with a slash"},
		"YAML that is none":   {"openapi: 3.0.0\n  paths: x: y", "doc.json:2:8: not valid YAML"},
		"YAML alias bombs":    {"openapi: 3.0.0\na: &a [" + strings.Repeat("x,", 2000) + "]\nb: [*a,*a,*a,*a,*a,*a]\n", "aliases repeat more than"},
		"a key twice":         {"openapi: 3.0.0\npaths: {}\npaths: {}\n", "doc.json:3:1: paths"},
		"nested too deep":     {"openapi: 3.0.0\nx: " + strings.Repeat("[", 600) + strings.Repeat("]", 600), ""},
		"too large":           {head + `"x":"` + strings.Repeat("a", openapi.MaxDocument) + `"}`, "more than 33554432"},
		"JSON nested deeper":  {head + `"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", "exceeded max depth"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := openapi.Compile("doc.json", "", []byte(tc.src))
			if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestNamesOfOperations(t *testing.T) {
	d := compile(t, head+`"paths":{
		"/a":{"get":{"operationId":"repos/get"},"post":{"operationId":"Repos/Get"}},
		"/b/{id}":{"get":{},"delete":{"operationId":"  "}},
		"/c":{"get":{"operationId":"größe: a b"},"put":{"operationId":"`+strings.Repeat("x", 300)+`"}},
		"/d":{"get":{"operationId":"`+strings.Repeat("x", 300)+`"},"x-note":{"a":1}},
		"/日本":{"get":{}}}}`)
	var got []string
	for _, op := range d.Operations {
		if len(op.Name) > 130 {
			t.Errorf("%q is long", op.Name)
		}
		got = append(got, op.Method+" "+op.Name[:min(len(op.Name), 24)])
	}
	want := []string{"GET repos/get", "POST Repos/Get.post_a", "GET get_b_id", "DELETE delete_b_id", "GET gr_e_a_b"}
	if len(got) != 8 || !reflect.DeepEqual(got[:5], want) {
		t.Errorf("%q", got)
	}
}

func TestSchemasOfArguments(t *testing.T) {
	d := compile(t, head+`"components":{"schemas":{
		"Node":{"type":"object","required":["id","name"],"properties":{
			"id":{"type":"integer","readOnly":true},"name":{"type":"string","nullable":true,"pattern":"(?!x)"},
			"children":{"type":"array","items":{"$ref":"#/components/schemas/Node"}},
			"size":{"type":"number","minimum":0,"exclusiveMinimum":true},
			"kind":{"oneOf":[{"type":"string"},{"type":"string","enum":["a"]}]},
			"owner":{"nullable":true,"allOf":[{"$ref":"#/components/schemas/Odd Name"}]}}},
		"Odd Name":{"type":"object","properties":{"x":{"type":"nonsense"}},"x-internal":true,"$id":"https://evil.example/"}}},
		"paths":{"/n/{id}":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},{"name":"q","in":"query","description":"shared"}],
			"put":{"parameters":[{"name":"q","in":"query","description":"own","schema":{"type":"string"}},{"name":"id","in":"query","schema":{"type":"string"}},
				{"name":"Authorization","in":"header"},{"name":"Host","in":"header"},{"name":"X-A","in":"header","schema":{"$ref":"#/components/schemas/Odd Name"}}],
				"requestBody":{"required":true,"content":{"text/plain":{},"application/json":{"schema":{"$ref":"#/components/schemas/Node"}}}}}}}}`)
	op := d.Operations[0]
	s := compileSchema(t, op.Input)
	for args, ok := range map[string]bool{
		`{"id":1,"body":{"name":null,"children":[{"name":"x","children":[]}],"kind":"a","owner":null,"size":1}}`: true,
		`{"id":1,"q":"x","query_id":"y","body":{"name":"x"}}`:                                                    true,
		`{"id":1}`:                                           false, // no body
		`{"body":{"name":"x"}}`:                              false, // no id
		`{"id":"x","body":{"name":"x"}}`:                     false,
		`{"id":1,"body":{}}`:                                 false, // no name
		`{"id":1,"body":{"name":"x","size":0}}`:              false,
		`{"id":1,"body":{"name":"x","children":[{}]}}`:       false,
		`{"id":1,"body":{"name":"x"},"Authorization":"x"}`:   false,
		`{"id":1,"body":{"name":"x"},"Host":"x"}`:            false,
		`{"id":1,"body":{"name":"x"},"other":"x"}`:           false,
		`{"id":1,"body":{"name":"x","owner":5}}`:             false,
		`{"id":1,"body":{"name":"x"},"X-A":{"x":["any"]}}`:   true,
		`{"id":1,"body":{"name":"x","kind":["none of it"]}}`: false,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(args))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
	if !bytes.Contains(op.Input, []byte(`"own"`)) || bytes.Contains(op.Input, []byte("shared")) || bytes.Contains(op.Input, []byte("evil")) {
		t.Errorf("%s", op.Input)
	}
}

func TestSchemasAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + `"components":{"schemas":{`)
	for i := range 3000 {
		if i > 0 {
			b.WriteString(",")
		}
		next := json.Number(strings.TrimSpace(string(rune('0' + i%10))))
		b.WriteString(`"S` + itoa(i) + `":{"type":"object","description":"` + strings.Repeat("d", 500) + `","properties":{"n":{"$ref":"#/components/schemas/S` + itoa(i+1) + `"},"m":{"enum":[` + string(next) + `]}}}`)
	}
	b.WriteString(`,"S3000":{}}},"paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S0"}}}}}}}}`)
	op := compile(t, b.String()).Operations[0]
	if len(op.Input) > 300<<10 {
		t.Errorf("a schema of %d bytes", len(op.Input))
	}
	compileSchema(t, op.Input)
}

func itoa(i int) string { return string(must(json.Marshal(i))) }

func must(b []byte, _ error) []byte { return b }

func TestWhereRequestsGo(t *testing.T) {
	for servers, want := range map[string]string{
		`[]`:                                  "https://docs.example.com",
		`[{"url":"/v2"}]`:                     "https://docs.example.com/v2",
		`[{"url":"https://a.example/"}]`:      "https://a.example",
		`[{"url":"https://u:p@a.example/"}]`:  "",
		`[{"url":"ftp://a.example/"}]`:        "",
		`[{"url":"https://{h}.example/{x}"}]`: "",
		`[{"url":"https://{h}.example/v","variables":{"h":{"default":"eu"}}}]`: "https://eu.example/v",
	} {
		src := `{"openapi":"3.1.0","servers":` + servers + `,"paths":{"/a":{"get":{}}}}`
		d, err := openapi.Compile("d", "https://docs.example.com/api.json", []byte(src))
		if err != nil || d.Base != want {
			t.Errorf("%s: %q, %v, want %q", servers, d.Base, err, want)
		}
	}
}

func TestWhatADocumentWants(t *testing.T) {
	d := compile(t, head+`"components":{"securitySchemes":{"a":{"type":"http","scheme":"Bearer"},"b":{"type":"http","scheme":"basic"},
		"c":{"type":"apiKey","in":"header","name":"X-Key"},"d":{"type":"apiKey","in":"cookie","name":"sid"},"e":{"type":"openIdConnect"},"f":5,
		"g":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://t.example/token"}}},"h":{"type":"http","scheme":"bearer"}}},"paths":{"/a":{"get":{}}}}`)
	want := []string{"bearer=SECRET", "basic=USER:SECRET", "header=X-Key:SECRET", "oauth=CLIENT:SECRET --token-url https://t.example/token"}
	if !reflect.DeepEqual(d.Wants, want) {
		t.Errorf("%q", d.Wants)
	}
}

func TestYAMLDocuments(t *testing.T) {
	d, err := openapi.Compile("d.yaml", "", []byte(`openapi: 3.1.0
info: {title: Shop, version: "2"}
servers: [{url: https://shop.example}]
paths:
  /items/{id}:
    get:
      operationId: item
      parameters:
        - {name: id, in: path, required: true, schema: {type: integer, minimum: 1}}
      responses: {200: {description: ok}}
`))
	if err != nil || d.Title != "Shop" || d.Operations[0].Name != "item" || !bytes.Contains(d.Operations[0].Input, []byte(`"minimum":1`)) {
		t.Errorf("%+v, %v", d, err)
	}
}

// What other programs write in YAML: keys that are numbers, numbers that are not
// JSON, aliases, tags.
func TestForeignYAML(t *testing.T) {
	d, err := openapi.Compile("d.json", "", []byte(`openapi: 3.0.3
info: {title: !!str Shop, version: !!str 2}
servers: [{url: https://shop.example}]
x-shared: &id {name: id, in: path, required: true, schema: {type: string, enum: [.inf, 0x1F, 0123, on]}}
paths:
  /items/{id}:
    get: {operationId: item, parameters: [*id], responses: {200: {description: ok}, 404: {description: no}}}
`))
	if err != nil || d.Operations[0].Name != "item" || !bytes.Contains(d.Operations[0].Input, []byte(`"enum":[".inf","0x1F","0123","on"]`)) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDamagedCompiledDocumentsAreRefused(t *testing.T) {
	b, err := compile(t, head+`"paths":{"/a":{"get":{}}}}`).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 0x40
		if _, err := openapi.Decode(c); err == nil {
			t.Fatalf("byte %d changed, and nobody saw it", i)
		}
	}
	for _, n := range []int{0, 1, len(b) - 1} {
		if _, err := openapi.Decode(b[:n]); err == nil {
			t.Errorf("%d bytes were taken", n)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(head + `"paths":{"/a/{b}":{"get":{"parameters":[{"name":"c","in":"query","schema":{"type":"array","items":{"$ref":"#/paths/~1a~1{b}/get"}}}]}}}}`))
	f.Add([]byte("openapi: 3.1.0\npaths: {/a: {post: {requestBody: {content: {text/plain: {}}}}}}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := openapi.Compile("f", "https://h.example/", src)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, op := range d.Operations {
			if _, err := tool.ParseID("api:x:" + op.Name); err != nil || seen[op.Name] {
				t.Fatalf("%q: %v", op.Name, err)
			}
			seen[op.Name] = true
			if !json.Valid(op.Input) {
				t.Fatalf("%s", op.Input)
			}
		}
	})
}
