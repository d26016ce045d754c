package document_test

import (
	"encoding/json"
	"testing"

	"github.com/remitrun/remit/internal/base/document"
)

func TestStripComments(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"a line":                {"{\"a\": 1 // one\n}", `{"a":1}`},
		"a block":               {"{/* b */\"a\": /* x */ 1}", `{"a":1}`},
		"a block of its own":    {"{/**/\"a\": 1}", `{"a":1}`},
		"in a string":           {`{"a": "// no /* no */"}`, `{"a":"// no /* no */"}`},
		"behind a quote":        {`{"a": "\"// no"}`, `{"a":"\"// no"}`},
		"trailing commas":       {`{"a": [1, 2, ], "b": 1, /* x */ }`, `{"a":[1,2],"b":1}`},
		"a comma in a string":   {`{"a": ",}"}`, `{"a":",}"}`},
		"two trailing commas":   {`{"a": [1,,]}`, ""},
		"a comment without end": {`{"a": 1} /* x`, `{"a":1}`},
		"a slash and a star":    {`{"a": 1 /*/ , "b": 2 */}`, `{"a":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := document.StripComments([]byte(tt.src))
			if len(got) != len(tt.src) {
				t.Errorf("%d bytes became %d", len(tt.src), len(got))
			}
			var v, want any
			err := json.Unmarshal(got, &v)
			if tt.want == "" {
				if err == nil {
					t.Errorf("%s became valid: %s", tt.src, got)
				}
				return
			}
			_ = json.Unmarshal([]byte(tt.want), &want)
			a, _ := json.Marshal(v)
			b, _ := json.Marshal(want)
			if err != nil || string(a) != string(b) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}
