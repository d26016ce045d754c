package canon_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/canon"
)

func TestMarshal(t *testing.T) {
	tests := map[string]struct {
		in   any
		want string
	}{
		"keys are sorted":                       {map[string]any{"b": nil, "a": true, "10": 1, "2": 2}, `{"10":1,"2":2,"a":true,"b":null}`},
		"keys sort by UTF-16, not by bytes":     {map[string]any{"\ufb33": 1, "\U0001f600": 2, "\u20ac": 3}, "{\"\u20ac\":3,\"\U0001f600\":2,\"\ufb33\":1}"},
		"numbers lose what does not matter":     {[]any{json.Number("1.0"), json.Number("-0"), json.Number("1E2")}, `[1,0,100]`},
		"numbers print as ECMAScript does":      {[]any{1e21, 1e20, 1e-6, 1e-7, 5e-324, 0.1}, `[1e+21,100000000000000000000,0.000001,1e-7,5e-324,0.1]`},
		"large integers keep their digits":      {json.Number("9007199254740993"), `9007199254740993`},
		"64-bit identifiers keep their digits":  {uint64(math.MaxUint64), `18446744073709551615`},
		"only what must be escaped is":          {"\x00\b\t\n\f\r\x1f\"\\/<>&\u2028\u007f", `"\u0000\b\t\n\f\r\u001f\"\\/<>&` + "\u2028\u007f" + `"`},
		"other types go through their own JSON": {struct{ B, A int }{1, 2}, `{"A":2,"B":1}`},
		"nothing":                               {[]any{[]any{}, map[string]any{}}, `[[],{}]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := canon.Marshal(tc.in)
			if err != nil || string(got) != tc.want {
				t.Fatalf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestMarshalRefuses(t *testing.T) {
	deep := any("x")
	for range canon.MaxDepth + 1 {
		deep = []any{deep}
	}
	for name, in := range map[string]any{
		"NaN": math.NaN(), "infinity": math.Inf(1), "a number beyond doubles": json.Number("1e400"),
		"no number": json.Number("0x1"), "an empty number": json.Number(""), "leading zero": json.Number("00000000000000000001"),
		"bytes that are not UTF-8": "\xff", "such a key": map[string]any{"\xff": 1}, "too deep": deep, "a function": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := canon.Marshal(in); err == nil {
				t.Fatalf("accepted as %s", got)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	got, err := canon.Decode([]byte(" {\"a\\u0000\\ud83d\\ude00/\\/\": [1.50, -0, true, null, \"\u00e9\"]}\n"))
	want := map[string]any{"a\x00\U0001f600//": []any{json.Number("1.50"), json.Number("-0"), true, nil, "é"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v, %v", got, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing": "", "space only": " ", "a second value": "1 2", "duplicate key": `{"a":1,"a":1}`,
		"duplicate key under another spelling": `{"a":1,"\u0061":1}`, "trailing comma": "[1,]", "trailing comma in object": `{"a":1,}`,
		"leading zero": "01", "plus": "+1", "no fraction": "1.", "no exponent": "1e", "bare minus": "-", "NaN": "NaN",
		"single quotes": "'a'", "comment": "1 // x", "half a pair": `"\ud800"`, "wrong half": `"\ud800\u0041"`, "low half": `"\udc00"`,
		"raw newline": "\"a\nb\"", "not UTF-8": "\"\xff\"", "encoded surrogate": "\"\xed\xa0\x80\"", "no end": `"abc`, "open": "[1", "byte order mark": "\ufeff1",
		"unknown escape": `"\x41"`, "NUL after": "1\x00", "word": "nul", "long word": "nulll",
		"too deep": strings.Repeat("[", canon.MaxDepth+2) + strings.Repeat("]", canon.MaxDepth+2),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := canon.Decode([]byte(in)); err == nil {
				t.Fatalf("accepted as %#v", got)
			}
		})
	}
}

// TestVectors takes third-party RFC 8785 vectors.
func TestVectors(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "policy", "jcs_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := canon.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.([]any) {
		c := e.(map[string]any)
		t.Run(c["name"].(string), func(t *testing.T) {
			if got, err := canon.Marshal(c["input"]); err != nil || string(got) != c["expected"] {
				t.Fatalf("got %s, %v; want %s", got, err, c["expected"])
			}
		})
	}
}

// FuzzDecode: what is accepted is JSON to the standard library too, and its
// canonical form is a fixed point.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"\u00e9\ud83d\ude00",null,true]}`, `"\ud800"`, `1e400`, `123456789012345678901234567890`, `[[[]]]`, `-0.0`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := canon.Decode(b)
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is not JSON", b)
		}
		one, err := canon.Marshal(v)
		if err != nil {
			return // a number beyond doubles
		}
		w, err := canon.Decode(one)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", one, err)
		}
		two, err := canon.Marshal(w)
		if err != nil || string(one) != string(two) {
			t.Fatalf("%s became %s, %v", one, two, err)
		}
	})
}

func TestDecodeLenient(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for name, tc := range map[string]struct {
		src   string
		want  string
		whole bool
	}{
		"valid":           {`{"a":[1.10,"x",null]}`, `{"a":[1.10,"x",null]}`, true},
		"a whole pair":    {`"\ud83d\ude00"`, `"😀"`, true},
		"a high half":     {`["a\ud83db"]`, `["a�b"]`, true},
		"a low half":      {`"\ude00"`, `"�"`, true},
		"two high halves": {`"\ud83d\ud83d\ude00"`, `"�😀"`, true},
		"half and escape": {`"\ud83d\n"`, `"�\n"`, true},
		"not UTF-8":       {"\"a\xffb\"", `"a�b"`, true},
		"a line end":      {"\"a\nb\"", `"a\nb"`, true},
		"equal keys":      {`{"a":{"b":1,"b":2}}`, `{"a":{"b":2}}`, true},
		"equal fields":    {`{"a":1,"a":2}`, `null`, false},
		"no end":          {`{"a":"x","b":["y","z\u00e4`, `{"a":"x","b":["y","zä"]}`, false},
		"half an escape":  {`{"a":"x\u00`, `{"a":"x"}`, false},
		"not JSON":        {`{"a":"x",b}`, `{"a":"x"}`, false},
		"more behind":     {`{"a":1}x`, `{"a":1}`, false},
		"nothing":         {``, `null`, false},
		"many values":     {`{"a":[1,2,3,"]",{"b":"\""}],"c":4}`, `{"a":[1,2,"3,\"]\",{\"b\":\"\\\"\"}]"],"c":4}`, true},
		"many fields":     {`{"a":{"b":1,"c":2,"d":3,"e":4},"f":5}`, `{"a":{"b":1,"c":2,"…":"\"d\":3,\"e\":4}"},"f":5}`, true},
		"deep":            {deep, strings.Repeat("[", 100) + `"` + deep[100:1900] + `"` + strings.Repeat("]", 100), true},
	} {
		limit := 1000
		if strings.HasPrefix(name, "many") {
			limit = 4
		}
		v, whole := canon.DecodeLenient([]byte(tc.src), limit)
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil || b.String() != tc.want+"\n" || whole != tc.whole {
			t.Errorf("%s: %s, %v, %v, want %s", name, b.String(), whole, err, tc.want)
		}
	}
}

// TestDecodeLenientTakesAllJSON: what Decode takes is the same, and of a part of it the values before stay.
func TestDecodeLenientTakesAllJSON(t *testing.T) {
	const src = `{"name":"PostToolUse","list":["one",{"two":3.50}],"text":"a\u00e4\ud83d\ude00b","end":true}`
	want, err := canon.Decode([]byte(src))
	if got, whole := canon.DecodeLenient([]byte(src), 100); err != nil || !whole || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v, %v", got, whole, want, err)
	}
	for n := range len(src) {
		v, whole := canon.DecodeLenient([]byte(src[:n]), 100)
		m, _ := v.(map[string]any)
		if whole || n > 22 && m["name"] != "PostToolUse" {
			t.Errorf("%s: %v, %v", src[:n], v, whole)
		}
	}
}
