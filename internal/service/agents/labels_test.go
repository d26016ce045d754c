package agents

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestSessionsShareTheirLabels(t *testing.T) {
	var c contexts
	a, b := uuid.New(), uuid.New()
	first, made := c.contextOf(a)
	first.Add([]string{"private"})
	again, remade := c.contextOf(a)
	if got := again.Labels(); !made || remade || !slices.Equal(got, []string{"private"}) {
		t.Errorf("sub-agents have the labels %q", got)
	}
	other, _ := c.contextOf(b)
	if got := other.Labels(); len(got) != 0 {
		t.Errorf("other sessions have the labels %q", got)
	}
	first.Add(nil)
}
