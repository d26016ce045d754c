// Package testmath has the capability test_math, for trying out tool calls.
// Start at [New].
package testmath

import (
	"context"
	"encoding/json"
	"math"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Capability is the capability test_math.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "test_math", Name: "Test Math", Description: "Calculator tools for testing tool calls: add, subtract, multiply, divide.",
		Status: capability.Available, Icon: "calculator", Category: "Testing", Version: "1"}
}

const prompt = "You have access to math tools. Use them for calculations: add, subtract, multiply, divide."

var (
	input = typed.Object(`"a":{"type":"number","description":"The first number."},"b":{"type":"number","description":"The second number."}`, "a", "b")

	output = typed.Object(`"result":{"type":"number"},"expression":{"type":"string"}`, "result", "expression")
)

type arguments struct {
	A json.Number `json:"a"`
	B json.Number `json:"b"`
}

var operations = []struct {
	name, title, description, sign string
	of                             func(a, b float64) float64
}{
	{"add", "Add", "Adds two numbers: a + b.", "+", func(a, b float64) float64 { return a + b }},
	{"subtract", "Subtract", "Subtracts the second number from the first: a - b.", "-", func(a, b float64) float64 { return a - b }},
	{"multiply", "Multiply", "Multiplies two numbers: a * b.", "*", func(a, b float64) float64 { return a * b }},
	{"divide", "Divide", "Divides the first number by the second: a / b. The second must not be 0.", "/", func(a, b float64) float64 { return a / b }},
}

// Part offers the four operations.
func (Capability) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	part := capability.Part{Prompt: prompt}
	for _, op := range operations {
		spec := tool.Spec{ID: tool.ID("test_math." + op.name), Title: op.title, Description: op.description, Version: "1", Risk: tool.Low, Input: input, Output: output}
		part.Tools = append(part.Tools, capability.Own(op.name, typed.Func(spec, func(_ context.Context, _ permit.Permit, x arguments) (map[string]any, error) {
			return calculate(x, op.sign, op.of)
		})))
	}
	return part, nil
}

func calculate(x arguments, sign string, of func(a, b float64) float64) (map[string]any, error) {
	a, errA := x.A.Float64()
	b, errB := x.B.Float64()
	switch {
	case errA != nil:
		return nil, fault.New(fault.ArgsInvalid, "%s is beyond the range of numbers", x.A).In("a")
	case errB != nil:
		return nil, fault.New(fault.ArgsInvalid, "%s is beyond the range of numbers", x.B).In("b")
	case sign == "/" && b == 0:
		return nil, fault.New(fault.ToolFailed, "division by zero: %s / %s has no result", x.A, x.B)
	}
	result := of(a, b)
	if math.IsInf(result, 0) || math.IsNaN(result) {
		return nil, fault.New(fault.ToolFailed, "%s %s %s is beyond the range of numbers", x.A, sign, x.B)
	}
	return map[string]any{"result": result, "expression": x.A.String() + " " + sign + " " + x.B.String()}, nil
}
