package runner

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// What a call reserves of byte budgets where its policy sets no limit.
const (
	confinedBytes = 256 << 20 // of confined processes, in and out: network.total_bytes sets another
	responseBytes = 10 << 20  // of one response: network.max_bytes sets another
	headBytes     = 64 << 10  // around a request's own arguments
	perToken      = 32        // of a model's request, which arguments may only refer to and which may be sent again
)

// wantedAmounts is what the call tries to reserve. Where the policy sets no limit, the call is
// limited to what it reserved.
func (f *flight) wantedAmounts() grant.Amounts {
	w := grant.Amounts{Calls: 1, Time: min(f.timeout(), grant.MaxTime), Kinds: grant.KindsOf(f.actions)}
	if f.prepared.Spends != nil && f.run.Mode == ledger.Live {
		s := f.prepared.Spends()
		w.Tokens, w.TokensIn, w.TokensOut, w.Money = s.Tokens(), s.In, s.Out, s.Money
	} else if slices.ContainsFunc(f.actions, func(a tool.Action) bool { return a.Kind == tool.Model }) {
		w.Tokens, w.TokensIn, w.TokensOut, w.Money = grant.MaxCount, grant.MaxCount, grant.MaxCount, grant.MaxCount // the amount is unknown, so no other call spends at the same time
	}
	e, l := f.entry.Spec.Effects, f.limits
	switch {
	case !f.run.connects:
	case e.Has(tool.SystemExec) || e.Has(tool.NetworkSocket):
		w.BytesIn = cmp.Or(l.TotalBytes, confinedBytes)
		w.BytesOut = w.BytesIn
	case e.Has(tool.NetworkHTTP):
		w.BytesIn = cmp.Or(l.ResponseBytes, responseBytes) + headBytes
		w.BytesOut = int64(len(f.args)) + headBytes + perToken*min(w.Tokens, grant.MaxCount/perToken)
	}
	return w
}

// reserve reserves the possible use of the call: of its source's rate, of the run's limits, and of
// the grant's budgets.
func (f *flight) reserve(ctx context.Context) error {
	return f.gate(ctx, BudgetGate, func(ctx context.Context) error {
		want := f.wantedAmounts()
		source, err := f.r.Sources.reserve(ctx, f.user(), f.r.Record)
		if err != nil {
			return err
		}
		if source != nil {
			f.reserved = append(f.reserved, source)
		}
		limits, err := f.run.limiter.reserve(f.c, want)
		if err != nil {
			return err
		}
		f.reserved = append(f.reserved, limits)
		if f.budget, err = f.r.authority(f.run.Grant).Reserve(ctx, f.run, f.c.Tool, want); err != nil || f.budget == nil {
			return err
		}
		f.reserved = append(f.reserved, f.budget)
		return nil
	})
}

func (f *flight) tier() Tier { return TierOf(f.entry.Spec.Source) }

// enterSource waits for a free slot of the tool's provider.
func (f *flight) enterSource(ctx context.Context) error {
	return f.gate(ctx, SlotGate, func(ctx context.Context) error {
		leave, err := f.r.Sources.enter(ctx, f.user(), f.r.Record)
		if err != nil {
			return ended(ctx, err)
		}
		f.leaveSource = leave
		return nil
	})
}

// user is for whom the call occupies its tool's provider: the holder of the root that the
// run's grant derives from, and the root itself where it was issued.
func (f *flight) user() user {
	u := user{provider: providerOf(f.tier(), f.c.Tool)}
	if nodes := f.run.Grant.Nodes(); len(nodes) > 0 {
		if u.holder = nodes[0].Holder; nodes[0].Kept {
			u.holder += " " + nodes[0].ID.String()
		}
	}
	return u
}

// givenAmounts returns the amounts that the call may use: the least of its reservations. Zero fields are
// not limited.
func (f *flight) givenAmounts() grant.Amounts {
	var all grant.Amounts
	lower := func(into *int64, v int64) {
		if v > 0 && (*into == 0 || v < *into) {
			*into = v
		}
	}
	for _, r := range f.reserved {
		g := r.Given()
		lower(&all.BytesIn, g.BytesIn)
		lower(&all.BytesOut, g.BytesOut)
		lower(&all.Tokens, g.Tokens)
		lower(&all.TokensIn, g.TokensIn)
		lower(&all.TokensOut, g.TokensOut)
		lower(&all.Money, g.Money)
	}
	return all
}

// used is what the call used: nothing if it did not run.
func (f *flight) used() grant.Amounts {
	if f.handedOver {
		return grant.Amounts{Calls: 1, Kinds: grant.KindsOf(f.actions)} // what else the client uses cannot be measured
	}
	if f.waits {
		return grant.Amounts{Calls: 1} // so that limits bound how many calls wait
	}
	if !f.permit.Minted() {
		return grant.Amounts{}
	}
	u := grant.Amounts{Calls: 1, Kinds: grant.KindsOf(f.actions)}
	u.BytesIn, u.BytesOut = f.permit.Traffic()
	s := f.permit.Spent()
	u.Tokens, u.TokensIn, u.TokensOut, u.Money = s.Tokens(), s.In, s.Out, s.Money
	if began, ended := f.marks[1], f.marks[2]; began >= 0 && ended > began {
		u.Time = time.Duration(ended-began) * time.Microsecond
	}
	return u
}

// settle charges the used amounts and releases the rest.
func (f *flight) settle(used grant.Amounts) {
	if f.leaveSource != nil {
		f.leaveSource()
	}
	for _, r := range f.reserved {
		r.Settle(used)
	}
	f.leaveSource, f.reserved = nil, nil
}

// watchTime ends the call when a time budget is used up.
func (f *flight) watchTime(ctx context.Context) (context.Context, context.CancelFunc) {
	var over []<-chan struct{}
	for _, r := range f.reserved {
		if ch := r.Over(); ch != nil {
			over = append(over, ch)
		}
	}
	if len(over) == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var second <-chan struct{} // there are two reservations at most
		if len(over) > 1 {
			second = over[1]
		}
		select {
		case <-over[0]:
		case <-second:
		case <-ctx.Done():
			return
		}
		cancel(fault.Wrap(fault.BudgetSpent, fault.ToolTimeout, "the grant's time budget is used up"))
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
