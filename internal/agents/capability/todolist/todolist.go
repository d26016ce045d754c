// Package todolist has the capability stateless_todo_list. Each call has the whole list,
// which stays in the conversation and nowhere else. Start at [New].
package todolist

import (
	"context"
	_ "embed" // the prompt
	"encoding/json"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

//go:embed prompt.md
var prompt string

// Capability is the capability stateless_todo_list.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "stateless_todo_list", Name: "Task Management",
		Description: "Enables agents to create and manage structured task lists for tracking multi-step work progress. State is maintained in conversation history.",
		Status:      capability.Available, Icon: "list-checks", Category: "Productivity", Version: "1"}
}

const task = `{"type":"object","additionalProperties":false,"required":["content","activeForm","status"],"properties":{
	"content":{"type":"string","minLength":1,"maxLength":1000,"description":"What to do, in imperative form, as Run tests."},
	"activeForm":{"type":"string","minLength":1,"maxLength":1000,"description":"The same while it is done, as Running tests."},
	"status":{"enum":["pending","in_progress","completed"],"description":"How far it is."}}}`

var (
	input  = typed.Object(`"todos":{"type":"array","maxItems":200,"description":"The whole list, in order: it replaces the one before.","items":`+task+`}`, "todos")
	output = typed.Object(`"success":{"type":"boolean"},"total_tasks":{"type":"integer"},"pending":{"type":"integer"},"in_progress":{"type":"integer"},"completed":{"type":"integer"},
		"todos":{"type":"array","items":`+task+`},"warnings":{"type":"array","items":{"type":"string"}}`,
		"success", "total_tasks", "pending", "in_progress", "completed", "todos", "warnings")
)

type todo struct {
	Content    string `json:"content"`
	ActiveForm string `json:"activeForm"`
	Status     string `json:"status"`
}

type arguments struct {
	Todos []todo `json:"todos"`
}

// Part offers write_todos.
func (Capability) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return capability.Part{Prompt: prompt, Tools: []capability.Offer{capability.Own("write_todos", typed.Func(tool.Spec{
		ID: "stateless_todo_list.write_todos", Title: "Write the task list", Version: "1", Risk: tool.Low,
		Description: "Creates or replaces the task list of multi-step work. Every call holds the complete list, with each task's content (imperative), activeForm (present continuous) and status. " +
			"Exactly one task should be in_progress while work goes on. Gives the list back with counts and warnings.",
		Input: input, Output: output,
	}, write))}}, nil
}

func write(_ context.Context, _ permit.Permit, a arguments) (map[string]any, error) {
	count := map[string]int{}
	list := make([]any, len(a.Todos))
	for i, t := range a.Todos {
		for name, v := range map[string]string{"content": t.Content, "activeForm": t.ActiveForm} {
			if strings.TrimSpace(v) == "" {
				return nil, fault.New(fault.ArgsInvalid, "the text is empty").In(fmt.Sprintf("todos[%d].%s", i, name))
			}
		}
		count[t.Status]++
		list[i] = map[string]any{"content": t.Content, "activeForm": t.ActiveForm, "status": t.Status}
	}
	return map[string]any{
		"success": true, "total_tasks": len(list), "pending": count["pending"], "in_progress": count["in_progress"], "completed": count["completed"],
		"todos": list, "warnings": warnings(a.Todos, count),
	}, nil
}

// warnings lists the faults in a list.
func warnings(todos []todo, count map[string]int) []any {
	out := []any{}
	switch n := count["in_progress"]; {
	case n == 0 && count["pending"] > 0:
		out = append(out, "No task is in_progress although tasks are pending: mark the one that you work on as in_progress before you begin.")
	case n > 1:
		out = append(out, fmt.Sprintf("%d tasks are in_progress: only one should be at a time.", n))
	}
	seen := map[string]bool{}
	for _, t := range todos {
		if seen[t.Content] {
			out = append(out, fmt.Sprintf("The task %.100q is there more than once.", t.Content))
			break
		}
		seen[t.Content] = true
	}
	return out
}
