package fault_test

import (
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

func TestModelsAreNotToldWhatOnlyAnOperatorCanDo(t *testing.T) {
	e := fault.New(fault.ToolFailed, "it fails")
	tests := map[string]struct {
		err         error
		model, text string
	}{
		"a hint for everybody": {e.WithHint("write it otherwise"), "it fails (write it otherwise)", "it fails (write it otherwise)"},
		"a hint for operators": {e.ForOperator("remit mcp test x"), "it fails", "it fails (remit mcp test x)"},
		"the last hint counts": {e.ForOperator("remit x").WithHint("wait"), "it fails (wait)", "it fails (wait)"},
		"no coded error":       {errors.New("a secret"), "internal error", "internal error"},
	}
	for name, c := range tests {
		if got := fault.ForModel(c.err); got != c.model {
			t.Errorf("%s: a model is told %q; want %q", name, got, c.model)
		}
		if got := fault.Message(c.err); got != c.text {
			t.Errorf("%s: an operator is told %q; want %q", name, got, c.text)
		}
	}
}
