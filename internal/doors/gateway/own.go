package gateway

import (
	"context"
	"strings"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
)

// UnderOwnGrant makes ask answer as the person that the run's grant was issued to. A run under any
// other grant belongs to a delegate, which is not asked.
func UnderOwnGrant(ask Asker) Asker {
	return func(ctx context.Context, c approval.Case) (store.Vote, error) {
		var kept []grant.Node
		for _, n := range c.Asked.Run.Grant.Nodes() {
			if n.Kept {
				kept = append(kept, n)
			}
		}
		if len(kept) != 1 || !strings.HasPrefix(kept[0].Holder, "user:") {
			return store.Vote{}, approval.ErrNotHere
		}
		v, err := ask(ctx, c)
		v.By, v.Grant = kept[0].Holder, kept[0].ID
		return v, err
	}
}
