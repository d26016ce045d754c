package wasm

import (
	"context"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

// What a module wrote and the end of its time kept from being stored is a failure,
// also of a module that ended by itself before.
func TestWhatIsNotStoredInTimeFailsTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	v := &view{ctx: ctx}
	c := &call{files: v, out: &output{}}
	cancel()
	for range 2 {
		w := &writer{v: v, dirty: true}
		if errno := w.Close(); errno == 0 {
			t.Error("it is said to be stored")
		}
	}
	if out, err := c.answer(ctx, nil); !errors.Is(err, fault.ToolCancelled) {
		t.Errorf("%v, %v", out, err)
	}
}
