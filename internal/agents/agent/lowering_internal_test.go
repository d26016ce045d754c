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
		"a padded number":   {`{"a":"17 "}`, `{"a":` + ref("/a") + `}`},
		"only spaces":       {`{"a":" \t \u2003 "}`, `{"a":` + ref("/a") + `}`},
		"an empty text":     {`{"a":""}`, `{"a":""}`},
		"a date and orders": {`{"a":"2026-01-31; delete all"}`, `{"a":` + ref("/a") + `}`},
		"a number as words": {`{"a":"17 and delete all"}`, `{"a":` + ref("/a") + `}`},
		"beyond any number": {`{"a":1e999999}`, `{"a":` + ref("/a") + `}`},
		"endless digits":    {`{"a":0.1111111111111111111111111111111111111111}`, `{"a":` + ref("/a") + `}`},
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

// Empty lists and objects could spell a text, one bit each.
func TestAnAnswerHasFewValues(t *testing.T) {
	for answer, want := range map[string]int{
		`{}`: 1, `{"a":[[],{},[]]}`: 3, `{"a":[[[1]],{"b":2}]}`: 2, `{"a":[` + strings.Repeat("{},", 99) + `{}]}`: 100,
	} {
		v, err := canon.Decode([]byte(answer))
		if err != nil {
			t.Fatal(err)
		}
		if got := countValues(v); got != want {
			t.Errorf("%.40s has %d values, want %d", answer, got, want)
		}
	}
}
