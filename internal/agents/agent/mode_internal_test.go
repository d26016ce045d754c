package agent

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

func TestASubAgentMayNotDoMoreThanItsParent(t *testing.T) {
	frozen := json.RawMessage(`{}`)
	for name, c := range map[string]struct {
		parent modeDoc
		want   bool
	}{
		"execution":      {modeDoc{}, false},
		"planning":       {modeDoc{Planning: true}, true},
		"a frozen plan":  {modeDoc{Frozen: frozen}, true},
		"one that began": {modeDoc{Frozen: frozen, Used: true}, true},
	} {
		if got := c.parent.ofChild(); got.Planning != c.want || got.Frozen != nil || got.Used {
			t.Errorf("%s: the child's mode is %+v", name, got)
		}
	}
}

func TestAFrozenPlanHasOneRunOfASession(t *testing.T) {
	d := modeDoc{Frozen: json.RawMessage(`{"version":1}`), Used: true}
	if _, err := d.begin(); !errors.Is(err, fault.NotInPlan) {
		t.Errorf("a second run: %v", err)
	}
	d = modeDoc{Frozen: json.RawMessage(`{"version":1}`)}
	if _, err := d.begin(); err == nil {
		t.Error("a document that is no frozen plan binds to nothing, and a run began")
	}
	d = modeDoc{Planning: true}
	for range 2 {
		if m, err := d.begin(); err != nil || !m.Planning || d.Used {
			t.Errorf("planning: %+v, %v", m, err)
		}
	}
}
