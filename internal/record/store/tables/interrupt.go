package tables

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
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

// deaths counts dead owners, each once.
type deaths struct {
	mu    sync.Mutex
	found map[uuid.UUID]bool // their recovery has not succeeded yet
	count uint64
}

// CountDeaths notes dead owners. They count as soon as a recovery has succeeded.
func (s *Store) CountDeaths(owners iter.Seq[uuid.UUID], recovered bool) {
	d := &s.deaths
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == nil {
		d.found = map[uuid.UUID]bool{}
	}
	for owner := range owners {
		d.found[owner] = true
	}
	if recovered {
		d.count += uint64(len(d.found))
		clear(d.found)
	}
}

// Deaths implements store.Store.
func (s *Store) Deaths() uint64 {
	s.deaths.mu.Lock()
	defer s.deaths.mu.Unlock()
	return s.deaths.count
}

// endless are the runs of this process whose end could not be recorded: the store failed, or had
// failed before, so that the outcome of a call is missing. The process does not work on them any
// more. As it lives, no other one closes them.
type endless struct {
	mu   sync.Mutex
	runs map[ledger.Seq]bool
}

// note notes the runs that entries were to end.
func (e *endless) note(entries []ledger.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range entries {
		if ev := &entries[i].Event; ev.Kind == ledger.RunFinished {
			if e.runs == nil {
				e.runs = map[ledger.Seq]bool{}
			}
			e.runs[ev.Run] = true
		}
	}
}

func (e *endless) list() []ledger.Seq {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.runs))
}

func (e *endless) forget(run ledger.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, run)
}

// InterruptEndless closes, as interrupted, the runs of this process whose end it could not record.
// It returns how many it closed.
func (s *Store) InterruptEndless(ctx context.Context) (closed int, err error) {
	for _, run := range s.endless.list() {
		did, err := s.interrupt(ctx, run)
		if err != nil {
			return closed, err
		}
		s.endless.forget(run)
		if did {
			closed++
		}
	}
	return closed, nil
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
	if _, err = s.Append(ctx, entries...); err == nil {
		return true, s.closeOrphans(ctx, run)
	}
	if !errors.Is(err, fault.Internal) {
		return false, err
	}
	if again, rerr := readProgress(ctx, s.read, run); rerr == nil && again.Status != tool.Pending {
		return false, nil
	}
	return false, err
}

// closeOrphans closes the questions of an interrupted run that nobody continues. A session's turn
// is continued, so its questions wait on.
func (s *Store) closeOrphans(ctx context.Context, run ledger.Seq) error {
	for ev, err := range s.Events(ctx, run) {
		if err != nil {
			return err
		}
		if len(ev.Event.Subject) > 0 {
			return nil
		}
		break
	}
	list, err := s.Questions(ctx, store.QuestionFilter{State: store.Waiting, Run: run, Limit: page})
	for _, q := range list {
		if err == nil {
			err = s.CloseQuestion(ctx, q.ID, store.Closing{By: "remit", Why: "the process that asked ended while the call waited, so the call was not made", Code: fault.Interrupted, At: time.Now()})
		}
	}
	return err
}
