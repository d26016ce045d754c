package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// rated is a record whose minute never ends.
type rated struct {
	taken, asked int
	broken       bool
}

func (*rated) Append(context.Context, ...ledger.Entry) (ledger.Seq, error) { return 0, nil }

func (r *rated) TakeCalls(_ context.Context, _ []byte, most, want int, _ int64, unused int) (got int, at int64, wait time.Duration, err error) {
	if r.broken {
		return 0, 0, 0, fault.New(fault.StoreFailed, "the server is down")
	}
	r.asked++
	r.taken -= unused
	got = min(want, most-r.taken)
	r.taken += got
	return got, int64(r.asked), 40 * time.Second, nil
}

// Two nodes begin as many calls as one may, ask the database once for ten, and give back what
// they did not use.
func TestNodesShareALimit(t *testing.T) {
	now := time.Unix(1000, 0)
	limits := map[Tier]TierLimits{LocalMCP: {PerMinute: 100}}
	a, b := NewSources(limits, func() time.Time { return now }), NewSources(limits, func() time.Time { return now })
	record := &rated{}
	begin := func(s *Sources) (Reservation, error) { return s.reserve(t.Context(), userOf("ann"), record) }
	for range 55 {
		if _, err := begin(a); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		if _, err := begin(b); err != nil {
			t.Fatal(err)
		}
	}
	if record.asked != 10 {
		t.Errorf("the database was asked %d times for 95 calls, want 10", record.asked)
	}
	if _, err := begin(b); !errors.Is(err, fault.LimitReached) { // a has the last five
		t.Errorf("beyond the limit: %v", err)
	}
	now = now.Add(partTime + 1) // a may no longer use them, and gives them back
	last, err := begin(a)
	if err != nil {
		t.Fatal(err)
	}
	last.Settle(grant.Amounts{}) // it did not run
	for range 5 {
		if last, err = begin(a); err != nil {
			t.Fatal(err)
		}
		last.Settle(grant.Amounts{Calls: 1})
	}
	if _, err := begin(a); !errors.Is(err, fault.LimitReached) {
		t.Errorf("beyond the limit: %v", err)
	}
	record.broken = true
	if _, err := begin(b); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("without the database: %v", err)
	}
}
