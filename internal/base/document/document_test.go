package document_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

var strict = document.Options{Code: fault.Usage, Noun: "settings file"}

func TestValuesAreReadAsJSONHasThem(t *testing.T) {
	tests := map[string]struct {
		src  string
		want any
	}{
		"scalars of the core schema":       {"[1, -2.5, .5, 1e3, 0x1f, 0o17, true, FALSE, ~, null, text]", []any{json.Number("1"), json.Number("-2.5"), json.Number("0.5"), json.Number("1e3"), json.Number("31"), json.Number("15"), true, false, nil, nil, "text"}},
		"what YAML 1.1 would read as more": {"[yes, No, on, 1_000, 12:30, 2026-01-02]", []any{"yes", "No", "on", "1_000", "12:30", "2026-01-02"}},
		"quotes make strings":              {`["1", 'true', "null"]`, []any{"1", "true", "null"}},
		"blocks":                           {"a: |\n  x\n  y\nb: >-\n  x\n  y\n", map[string]any{"a": "x\ny\n", "b": "x y"}},
		"JSON":                             {`{"a": [1, {"b": "é"}], "c": -0.0}`, map[string]any{"a": []any{json.Number("1"), map[string]any{"b": "é"}}, "c": json.Number("-0.0")}},
		"an empty mapping and list":        {"a: {}\nb: []\n", map[string]any{"a": map[string]any{}, "b": []any{}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := document.NewReader("f.yaml", strict)
			n := r.Read([]byte(tt.src))
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, n.Value()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatCanBeReadTwoWaysIsRefused(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"a key twice":              {"a: 1\nb: 2\na: 3\n", `f.yaml:3:1: a: the key "a" is given twice, first on line 1`},
		"a key twice in JSON":      {`{"a": 1, "a": 2}`, "f.yaml:1:"},
		"an anchor":                {"a: &x 1\n", "f.yaml:1:4: a: anchors and aliases are not allowed"},
		"an alias":                 {"a: &x [1]\nb: *x\n", "f.yaml:2:4: b: anchors"},
		"a merge key":              {"a:\n  <<: {b: 1}\n", "f.yaml:2:3: a: merge keys (<<) are not allowed"},
		"a tag":                    {"a: !!int \"1\"\n", `f.yaml:1:4: a: the tag "!!int" is not allowed`},
		"an application's tag":     {"a: !exec x\n", `the tag "!exec" is not allowed`},
		"a non-specific tag":       {"a: ! 12\n", `the tag "!" is not allowed`},
		"a tagged list":            {"a: !!set [x]\n", `the tag "!!set" is not allowed`},
		"a key that is a number":   {"1: x\n", "f.yaml:1:1: a key must be a string (put it in quotes)"},
		"a key that is a list":     {"[a]: x\n", "a key must be a string"},
		"a second document":        {"a: 1\n---\nb: 2\n", "a second document begins here"},
		"nothing":                  {"", "the settings file is empty"},
		"only a comment":           {"# x\n", "is empty"},
		"bytes that are not UTF-8": {"a: 1\nb: \xff\n", "f.yaml:2:4: the settings file is not UTF-8"},
		"a NUL byte":               {"a: \x00\n", "contains a NUL byte"},
		"a hidden line break":      {"a: x\u2028b: y\n", "many editors do not show"},
		"a carriage return alone":  {"a: x\rb: y\n", "many editors do not show"},
		"text turned around":       {"a: x\u202ey\n", "changes how the text around it is shown"},
		"an octal of YAML 1.1":     {"mode: 0644\n", "mode: 0644 begins with a zero"},
		"a number beyond doubles":  {"a: 1e999\n", "is not a number that JSON can hold"},
		"an infinity":              {"a: -.inf\n", "a: -.inf is not a number that JSON can hold"},
		"not a number":             {"a: .NaN\n", "a: .NaN is not a number that JSON can hold"},
		"a number beyond 64 bits":  {"a: 0xfffffffffffffffff\n", "not a valid 64-bit number"},
		"broken YAML":              {"a: [1\nb: 2\n", "not valid YAML"},
		"a tab":                    {"a:\n\tb: 2\n", "(indent with spaces, not tabs)"},
		"broken JSON":              {"{\"a\": [}", "not valid"},
		"too deep":                 {strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested more than 32 levels deep"},
		"too deep in JSON":         {`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}", "nested more than 32 levels deep"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := document.NewReader("f.yaml", strict)
			if n := r.Read([]byte(tt.src)); n != nil {
				t.Fatalf("was read as %v", n.Value())
			}
			if err := r.Err(); err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, fault.Usage) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	tests := map[string]struct {
		o    document.Options
		src  string
		want string
	}{
		"bytes":   {document.Options{MaxBytes: 10}, "a: 12345678\n", "has 12 bytes; the maximum is 10"},
		"values":  {document.Options{MaxNodes: 3}, "[1, 2, 3, 4, 5]", "more than 3 values"},
		"a key":   {document.Options{MaxKey: 3}, `{"abcd": 1, "e": 2}`, "a key has 4 bytes; the maximum is 3"},
		"aliases": {document.Options{Aliases: 5}, "a: &a [1, 1, 1]\nb: [*a, *a, *a]\n", "aliases repeat more than 5 values"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.o.Code = fault.Usage
			r := document.NewReader("f", tt.o)
			r.Read([]byte(tt.src))
			if err := r.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	r := document.NewReader("f", document.Options{Code: fault.Usage})
	n := r.Read([]byte("[" + strings.Repeat("1, ", 300) + "1]"))
	r.List(0, r.String(new(string)))(n, "x")
	if l := r.Err().(fault.List); len(l) != document.MaxProblems+1 || !strings.Contains(l[document.MaxProblems].Msg, "201 more problems") {
		t.Errorf("%d problems, the last %v", len(l), l[len(l)-1])
	}
}

func TestAliasesAndCoreTagsWhereAFormatAllowsThem(t *testing.T) {
	r := document.NewReader("f", document.Options{Code: fault.Usage, Aliases: 100, CoreTags: true})
	n := r.Read([]byte("a: &x {k: !!str 1}\nb: *x\nc: !!float 1\n"))
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": map[string]any{"k": "1"}, "b": map[string]any{"k": "1"}, "c": json.Number("1")}
	if diff := cmp.Diff(want, n.Value()); diff != "" {
		t.Error(diff)
	}
	r = document.NewReader("f", document.Options{Code: fault.Usage, CoreTags: true})
	if n := r.Read([]byte("a: !!int x\n")); n != nil || !strings.Contains(r.Err().Error(), `the string "x" does not fit the tag !!int`) {
		t.Errorf("%v, %v", n, r.Err())
	}
}

// Every position of JSON and of the same text read as YAML is the same.
func TestPositionsOfBothFormatsAgree(t *testing.T) {
	src := []byte("{\"é\": [1,\n  {\"b\": \"x\"}],\n \"c\": true}")
	j, y := document.NewReader("f.json", strict), document.NewReader("f.yaml", strict)
	a, b := j.ReadJSON(src), y.Read(append([]byte("# YAML\n"), src...))
	if j.Err() != nil || y.Err() != nil {
		t.Fatal(j.Err(), y.Err())
	}
	var walk func(a, b *document.Node)
	walk = func(a, b *document.Node) {
		if a.Kind != b.Kind || a.Text != b.Text || a.Line+1 != b.Line || a.Column != b.Column {
			t.Errorf("JSON has %v at %d:%d, YAML %v at %d:%d", a.Describe(), a.Line, a.Column, b.Describe(), b.Line-1, b.Column)
		}
		for i := range a.Items {
			walk(a.Items[i], b.Items[i])
		}
		for i := range a.Pairs {
			walk(a.Pairs[i].Key, b.Pairs[i].Key)
			walk(a.Pairs[i].Value, b.Pairs[i].Value)
		}
	}
	walk(a, b)
}

type settings struct {
	Name  string
	Words []string
	On    bool
	Mode  string
	Count int
	Bytes int64
	Wait  time.Duration
}

func read(src string) (settings, error) {
	var s settings
	r := document.NewReader("f", strict)
	if n := r.Read([]byte(src)); n != nil {
		r.Mapping(n, "", document.Fields{
			"version": r.Version(1), "name": r.String(&s.Name), "words": r.Strings(&s.Words, 3), "on": r.Bool(&s.On),
			"mode":  r.OneOf(&s.Mode, "fast", "safe"),
			"outer": r.Object(document.Fields{"count": document.Int(r, &s.Count, 1, 9), "bytes": r.Size(&s.Bytes), "wait": r.Duration(&s.Wait)}),
		}, "version")
	}
	return s, r.Err()
}

func TestTypedFields(t *testing.T) {
	got, err := read("version: 1\nname: x\nwords: [a, b]\non: true\nmode: safe\nouter: {count: 9, bytes: 5MiB, wait: 7d}\n")
	want := settings{"x", []string{"a", "b"}, true, "safe", 9, 5 << 20, 7 * 24 * time.Hour}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for src, want := range map[string]string{
		"name: x":                           `version: the required key "version" is missing`,
		"version: 2":                        "this Remit reads version 1, not 2 (write version: 1)",
		"version: 1\nnaem: x":               `f:2:1: naem: unknown key "naem" (did you mean "name"?)`,
		"version: 1\nzzz: x":                "known keys: mode, name, on, outer, version, words",
		"version: 1\nname: 5":               "name: must be a string, not 5 (put it in quotes)",
		"version: 1\nwords: a":              `words: must be a list, not the string "a"`,
		"version: 1\nwords: [a, 1]":         "words[1]: must be a string, not 1",
		"version: 1\nwords: [a, b, c, d]":   "words: has 4 elements; the maximum is 3",
		"version: 1\non: yes":               `on: must be true or false, not the string "yes"`,
		"version: 1\nmode: saef":            `mode: must be fast or safe, not the string "saef" (did you mean "safe"?)`,
		"version: 1\nouter: 1":              "outer: must be a mapping, not 1",
		"version: 1\nouter: {count: 10}":    "outer.count: must be a whole number from 1 to 9, not 10",
		"version: 1\nouter: {count: 1.0}":   "outer.count: must be a whole number",
		"version: 1\nouter: {bytes: 5 mib}": "outer.bytes: must be a size of at least 1 byte",
		"version: 1\nouter: {wait: 5}":      "outer.wait: must be a time such as",
		"[1]":                               "must be a mapping, not a list",
	} {
		if _, err := read(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\ngot  %v\nwant %s", src, err, want)
		}
	}
}

func TestSizesAndTimes(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "1": 1, "4 KiB": 4096, "2MB": 2e6, "7TiB": 7 << 40, "9223372036854775807B": -1, "01": -1, "-1": -1, "1.5MiB": -1, "9000000TiB": -1, "": -1, "MiB": -1} {
		if got, err := document.ParseSize(s); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("size %q: %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]time.Duration{"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0,
		"-1s": -1, "1d24h": -1, "1d-1h": -1, "d": -1, "2w": 14 * 24 * time.Hour, "1w2d": 216 * time.Hour, "2d1w": -1, "1.5d": -1, "7d7d": -1, "65535w": -1, "9999999d": -1, "999999d": -1, "": -1, "5": -1} {
		if got, err := document.ParseDuration(s); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("time %q: %v, %v", s, got, err)
		}
	}
}

func TestEveryIntegerTypeKeepsItsRange(t *testing.T) {
	r := document.NewReader("f", strict)
	n := &document.Node{Kind: document.Number, Text: "4294967296"}
	var small int32
	document.Int(r, &small, 0, math.MaxInt64)(n, "x")
	if !r.Failed() || small != 0 {
		t.Errorf("%d became %d", int64(1)<<32, small)
	}
}

// lax are invalid documents of the YAML test suite that the parser reads: their
// indentation is wrong in a way that leaves one possible meaning.
var lax = map[string]bool{
	"block-scalar-with-more-spaces-than-first-content-line": true,
	"tabs-in-various-contexts/003":                          true,
	"tabs-that-look-like-indentation/01":                    true,
	"wrong-indented-flow-sequence":                          true,
	"wrong-indented-multiline-quoted-scalar":                true,
}

// The YAML test suite: its invalid documents are refused, and reading never panics.
func TestYAMLSuite(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: the YAML test suite is not read")
	}
	f, err := os.Open(filepath.Join(dir, "schema", "yaml_test_suite.jsonl"))
	if err != nil {
		t.Skipf("the YAML test suite cannot be read: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<22)
	cases, accepted := 0, 0
	for lines.Scan() {
		var c struct {
			Name, YAML string
			JSON       *string
			MustFail   bool `json:"must_fail"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases++
		r := document.NewReader(c.Name, document.Options{Code: fault.Usage, Aliases: 1000, CoreTags: true})
		n := r.Read([]byte(c.YAML))
		switch {
		case n != nil && c.MustFail && !lax[c.Name]:
			t.Errorf("%s is invalid and was read: %q", c.Name, c.YAML)
		case n != nil && c.JSON != nil && !lax[c.Name]:
			accepted++
			got, err := canon.Marshal(n.Value())
			want, werr := canon.Decode([]byte(*c.JSON))
			text, _ := canon.Marshal(want)
			if err != nil || werr != nil || string(got) != string(text) {
				t.Errorf("%s: %q was read as %s (%v), want %s (%v)", c.Name, c.YAML, got, err, text, werr)
			}
		}
	}
	if cases < 300 || accepted < 100 {
		t.Errorf("%d of %d cases accepted: the test shows too little", accepted, cases)
	}
}

// What is accepted reads back equal from its canonical JSON, whatever the input.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"a: 1\n", `{"a": [1, {"b": null}]}`, "a: &x [1]\nb: *x\n", "- |\n  x\n- 'y'\n", "? a\n: b\n", "a: 0x1F\nb: 0o17\nc: .5\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r := document.NewReader("f", document.Options{Code: fault.Usage, Aliases: 50, CoreTags: true})
		n := r.Read(src)
		if (n == nil) != (r.Err() != nil) {
			t.Fatalf("node %v, error %v", n, r.Err())
		}
		if n == nil {
			return
		}
		b, err := canon.Marshal(n.Value())
		if err != nil {
			t.Fatalf("%q was read as %v, which is not JSON: %v", src, n.Value(), err)
		}
		again := document.NewReader("f.json", document.Options{Code: fault.Usage, MaxBytes: 1 << 24})
		m := again.ReadJSON(b)
		if m == nil {
			t.Fatalf("%q became %q, which is not read: %v", src, b, again.Err())
		}
		if c, err := canon.Marshal(m.Value()); err != nil || string(c) != string(b) {
			t.Fatalf("%q became %q, then %q (%v)", src, b, c, err)
		}
	})
}

func ExampleReader() {
	var name string
	var limit int64
	r := document.NewReader("settings.yaml", document.Options{Code: fault.Usage, Noun: "settings file"})
	if root := r.Read([]byte("name: demo\nlimit: 5 Mib\n")); root != nil {
		r.Mapping(root, "", document.Fields{"name": r.String(&name), "limit": r.Size(&limit)}, "name")
	}
	fmt.Println(r.Err())
	// Output:
	// E9001 settings.yaml:2:8: limit: must be a size of at least 1 byte such as 4096, 512KB or 5MiB, not the string "5 Mib"
}
