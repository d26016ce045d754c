package runner_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
)

func TestARunIsBoundByNoMorePoliciesThanARecordCanName(t *testing.T) {
	h := newHouse(t, open, &probe{id: "p"})
	one := h.run.Grant.Chain()[0]
	for n, ok := range map[int]bool{255: true, 256: false} {
		g := grant.New(grant.Terms{ID: uuid.Must(uuid.NewV7()), Holder: "agent:x", Policies: slices.Repeat([]*policy.Rules{one}, n)})
		_, _, err := h.rn.Start(t.Context(), runner.Info{ID: uuid.Must(uuid.NewV7()), Grant: g})
		if (err == nil) != ok || !ok && !errors.Is(err, fault.GrantInvalid) {
			t.Errorf("%d policies: %v", n, err)
		}
	}
}
