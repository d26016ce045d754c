package todolist_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/todolist"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

func list(statuses ...string) tool.Args {
	var out []any
	for i, s := range statuses {
		n := string(rune('a' + i))
		out = append(out, map[string]any{"content": "Do " + n, "activeForm": "Doing " + n, "status": s})
	}
	return tool.Args{"todos": append([]any{}, out...)}
}

func TestConformance(t *testing.T) {
	capabilitytest.Capability(t, todolist.New(), capabilitytest.Case{World: permittest.World{Policy: policy},
		Calls: map[string][]tool.Args{"write_todos": {list(), list("completed", "in_progress", "pending")}}})
}

func TestWriteTodos(t *testing.T) {
	part, err := todolist.New().Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args    tool.Args
		counts  [3]int // pending, in progress, completed
		warning string // part of the only one; "": none
	}{
		"an empty list":                {list(), [3]int{}, ""},
		"one is in progress":           {list("completed", "in_progress", "pending", "pending"), [3]int{2, 1, 1}, ""},
		"all are done":                 {list("completed", "completed"), [3]int{0, 0, 2}, ""},
		"none in progress, some to do": {list("pending", "completed"), [3]int{1, 0, 1}, "No task is in_progress"},
		"several in progress":          {list("in_progress", "in_progress"), [3]int{0, 2, 0}, "2 tasks are in_progress"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := permittest.Run(t.Context(), part.Tools[0].Tool, permittest.PermitFor(t, t.TempDir(), policy), tt.args)
			if err != nil {
				t.Fatal(err)
			}
			o := res.Output
			if got := [3]any{o["pending"], o["in_progress"], o["completed"]}; got != [3]any{tt.counts[0], tt.counts[1], tt.counts[2]} || o["success"] != true {
				t.Errorf("got %v", o)
			}
			warnings, _ := o["warnings"].([]any)
			if tt.warning == "" && len(warnings) > 0 || tt.warning != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].(string), tt.warning)) {
				t.Errorf("the warnings are %q, want %q", warnings, tt.warning)
			}
			if todos, _ := o["todos"].([]any); len(todos) != len(tt.args["todos"].([]any)) {
				t.Errorf("the list came back as %v", todos)
			}
		})
	}
	blank := tool.Args{"todos": []any{map[string]any{"content": "x", "activeForm": " ", "status": "pending"}}}
	if _, err := permittest.Run(t.Context(), part.Tools[0].Tool, permittest.PermitFor(t, t.TempDir(), policy), blank); fault.CodeOf(err) != fault.ArgsInvalid {
		t.Errorf("a blank text: %v", err)
	}
}
