package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
)

func (r *Recording) flow(ctx context.Context, c ledger.Call) (f ledger.CallFlow, err error) {
	return f, r.json(ctx, c.Parts, ledger.PartFlow, &f)
}

// CheckLabels joins the labels of the calls again, in their recorded order, and returns the
// first call whose context was recorded with others. The agents of one session share a
// context, so a session's can have more.
func (r *Recording) CheckLabels(ctx context.Context) (*Mismatch, error) {
	flows := map[int]ledger.CallFlow{}
	for _, i := range r.order {
		f, err := r.flow(ctx, r.calls[i])
		if err != nil {
			return nil, err
		}
		if f.Read > 0 {
			flows[i] = f
		}
	}
	for _, i := range r.order {
		f, ok := flows[i]
		if !ok {
			continue
		}
		is := slices.Clone(r.Run.Labels)
		for k, other := range flows {
			if k != i && other.Added > 0 && other.Added < f.Read {
				is = append(is, r.calls[k].Labels...)
			}
		}
		slices.Sort(is)
		is = slices.Compact(is)
		missing := slices.ContainsFunc(is, func(l string) bool { return !slices.Contains(f.Context, l) })
		if missing || r.Run.Session == uuid.Nil && len(is) != len(f.Context) {
			return &Mismatch{Index: i, What: "labels of the context", Was: fmt.Sprintf("%q", f.Context), Is: fmt.Sprintf("%q", is)}, nil
		}
	}
	return nil, nil
}
