package tables

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// InterruptRuns closes, as interrupted, the open runs of owners that are dead, and frees
// the budgets that ended runs still lease. It returns how many runs it closed.
func (s *Store) InterruptRuns(ctx context.Context, dead func(owner uuid.UUID) (bool, error)) (closed int, err error) {
	for before := ledger.Seq(0); ; {
		runs, err := s.Runs(ctx, store.RunFilter{Status: ledger.Running, Before: before, Limit: page})
		if err != nil || len(runs) == 0 {
			return closed, errors.Join(err, s.reclaim(ctx))
		}
		for _, r := range runs {
			before = r.Seq
			if is, err := dead(r.Owner); err != nil || !is {
				if err != nil {
					return closed, err
				}
				continue
			}
			did, err := s.interrupt(ctx, r.Seq)
			if err != nil {
				return closed, err
			}
			if did {
				closed++
			}
		}
	}
}

// interrupt closes a run and its open calls. If another process was faster, the
// writer refuses the entries and nothing is changed.
func (s *Store) interrupt(ctx context.Context, run ledger.Seq) (bool, error) {
	p, err := readProgress(ctx, s.read, run)
	if err != nil {
		return false, s.fault(err, "an interrupted run cannot be read")
	}
	if p.Status != tool.Pending {
		return false, nil
	}
	now := time.Now().UnixMicro()
	var entries []ledger.Entry
	for _, call := range p.Open() {
		entries = append(entries, ledger.Entry{Event: ledger.Event{
			Kind: ledger.CallOutcome, At: now, Run: run, Call: call, Status: tool.StatusInterrupted, Code: fault.Interrupted,
		}})
	}
	entries = append(entries, ledger.Entry{Durable: true, Event: ledger.Event{
		Kind: ledger.RunFinished, At: now, Run: run, Status: tool.StatusInterrupted, Code: fault.Interrupted,
	}})
	_, err = s.Append(ctx, entries...)
	if err == nil || !errors.Is(err, fault.Internal) {
		return err == nil, err
	}
	if again, rerr := readProgress(ctx, s.read, run); rerr == nil && again.Status != tool.Pending {
		return false, nil
	}
	return false, err
}
