package egress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/internal/base/pause"
)

// meter holds what all connections of a sandbox share: numbers of bytes, of both
// ways together and of each, and a number of bytes a second.
type meter struct {
	total, in, out allowance

	rate int64 // bytes a second; 0: any
	mu   sync.Mutex
	free time.Time // when the bytes so far are within the rate
}

// newMeter makes a meter; a zero does not limit.
func newMeter(total, in, out, rate int64) *meter {
	m := &meter{rate: rate}
	m.total.set(total)
	m.in.set(in)
	m.out.set(out)
	return m
}

// counts reports whether bytes must be seen before they are passed on.
func (m *meter) counts() bool {
	return m.total.limited || m.in.limited || m.out.limited || m.rate > 0
}

// allowance is how many bytes may still pass.
type allowance struct {
	limited bool
	left    atomic.Int64
}

func (a *allowance) set(n int64) {
	a.limited = n > 0
	a.left.Store(n)
}

// spend takes n bytes, all or none.
func (a *allowance) spend(n int64) bool {
	if !a.limited {
		return true
	}
	for {
		left := a.left.Load()
		if left < n {
			return false
		}
		if a.left.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

// burst is how much time's worth of bytes may pass at once after a silence.
const burst = 100 * time.Millisecond

// pace waits until n more bytes fit the rate.
func (m *meter) pace(ctx context.Context, n int) error {
	if m.rate <= 0 {
		return nil
	}
	cost := time.Duration(float64(n) / float64(m.rate) * float64(time.Second))
	now := time.Now()
	m.mu.Lock()
	if earliest := now.Add(-burst); m.free.Before(earliest) {
		m.free = earliest
	}
	m.free = m.free.Add(cost)
	wait := m.free.Sub(now)
	m.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return pause.For(ctx, wait)
}

// step is how many bytes are passed at once at most, so that a slow rate is even.
func (m *meter) step() int {
	const most, least = 64 << 10, 256
	if m.rate <= 0 {
		return most
	}
	return int(min(most, max(least, m.rate/10)))
}

// flow counts one connection's bytes and holds them to the limits.
type flow struct {
	meter   *meter
	in, out atomic.Int64
	most    int64 // of got; 0: any
	got     int64 // of a body or through a tunnel, to the sandbox; one goroutine's
}

func newFlow(m *meter, most int64) *flow { return &flow{meter: m, most: most} }

// receive is called before n bytes of a body or tunnel go to the sandbox.
func (f *flow) receive(ctx context.Context, n int) error {
	if f.got += int64(n); f.most > 0 && f.got > f.most {
		return deny(ruleResponse, "more came in than network.max_bytes allows")
	}
	if !f.meter.in.spend(int64(n)) {
		return deny(ruleBudget, "the call may receive no more: its budgets have no bytes left")
	}
	return f.pass(ctx, &f.in, n)
}

// send is called before n bytes leave the sandbox.
func (f *flow) send(ctx context.Context, n int) error {
	if !f.meter.out.spend(int64(n)) {
		return deny(ruleBudget, "the call may send no more: its budgets have no bytes left")
	}
	return f.pass(ctx, &f.out, n)
}

func (f *flow) pass(ctx context.Context, counter *atomic.Int64, n int) error {
	if !f.meter.total.spend(int64(n)) {
		return deny(ruleTotal, "the call has used up its network.total_bytes")
	}
	counter.Add(int64(n))
	return f.meter.pace(ctx, n)
}
