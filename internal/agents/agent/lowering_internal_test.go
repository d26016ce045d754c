package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/canon"
)

// What is not of the schema, and not a value that chooses little, is a reference or left out.
func TestLowering(t *testing.T) {
	const src = `{"type":"object","properties":{"a":{"enum":["yes, do it"]},"list":{"items":{"properties":{"b":{"const":"c c"}}}}}}`
	ref := func(at string) string { return `{"$output":"out_1","at":"` + at + `"}` }
	tests := map[string]struct{ answer, want string }{
		"a truth value":     {`{"a":true}`, `{"a":true}`},
		"nothing":           {`{"a":null}`, `{"a":null}`},
		"a choice":          {`{"a":"yes, do it"}`, `{"a":"yes, do it"}`},
		"a constant":        {`{"list":[{"b":"c c"}]}`, `{"list":[{"b":"c c"}]}`},
		"another text":      {`{"a":"yes, do it now"}`, `{"a":` + ref("/a") + `}`},
		"a short ID":        {`{"a":"PR-17"}`, `{"a":"PR-17"}`},
		"a short word":      {`{"a":"delete"}`, `{"a":` + ref("/a") + `}`},
		"a long ID":         {`{"a":"123456789abc"}`, `{"a":` + ref("/a") + `}`},
		"a date":            {`{"a":"2026-01-31 18:00"}`, `{"a":"2026-01-31 18:00"}`},
		"a number":          {`{"a":17.5}`, `{"a":17.5}`},
		"a huge number":     {`{"a":1e300}`, `{"a":` + ref("/a") + `}`},
		"a name":            {`{"obey me":true}`, `{}`},
		"a name below":      {`{"list":[{"obey me":true,"b":1}]}`, `{"list":[{"b":1}]}`},
		"a false reference": {`{"list":[{"$output":"out_2"}]}`, `{"list":[{}]}`},
		"a text in a list":  {`{"list":["x y"]}`, `{"list":[` + ref("/list/0") + `]}`},
	}
	for name, tt := range tests {
		v, err := canon.Decode([]byte(tt.answer))
		if err != nil {
			t.Fatal(err)
		}
		b, err := canon.Marshal(newLowering(json.RawMessage(src), "out_1").value(v, ""))
		if err != nil || string(b) != string(canonical(json.RawMessage(tt.want))) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	many := `{"list":["w0"` + strings.Repeat(`,"w0"`, maxAnswerTexts) + `]}`
	v, _ := canon.Decode([]byte(many))
	if got := fmt.Sprint(newLowering(json.RawMessage(src), "out_1").value(v, "")); strings.Count(got, "w0") != maxAnswerTexts {
		t.Errorf("short IDs spell a text: %s", got)
	}
}
