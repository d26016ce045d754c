package commitment_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestCheck(t *testing.T) {
	value := func(v string) map[string]json.RawMessage { return map[string]json.RawMessage{"/a": json.RawMessage(v)} }
	tests := map[string]struct {
		c    commitment.Commitment
		want string // a part of the error; "": valid
	}{
		"run":              {commitment.Commitment{Run: []string{"go", "test"}, Exit: 1, Cwd: "src"}, ""},
		"file":             {commitment.Commitment{File: "a"}, ""},
		"json":             {commitment.Commitment{JSON: "a", Equals: value("1")}, ""},
		"nothing":          {commitment.Commitment{}, "exactly one"},
		"two":              {commitment.Commitment{File: "a", JSON: "b"}, "exactly one"},
		"no command":       {commitment.Commitment{Run: []string{""}}, "name of a command"},
		"exit of a file":   {commitment.Commitment{File: "a", Exit: 1}, "belong to run"},
		"equals of a file": {commitment.Commitment{File: "a", Equals: value("1")}, "belongs to json"},
		"bad exit":         {commitment.Commitment{Run: []string{"a"}, Exit: 256}, "0 to 255"},
		"bad value":        {commitment.Commitment{JSON: "a", Equals: value("{")}, "not valid JSON"},
		"bad pointer":      {commitment.Commitment{JSON: "a", Equals: map[string]json.RawMessage{"a": json.RawMessage("1")}}, "JSON pointer"},
		"NUL":              {commitment.Commitment{File: "a\x00"}, "NUL"},
		"too long":         {commitment.Commitment{File: strings.Repeat("a", 1<<20)}, "maximum"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := commitment.Check(fault.PlanInvalid, "commitments", []commitment.Commitment{tt.c})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, fault.PlanInvalid)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if err := commitment.Check(fault.PlanInvalid, "commitments", make([]commitment.Commitment, commitment.Max+1)); err == nil {
		t.Error("too many were accepted")
	}
}

func TestJudge(t *testing.T) {
	run := commitment.Commitment{Run: []string{"make"}}
	run2 := commitment.Commitment{Run: []string{"make"}, Exit: 2}
	file := commitment.Commitment{File: "a"}
	doc := func(equals string) commitment.Commitment {
		c := commitment.Commitment{JSON: "a"}
		if err := json.Unmarshal([]byte(equals), &c.Equals); err != nil {
			t.Fatal(err)
		}
		return c
	}
	failed, denied := fault.New(fault.ToolFailed, "x"), fault.New(fault.Denied, "x")
	exit := func(n int) map[string]any { return map[string]any{"exit_code": n} }
	text := func(s string) map[string]any { return map[string]any{"content": s} }
	tests := map[string]struct {
		c      commitment.Commitment
		output map[string]any
		err    error
		want   fault.Code // 0: met
	}{
		"exit 0":                 {run, exit(0), nil, 0},
		"exit 1":                 {run, exit(1), failed, fault.CommitmentUnmet},
		"exit 2 as expected":     {run2, exit(2), failed, 0},
		"exit 2 in a replay":     {run2, map[string]any{"exit_code": json.Number("2")}, nil, 0},
		"exit 0 instead of 2":    {run2, exit(0), nil, fault.CommitmentUnmet},
		"killed":                 {run2, map[string]any{"exit_code": 2, "signal": "killed"}, failed, fault.ToolFailed},
		"a denied command":       {run, nil, denied, fault.Denied},
		"a command not started":  {run, nil, failed, fault.ToolFailed},
		"file":                   {file, map[string]any{"path": "a"}, nil, 0},
		"no file":                {file, nil, fault.New(fault.NotFound, "x"), fault.CommitmentUnmet},
		"denied file":            {file, nil, denied, fault.Denied},
		"JSON":                   {doc(`{}`), text(`[1]`), nil, 0},
		"no JSON":                {doc(`{}`), text(`{`), nil, fault.CommitmentUnmet},
		"cut JSON":               {doc(`{}`), map[string]any{"content": "1", "truncated": true}, nil, fault.CommitmentUnmet},
		"values":                 {doc(`{"/a/1": {"b": 1.0}, "/x~1y~0z": null, "": {"a": [0, {"b": 1}], "x/y~z": null}}`), text(`{"x/y~z": null, "a": [0, {"b": 1}]}`), nil, 0},
		"another value":          {doc(`{"/a": 1}`), text(`{"a": 2}`), nil, fault.CommitmentUnmet},
		"a number as text":       {doc(`{"/a": 1}`), text(`{"a": "1"}`), nil, fault.CommitmentUnmet},
		"a missing value":        {doc(`{"/a": null}`), text(`{}`), nil, fault.CommitmentUnmet},
		"beyond the list":        {doc(`{"/2": 1}`), text(`[1, 1]`), nil, fault.CommitmentUnmet},
		"an index in other form": {doc(`{"/01": 1}`), text(`[1, 1]`), nil, fault.CommitmentUnmet},
		"recorded as unmet":      {file, nil, fault.New(fault.CommitmentUnmet, "x"), fault.CommitmentUnmet},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.c.Judge(tt.output, tt.err)
			if got := fault.CodeOf(err); err != nil && got != tt.want || err == nil && tt.want != 0 {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestCall(t *testing.T) {
	tests := []struct {
		c    commitment.Commitment
		tool tool.ID
		args tool.Args
	}{
		{commitment.Commitment{Run: []string{"make", "test"}, Cwd: "src"}, "shell.run", tool.Args{"argv": []any{"make", "test"}, "cwd": "src"}},
		{commitment.Commitment{File: "a"}, "fs.stat", tool.Args{"path": "a"}},
		{commitment.Commitment{JSON: "a"}, "fs.read", tool.Args{"path": "a"}},
	}
	for _, tt := range tests {
		if id, args := tt.c.Call(); id != tt.tool || !reflect.DeepEqual(args, tt.args) {
			t.Errorf("%v: got %s %v", &tt.c, id, args)
		}
	}
}
