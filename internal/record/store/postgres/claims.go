package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
)

var (
	// claimQueued claims runs by the server's clock. A run that another node is claiming is
	// passed over, so that nodes do not wait for each other.
	claimQueued = "WITH t AS MATERIALIZED (SELECT " + serverNow + ` AS now)
UPDATE queue SET claimed = t.now + $5, tries = tries + 1 FROM t WHERE id IN (SELECT q.id FROM queue q, t WHERE q.state = 1 AND q.lane = $1 AND q.priority = $2
AND q.due <= $3 AND q.due <= t.now AND (q.claimed <= t.now OR q.claimed > t.now + 2 * $5) ORDER BY q.due, q.seq LIMIT $4 FOR UPDATE OF q SKIP LOCKED) RETURNING id`

	fileQueued = `UPDATE queue SET lane = $1, claimed = 0, tries = CASE WHEN $2 THEN tries ELSE 0 END
WHERE id IN (SELECT id FROM queue WHERE id = ANY($3) AND state = 1 ORDER BY id FOR UPDATE)`
)

// Lanes implements store.Claims.
func (s *Store) Lanes(ctx context.Context) ([]store.Lane, error) {
	if err := s.askClock(ctx, s.read); err != nil {
		return nil, s.fault(err, "the queue cannot be read")
	}
	return s.Store.Lanes(ctx)
}

// ClaimQueued implements store.Claims.
func (s *Store) ClaimQueued(ctx context.Context, l store.Lane, upTo time.Time, n int) ([]store.ClaimedRun, error) {
	var ids []any
	err := s.repeat(ctx, "the queue cannot be read", func(ctx context.Context) error {
		rows, err := s.durable.QueryContext(ctx, claimQueued, l.Name, l.Priority, upTo.UnixMicro(), n, store.ClaimFor.Microseconds())
		if err != nil {
			return err
		}
		defer rows.Close()
		for ids = nil; rows.Next(); {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return s.ClaimedRuns(ctx, ids)
}

// FileQueued implements store.Claims.
func (s *Store) FileQueued(ctx context.Context, lane string, failed bool, runs ...uuid.UUID) error {
	ids := make([][]byte, len(runs))
	for i := range runs {
		ids[i] = runs[i][:]
	}
	return s.repeat(ctx, "the queue cannot be read", func(ctx context.Context) error {
		_, err := s.durable.ExecContext(ctx, fileQueued, lane, failed, ids)
		return err
	})
}
