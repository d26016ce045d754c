package history

import (
	"context"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// mostSettled is how many unknown calls are settled together.
const mostSettled = 10_000

// UnknownFilter chooses calls with an unknown outcome. Zero fields choose all.
type UnknownFilter struct {
	Run   string    // the beginning of its run's ID
	Node  string    // the beginning of the ID of the node that carried it out
	Tool  tool.ID   // of the call
	Since time.Time // when the outcome was found to be unknown
}

// chooses reports whether the filter includes a call.
func (f *UnknownFilter) chooses(u *Unknown) bool {
	return strings.HasPrefix(u.Run.String(), f.Run) && strings.HasPrefix(u.Node.String(), f.Node) && (f.Tool == "" || f.Tool == u.Tool) && !u.At.Before(f.Since)
}

// UnknownOf lists the unsettled calls that a filter chooses, newest first.
func (h *History) UnknownOf(ctx context.Context, f UnknownFilter) ([]Unknown, error) {
	all, err := h.Unknown(ctx, mostSettled)
	out := []Unknown{}
	for i := range all {
		if f.chooses(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out, err
}

// SettleAll settles the calls of a list, each with an event of its own, for one reason. It
// returns those that it settled. One that was settled meanwhile is left out.
func (h *History) SettleAll(ctx context.Context, list []Unknown, happened bool, reason string) ([]Unknown, error) {
	out := []Unknown{}
	st, err := h.Home.Ledger(ctx)
	if err != nil {
		return out, err
	}
	if strings.TrimSpace(reason) == "" {
		return out, fault.New(fault.Usage, "the reason is missing").In("reason").WithHint("say how you know it")
	}
	settled, err := h.settled(ctx, st)
	if err != nil {
		return out, err
	}
	for _, u := range list {
		if settled[settledTarget(u.Run, u.Call)] {
			continue
		}
		if err := settle(ctx, st, u, happened, reason); err != nil {
			return out, err
		}
		out = append(out, u)
	}
	return out, nil
}
