package tables

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	maxLeftOut = 1000 // runs that a filter leaves out and that are compared with their events
	maxCounted = 5000 // calls of open runs that are counted anew
)

// CheckedRuns implements store.Store.
func (s *Store) CheckedRuns(ctx context.Context, f store.RunFilter) (runs []ledger.Run, checked bool, err error) {
	if f.Limit <= 0 {
		f.Limit = defaultRuns
	}
	if runs, err = s.Runs(ctx, f); err != nil {
		return nil, false, err
	}
	all, checked := runs, f.Tool == ""
	if f.LeavesOut() {
		if all, err = s.newestRuns(ctx, f, runs); err != nil {
			return nil, false, err
		}
		checked = checked && len(all) <= len(runs)+maxLeftOut
	}
	shown := map[ledger.Seq]bool{}
	for _, r := range runs {
		shown[r.Seq] = true
	}
	counted, err := s.countOpen(ctx, all)
	for i := range all {
		if r := &all[i]; err == nil && !shown[r.Seq] && !r.Unverified {
			r.Unverified, err = s.wronglyHelper(ctx, f, r)
		}
		if err != nil {
			return nil, false, s.fault(err, "runs cannot be read")
		}
	}
	all = slices.DeleteFunc(all, func(r ledger.Run) bool { return !shown[r.Seq] && !r.Unverified })
	return all[:min(len(all), f.Limit)], checked && counted, nil
}

// newestRuns returns the runs of a page, with those that the filter leaves out.
func (s *Store) newestRuns(ctx context.Context, f store.RunFilter, runs []ledger.Run) ([]ledger.Run, error) {
	where, args := "r.seq >= ?", []any{int64(0)}
	if len(runs) >= f.Limit {
		args[0] = int64(runs[len(runs)-1].Seq)
	}
	if f.Before != 0 {
		where, args = where+" AND r.seq < ?", append(args, int64(f.Before))
	}
	return s.selectRuns(ctx, s.runColumns()+" WHERE "+where+" ORDER BY r.seq DESC LIMIT ?", append(args, len(runs)+maxLeftOut+1)...)
}

// countOpen gives open runs the counts that their events tell. It reports false if they have too
// many calls.
func (s *Store) countOpen(ctx context.Context, runs []ledger.Run) (all bool, err error) {
	left := maxCounted
	for i := range runs {
		if err == nil && runs[i].Status == ledger.Running {
			left, err = s.countCalls(ctx, &runs[i], left)
		}
	}
	return left >= 0, err
}

// countCalls gives an open run the counts that its events tell. left is how many calls may be
// counted; it returns how many are left, below 0 if the run has more.
func (s *Store) countCalls(ctx context.Context, r *ledger.Run, left int) (int, error) {
	last, err := s.LastCall(ctx, r.Seq)
	if left -= last; err != nil || left < 0 {
		return left, err
	}
	return left, s.inSnapshot(ctx, func(conn *sql.Conn) error {
		p, err := readProgress(ctx, conn, r.Seq)
		if errors.Is(err, fault.StoreCorrupt) || errors.Is(err, sql.ErrNoRows) { // or its event begins no run
			r.Unverified = true
			return nil
		}
		var row ledger.Tally
		if err == nil {
			row.Total = p.Tally.Total
			err = conn.QueryRowContext(ctx, "SELECT completed, denied, failed, "+s.refused()+" FROM runs WHERE seq = ?", int64(r.Seq)).Scan(&row.Completed, &row.Denied, &row.Failed, &row.Refused)
		}
		if err == nil {
			p.Tell(r)
			r.Unverified = r.Unverified || p.Status == tool.Pending && row != p.Tally
		}
		return err
	})
}

// wronglyHelper reports whether a run is listed with a tool that f leaves out, and did not call it.
func (s *Store) wronglyHelper(ctx context.Context, f store.RunFilter, r *ledger.Run) (bool, error) {
	if len(f.Without) == 0 || r.Mode != ledger.Live || r.Total != 1 {
		return false, nil
	}
	args := []any{int64(r.Seq)}
	for _, id := range f.Without {
		args = append(args, string(id))
	}
	var listed int
	err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM run_tools WHERE run = ? AND tool IN (?"+strings.Repeat(", ?", len(f.Without)-1)+")", args...).Scan(&listed)
	if err != nil || listed == 0 {
		return false, err
	}
	c, err := s.Call(ctx, r.Seq, 1)
	if err != nil && !errors.Is(err, fault.RunUnknown) {
		return false, err
	}
	return !slices.Contains(f.Without, c.Tool), nil
}
