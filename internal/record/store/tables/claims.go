package tables

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	// selectLanes steps from one lane to the next in the index queue_lanes, and looks for the
	// first run of each priority.
	selectLanes = `WITH RECURSIVE l(lane) AS (SELECT min(lane) FROM queue WHERE state = 1
UNION ALL SELECT (SELECT min(q.lane) FROM queue q WHERE q.state = 1 AND q.lane > l.lane) FROM l WHERE l.lane IS NOT NULL)
SELECT lane, priority, due FROM (SELECT l.lane, p.priority, (SELECT min(q.due) FROM queue q WHERE q.state = 1 AND q.lane = l.lane AND q.priority = p.priority) AS due
FROM l, (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS p WHERE l.lane IS NOT NULL) AS t WHERE due IS NOT NULL`

	// claimable chooses the runs of ClaimQueued: of a lane ?1 and a priority ?2, due up to ?3, at
	// the time ?4, at most ?5. ?6 is ClaimFor.
	claimable = "SELECT id FROM queue WHERE state = 1 AND lane = ?1 AND priority = ?2 AND due <= ?3 AND due <= ?4 AND (claimed <= ?4 OR claimed > ?4 + 2 * ?6) ORDER BY due, seq LIMIT ?5"

	claim   = "UPDATE queue SET claimed = ?, tries = tries + 1 WHERE id = ?"
	filing  = "UPDATE queue SET lane = ?, claimed = 0, tries = CASE WHEN ? = 1 THEN tries ELSE 0 END WHERE id = ? AND state = 1"
	claimed = "SELECT id, tries FROM queue WHERE id IN ("
)

// Lanes implements store.Claims.
func (s *Store) Lanes(ctx context.Context) ([]store.Lane, error) {
	var out []store.Lane
	now := s.Now()
	err := each(ctx, s.read, selectLanes, func(rows *sql.Rows) error {
		var l store.Lane
		var due int64
		err := rows.Scan(&l.Name, &l.Priority, &due)
		if l.Due = ledger.Time(due); !l.Due.After(now) {
			out = append(out, l)
		}
		return err
	})
	slices.SortFunc(out, func(a, b store.Lane) int {
		return cmp.Or(a.Priority-b.Priority, a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name))
	})
	return out, s.fault(err, "the queue cannot be read")
}

// ClaimQueued implements store.Claims. It writes only if there is a run to claim.
func (s *Store) ClaimQueued(ctx context.Context, l store.Lane, upTo time.Time, n int) ([]store.ClaimedRun, error) {
	choose := func(ctx context.Context, q Querier) ([]any, error) {
		return s.idsOf(ctx, q, claimable, l.Name, l.Priority, upTo.UnixMicro(), s.now(), n, store.ClaimFor.Microseconds())
	}
	ids, err := choose(ctx, s.read)
	if err != nil || len(ids) == 0 {
		return nil, s.fault(err, "the queue cannot be read")
	}
	err = s.change(ctx, ledger.Entry{}, pass, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		if ids, err = choose(ctx, w.conn); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := w.exec(ctx, claim, s.now()+store.ClaimFor.Microseconds(), id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.ClaimedRuns(ctx, ids)
}

// pass is the check of a change that is always made.
func pass(context.Context, *writer, *request) error { return nil }

// idsOf returns the IDs that a statement selects.
func (s *Store) idsOf(ctx context.Context, q Querier, statement string, args ...any) (ids []any, err error) {
	err = each(ctx, q, statement, func(rows *sql.Rows) error {
		var id []byte
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, args...)
	return ids, err
}

// ClaimedRuns reads the queued runs with these IDs, in the order in which they start.
func (s *Store) ClaimedRuns(ctx context.Context, ids []any) ([]store.ClaimedRun, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	in := "?" + strings.Repeat(", ?", len(ids)-1) + ")"
	tries := map[uuid.UUID]int{}
	err := each(ctx, s.read, claimed+in, func(rows *sql.Rows) error {
		var id []byte
		var n int
		err := rows.Scan(&id, &n)
		tries[uuid.UUID(id)] = n
		return err
	}, ids...)
	if err != nil {
		return nil, s.fault(err, "the queue cannot be read")
	}
	runs, err := s.selectQueue(ctx, queueWaits+" AND q.id IN ("+in+queueOrder, ids...)
	out := make([]store.ClaimedRun, len(runs))
	for i := range runs {
		out[i] = store.ClaimedRun{QueuedRun: runs[i], Tries: tries[runs[i].ID]}
	}
	return out, err
}

// FileQueued implements store.Claims.
func (s *Store) FileQueued(ctx context.Context, lane string, failed bool, runs ...uuid.UUID) error {
	return s.change(ctx, ledger.Entry{}, pass, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		for _, id := range runs {
			if _, err := w.exec(ctx, filing, lane, flag(failed), id[:]); err != nil {
				return err
			}
		}
		return nil
	})
}
