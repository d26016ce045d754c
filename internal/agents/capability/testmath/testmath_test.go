package testmath_test

import (
	"encoding/json"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/testmath"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

func numbers(a, b string) tool.Args { return tool.Args{"a": json.Number(a), "b": json.Number(b)} }

func TestConformance(t *testing.T) {
	two := []tool.Args{numbers("6", "4")}
	capabilitytest.Capability(t, testmath.New(), capabilitytest.Case{World: permittest.World{Policy: policy},
		Calls: map[string][]tool.Args{"add": two, "subtract": two, "multiply": two, "divide": two}})
}

func TestOperations(t *testing.T) {
	part, err := testmath.New().Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "You have access to math tools. Use them for calculations: add, subtract, multiply, divide."; part.Prompt != want {
		t.Errorf("the prompt is %q", part.Prompt)
	}
	tests := map[string]struct {
		tool, a, b string
		want       float64
		code       fault.Code
	}{
		"add":                       {"add", "2", "3", 5, 0},
		"add of fractions":          {"add", "0.5", "-2.25", -1.75, 0},
		"subtract":                  {"subtract", "2", "3", -1, 0},
		"multiply":                  {"multiply", "1e3", "3", 3000, 0},
		"divide":                    {"divide", "7", "2", 3.5, 0},
		"division by zero fails":    {"divide", "7", "0", 0, fault.ToolFailed},
		"and by minus zero":         {"divide", "7", "-0.0", 0, fault.ToolFailed},
		"too large a result":        {"multiply", "1e300", "1e300", 0, fault.ToolFailed},
		"a number beyond the range": {"add", "1e999", "1", 0, fault.ArgsInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, o := range part.Tools {
				if o.Name != tt.tool {
					continue
				}
				res, err := permittest.Run(t.Context(), o.Tool, permittest.PermitFor(t, t.TempDir(), policy), numbers(tt.a, tt.b))
				if tt.code != 0 {
					if fault.CodeOf(err) != tt.code {
						t.Fatalf("got %v, %v; want %v", res.Output, err, tt.code)
					}
					return
				}
				if err != nil || res.Output["result"] != tt.want {
					t.Fatalf("got %v, %v; want %v", res.Output, err, tt.want)
				}
			}
		})
	}
}
