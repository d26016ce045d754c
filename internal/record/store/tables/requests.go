package tables

import (
	"context"
	"database/sql"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// requestsLeft is how many expired or excess requests may be removed with each
// new one. It is more than one, so that their number falls.
const requestsLeft = 16

func (s *Store) requestRow(r store.RequestRecord) sealedRow {
	return sealedRow{requestHolder: r.Holder, requestKey: r.Key[:], requestPrint: r.Print[:], requestUntil: s.sharedTime(r.Until),
		requestStatus: int64(r.Status), requestPlace: r.Place}
}

func (s *Store) requestOf(row sealedRow) store.RequestRecord {
	r := store.RequestRecord{Holder: row.text(requestHolder), Until: s.ownTime(row.int(requestUntil)), Status: int(row.int(requestStatus)), Place: row.text(requestPlace)}
	copy(r.Key[:], row.bytes(requestKey))
	copy(r.Print[:], row.bytes(requestPrint))
	return r
}

// BeginRequest implements store.Requests.
func (s *Store) BeginRequest(ctx context.Context, r store.RequestRecord, most int) (store.RequestRecord, bool, error) {
	out, fresh := r, true
	var old []sealedRow
	now := s.now()
	err := s.change(ctx, ledger.Entry{}, func(ctx context.Context, w *writer, q *request) error {
		row, err := w.wholeRow(ctx, tableRequests, r.Holder, r.Key[:]) // a missing request could be made twice
		if err != nil {
			return err
		}
		if row != nil && row.int(requestUntil) > now {
			out, fresh, q.apply = s.requestOf(row), false, nil
			return nil
		}
		if old, err = w.requests(ctx, "until <= ? ORDER BY until LIMIT ?", now, requestsLeft); err != nil {
			return err
		}
		if l, err := w.sealOf(ctx, tableRequests); err != nil || l.count < int64(most) {
			return err // the total is below the limit of one holder
		}
		// The index alone finds the newest excess request.
		over, err := w.requests(ctx, "holder = ? AND until > ? AND until <= (SELECT until FROM requests WHERE holder = ? ORDER BY until DESC LIMIT 1 OFFSET ?) ORDER BY until LIMIT ?",
			r.Holder, now, r.Holder, max(most, 1)-1, requestsLeft)
		old = append(old, over...)
		return err
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		for _, row := range old {
			if err := w.remove(ctx, tableRequests, row[:tableRequests.keys]...); err != nil {
				return err
			}
		}
		return w.put(ctx, tableRequests, s.requestRow(r))
	})
	return out, fresh && err == nil, err
}

// requests returns the requests that match a condition.
func (w *writer) requests(ctx context.Context, where string, args ...any) ([]sealedRow, error) {
	var out []sealedRow
	err := each(ctx, w.conn, tableRequests.all+" WHERE "+where, func(rows *sql.Rows) error {
		row, _, err := w.s.scanSealed(tableRequests, rows.Scan)
		out = append(out, row)
		return err
	}, args...)
	return out, asIO(err)
}

// EndRequest implements store.Requests.
func (s *Store) EndRequest(ctx context.Context, r store.RequestRecord) error {
	return s.change(ctx, ledger.Entry{}, func(ctx context.Context, w *writer, q *request) error {
		row, err := w.row(ctx, tableRequests, r.Holder, r.Key[:])
		if err != nil || row == nil || s.requestOf(row).Print != r.Print {
			q.apply = nil
			return err
		}
		r.Until = s.requestOf(row).Until
		return nil
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		if r.Status == 0 {
			return w.remove(ctx, tableRequests, r.Holder, r.Key[:])
		}
		return w.put(ctx, tableRequests, s.requestRow(r))
	})
}
