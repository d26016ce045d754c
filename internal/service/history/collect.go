package history

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/report"
)

// Collected is a plan of the calls of a run.
type Collected struct {
	Source []byte    // JSON; nil: the run has no call for a plan
	Steps  int       // of the plan
	Left   []tool.ID // tools whose calls are left out: a plan cannot call them
}

// collectedStep is a step of a collected plan.
type collectedStep struct {
	ID    string         `json:"id"`
	Tool  tool.ID        `json:"tool"`
	Args  map[string]any `json:"args"`
	Needs []string       `json:"needs,omitempty"`
}

// Collect makes a plan of the calls that were completed in a run, and of the calls that were
// refused because it only planned. Calls that were refused for another reason are no part of it,
// nor is a call that was asked for twice. The refused calls follow each other. known gives the
// tools that a plan can call. With masked, everything that looks like a secret is replaced.
func (h *History) Collect(ctx context.Context, id string, masked bool, known func(tool.ID) bool) (Collected, error) {
	steps, err := h.MaskedSteps(ctx, id, 1)
	if !masked && err == nil {
		_, steps, err = h.Steps(ctx, id)
	}
	var out Collected
	if err != nil {
		return out, err
	}
	var list []collectedStep
	seen, last := map[string]bool{}, ""
	for s, err := range steps {
		if err != nil {
			return out, err
		}
		planned := s.Error != nil && s.Error.Code == fault.PlanOnly.Error()
		id := tool.ID(s.Tool)
		if !planned && s.Status != tool.Completed.String() || s.Tool == "model.chat" || seen[s.Tool+"\x00"+string(s.Args.JSON)] {
			continue
		}
		if !known(id) {
			if !slices.Contains(out.Left, id) {
				out.Left = append(out.Left, id)
			}
			continue
		}
		seen[s.Tool+"\x00"+string(s.Args.JSON)] = true
		one, err := collect(s)
		if err != nil {
			return out, err
		}
		if planned {
			if last != "" {
				one.Needs = []string{last}
			}
			last = one.ID
		}
		list = append(list, one)
	}
	if out.Steps = len(list); len(list) == 0 {
		return out, nil
	}
	out.Source, err = json.Marshal(map[string]any{"version": 1, "name": "collected", "steps": list})
	return out, err
}

func collect(s report.Step) (collectedStep, error) {
	one := collectedStep{ID: "call-" + strconv.Itoa(s.Index), Tool: tool.ID(s.Tool)}
	v, err := canon.Decode(s.Args.JSON)
	args, ok := literal(v).(map[string]any)
	if err != nil || !ok {
		return one, fault.New(fault.PlanInvalid, "the arguments of call %d are too large for a plan, or were erased", s.Index)
	}
	one.Args = args
	return one, nil
}

// literal escapes what a plan would read as an expression.
func literal(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "${{", "$${{")
	case []any:
		for i := range v {
			v[i] = literal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = literal(v[k])
		}
	}
	return v
}
