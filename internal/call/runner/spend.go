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

// What a call sets aside of budgets of bytes where its policy says nothing.
const (
	confinedBytes = 256 << 20 // of confined processes, in and out: network.total_bytes sets another
	responseBytes = 10 << 20  // of one response: network.max_bytes sets another
	headBytes     = 64 << 10  // around a request's own arguments
	perToken      = 32        // of a model's request, which arguments may only refer to and which may be sent again
)

// wants is what the call may use up. What is not bounded by the policy is
// bounded by what the call is given of it.
func (f *flight) wants() grant.Amounts {
	w := grant.Amounts{Calls: 1, Time: min(f.timeout(), grant.MaxTime)}
	if f.prepared.Spends != nil && f.run.Mode == ledger.Live {
		w.Tokens, w.Money = f.prepared.Spends()
	} else if slices.ContainsFunc(f.actions, func(a tool.Action) bool { return a.Kind == tool.Model }) {
		w.Tokens, w.Money = grant.MaxCount, grant.MaxCount // nobody knows how much, so nothing runs beside it that spends
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

// reserve takes from the run's limits and from the grant's budgets what the call
// may use.
func (f *flight) reserve(ctx context.Context) error {
	return f.gate(ctx, BudgetGate, func(ctx context.Context) error {
		want := f.wants()
		turn, err := f.r.Sources.take(f.tier())
		if err != nil {
			return err
		}
		if turn != nil {
			f.taken = append(f.taken, turn)
		}
		own, err := f.run.limiter.Take(f.c, f.entry.Spec, want)
		if err != nil {
			return err
		}
		f.taken = append(f.taken, own)
		if !f.run.Grant.Kept() {
			return nil
		}
		if f.kept, err = f.r.Authority.Reserve(ctx, f.run, f.c.Tool, want); err != nil {
			return err
		}
		f.taken = append(f.taken, f.kept)
		return nil
	})
}

func (f *flight) tier() Tier { return TierOf(f.entry.Spec.Source) }

// admit waits until its source may be called. Nothing waits in a replay.
func (f *flight) admit(ctx context.Context) error {
	if f.run.Recall != nil {
		return nil
	}
	leave, err := f.r.Sources.enter(ctx, f.tier())
	if err != nil {
		return ended(ctx, err)
	}
	f.leave = leave
	return nil
}

// given is what the call may use: what every reservation allows. Zero fields are
// not limited.
func (f *flight) given() grant.Amounts {
	var all grant.Amounts
	lower := func(into *int64, v int64) {
		if v > 0 && (*into == 0 || v < *into) {
			*into = v
		}
	}
	for _, r := range f.taken {
		g := r.Given()
		lower(&all.BytesIn, g.BytesIn)
		lower(&all.BytesOut, g.BytesOut)
		lower(&all.Tokens, g.Tokens)
		lower(&all.Money, g.Money)
	}
	return all
}

// used is what the call really used: nothing if it was refused before it began.
func (f *flight) used() grant.Amounts {
	if !f.permit.Minted() {
		return grant.Amounts{}
	}
	u := grant.Amounts{Calls: 1}
	u.BytesIn, u.BytesOut = f.permit.Traffic()
	u.Tokens, u.Money = f.permit.Spent()
	if began, ended := f.marks[1], f.marks[2]; began >= 0 && ended > began {
		u.Time = time.Duration(ended-began) * time.Microsecond
	}
	return u
}

// settle accounts for what was used and gives back the rest.
func (f *flight) settle(used grant.Amounts) {
	if f.leave != nil {
		f.leave()
	}
	for _, r := range f.taken {
		r.Settle(used)
	}
	f.leave, f.taken = nil, nil
}

// watchTime ends the call once a budget of time is used up.
func (f *flight) watchTime(ctx context.Context) (context.Context, context.CancelFunc) {
	var over []<-chan struct{}
	for _, r := range f.taken {
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
