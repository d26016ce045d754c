package agents

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestSessionsShareTheirLabels(t *testing.T) {
	var c contexts
	a, b := uuid.New(), uuid.New()
	first := c.of(a)
	first.Add([]string{"private"})
	if got := c.of(a).Labels(); !slices.Equal(got, []string{"private"}) {
		t.Errorf("sub-agents have the labels %q", got)
	}
	if got := c.of(b).Labels(); len(got) != 0 {
		t.Errorf("other sessions have the labels %q", got)
	}
	first.Add(nil)
}
