package agents_test

import (
	"strings"
	"testing"
)

func TestAParentIsToldOfItsSubAgentsViolations(t *testing.T) {
	p, s := family(t, agentsPolicy+"violations: {tool: notify}\n", parentScript, workerScript)
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "have it done", nil)
	if err != nil || turn.Reply != "the helper is done" {
		t.Fatalf("%q, %v", turn.Reply, err)
	}
	got := notices(turn.Messages)
	if len(got) != 1 || !strings.Contains(got[0], `"helper" called test_math.multiply (violations.tool: notify)`) {
		t.Errorf("notices: %q", got)
	}
	p.again()
	for _, one := range append(p.children(s), s) {
		if res, err := p.app.Replays.Session(t.Context(), one.ID.String(), nil); err != nil || res.Difference != nil || res.Mismatch() != nil {
			t.Errorf("replay of %s: %+v, %v, %v", one.Title, res.Difference, res.Mismatch(), err)
		}
	}
}
