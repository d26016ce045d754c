package callers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
)

// answers are what the checks of a caller give, one after the other; the last one stays.
type answers struct {
	errs []error
	n    int
}

func (a *answers) Check(context.Context, *callers.Caller) (*callers.Caller, error) {
	err := a.errs[min(a.n, len(a.errs)-1)]
	a.n++
	return nil, err
}

// TestAFailedReadEndsNoStream: a ledger that cannot be read refuses nobody, and a revocation counts
// once it can be read.
func TestAFailedReadEndsNoStream(t *testing.T) {
	away, revoked := fault.New(fault.StoreFailed, "away"), fault.New(fault.GrantRevoked, "revoked")
	by := &answers{errs: []error{nil, away, away, away, nil, away, revoked}}
	watched, stop := callers.Watch(t.Context(), by, &callers.Caller{}, time.Millisecond)
	defer stop()
	<-watched.Done()
	if err := context.Cause(watched); !errors.Is(err, fault.GrantRevoked) || by.n != len(by.errs) {
		t.Errorf("the stream ended after %d checks with %v", by.n, err)
	}
}

// faulty fails a number of reads of grants.
type faulty struct {
	store.Backend
	left int
}

func (f *faulty) Grant(ctx context.Context, id string) (store.GrantRecord, error) {
	if f.left--; f.left >= 0 {
		return store.GrantRecord{}, fault.New(fault.StoreFailed, "away")
	}
	return f.Backend.Grant(ctx, id)
}

// TestAFailedReadRefusesNobody: a request waits for the ledger, and nothing is recorded against it.
func TestAFailedReadRefusesNobody(t *testing.T) {
	s := newService(t)
	tok := s.issue("api: {allow: ['*']}\n")
	var f *faulty
	s.gate.Over(func(st store.Backend) store.Backend { f = &faulty{Backend: st, left: 3}; return f })
	if _, code := s.enter(tok.Text); code != 0 || f.left >= 0 {
		t.Errorf("the caller is refused with %v", code)
	}
	if n := s.violations(); n != 0 {
		t.Errorf("%d violations are recorded", n)
	}
}
