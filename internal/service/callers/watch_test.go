package callers_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/dpop"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/grants"
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

// faulty fails a number of reads of grants, and of uses of proofs.
type faulty struct {
	store.Backend
	left    int
	proofs  int  // uses of proofs that fail
	commits bool // a use that fails is recorded all the same
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

// UseProof fails a number of times, before the use is recorded or after it.
func (f *faulty) UseProof(ctx context.Context, id [32]byte, until time.Time) (bool, error) {
	if f.proofs--; f.proofs < 0 {
		return f.Backend.UseProof(ctx, id, until)
	}
	if f.commits {
		if _, err := f.Backend.UseProof(ctx, id, until); err != nil {
			return false, err
		}
	}
	return false, fault.New(fault.StoreFailed, "away")
}

// TestAProofOutlivesAnOutage: a request with a proof waits for the ledger, and its proof counts once. If
// the use was recorded and its answer lost, it is not known whose use it was: the proof is refused.
func TestAProofOutlivesAnOutage(t *testing.T) {
	s := newService(t)
	file := filepath.Join(t.TempDir(), "key")
	public, err := grants.NewHolderKey(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\napi: {allow: ['*']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := s.app.Grants.Issue(t.Context(), grants.Terms{Parsed: []*policy.Policy{p}, Workspace: s.ws, Holder: "agent:x", HolderKey: public})
	if err != nil {
		t.Fatal(err)
	}
	var f *faulty
	s.gate.Over(func(st store.Backend) store.Backend { f = &faulty{Backend: st}; return f })
	s.gate.Proofs = anyRate{}
	for _, commits := range []bool{false, true} {
		f.proofs, f.commits = 2, commits
		text, err := grants.RequestProof(grants.Presented{Token: tok.Text, KeyFile: file}, "POST", "https://remit.example/v1/runs")
		if err != nil {
			t.Fatal(err)
		}
		c := callers.Credential{Token: tok.Text, Possession: true, Proofs: []string{text}, Request: dpop.Request{Method: "POST", Path: "/v1/runs", Origins: []string{"https://remit.example"}}}
		if _, err := s.gate.Enter(t.Context(), c); commits != errors.Is(err, fault.GrantReplayed) || !commits && err != nil || f.proofs > 0 {
			t.Errorf("commits %v: %v", commits, err)
		}
		if _, err := s.gate.Enter(t.Context(), c); !errors.Is(err, fault.GrantReplayed) {
			t.Errorf("commits %v: used again: %v", commits, err)
		}
	}
}

type anyRate struct{}

func (anyRate) Take(time.Time, ...string) bool { return true }
