package tables

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// standings is the whole table standings, because a removed row would make a revoked grant
// valid again.
type standings struct {
	knownTable
	of map[uuid.UUID]knownStanding
}

type knownStanding struct {
	standing store.Standing
	since    int64
	seq      int64
}

func (t *standings) init() {
	t.table, t.column = tableStandings, standingSeq
	t.drop = func() { t.of = map[uuid.UUID]knownStanding{} }
	t.take = func(row sealedRow) {
		var id uuid.UUID
		copy(id[:], row.bytes(standingID))
		t.of[id] = knownStanding{standing: store.Standing(row.int(standingState)), since: row.int(standingSince), seq: row.int(standingSeq)}
	}
	t.drop()
}

// look calls f with the table's present content, and returns its version.
func (t *standings) look(ctx context.Context, s *Store, f func(of map[uuid.UUID]knownStanding)) (int64, error) {
	version, err := t.knownTable.look(ctx, s, func() { f(t.of) })
	return version, s.fault(err, "the standing of grants cannot be read")
}

// Standing implements store.Grants.
func (s *Store) Standing(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]store.Standing, int64, error) {
	if s.format < SealedFormat {
		return nil, 0, nil
	}
	var out map[uuid.UUID]store.Standing
	put := func(id uuid.UUID, to store.Standing) {
		if out == nil {
			out = map[uuid.UUID]store.Standing{}
		}
		out[id] = to
	}
	var old []uuid.UUID
	var mark knownStanding
	version, err := s.standings.look(ctx, s, func(of map[uuid.UUID]knownStanding) {
		mark = of[store.RestoreMark]
		for _, id := range ids {
			k, ok := of[id]
			switch {
			case ok && k.standing != store.Active:
				put(id, k.standing)
			case mark.pending() && k.seq < mark.seq: // it was not resumed since
				old = append(old, id)
			}
		}
	})
	for _, id := range old {
		row, gerr := s.readSealed(ctx, s.read, tableGrants, id[:])
		if gerr != nil {
			return nil, 0, s.fault(gerr, "the standing of grants cannot be read")
		}
		if row == nil || row.int(grantSeq) < mark.seq {
			put(id, store.Restored)
		}
	}
	return out, version, err
}

// pending reports whether a mark of a restore says that grants of before are not accepted yet.
func (k knownStanding) pending() bool { return k.standing == store.Paused }

// StandingVersion implements store.Grants.
func (s *Store) StandingVersion(ctx context.Context) (int64, error) {
	if s.format < SealedFormat {
		return 0, nil
	}
	return s.standings.look(ctx, s, func(map[uuid.UUID]knownStanding) {})
}

// SetStanding implements store.Grants. A revocation is final: another standing is
// refused with fault.GrantRevoked. A change to the present standing is not
// recorded.
func (s *Store) SetStanding(ctx context.Context, c store.StandingChange) error {
	if c.Grant == uuid.Nil || c.To > store.Revoked {
		return fault.New(fault.Internal, "no standing %d for grant %s", c.To, c.Grant)
	}
	e := ledger.Entry{Durable: true, Event: ledger.Event{
		Kind: ledger.GrantStanding, At: c.At.UnixMicro(), Grant: c.Grant[:], Principal: c.By, Standing: uint8(c.To),
	}}
	if c.Reason != "" {
		e.Payload = ledger.Payload{ledger.PartReason: []byte(c.Reason)}
	}
	return s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		row, err := w.row(ctx, tableStandings, c.Grant[:])
		if err != nil {
			return err
		}
		was := store.Active
		if row != nil {
			was = store.Standing(row.int(standingState))
		}
		if was == c.To {
			if old, err := w.beforeRestore(ctx, row); err != nil || old && c.To == store.Active {
				return err // to resume a grant accepts it
			}
			r.rows, r.apply = nil, nil
			return nil
		}
		if was == store.Revoked {
			return fault.New(fault.GrantRevoked, "the grant %s was revoked, and stays so", c.Grant).WithHint("issue a new one")
		}
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		return w.put(ctx, tableStandings, sealedRow{standingID: c.Grant[:], standingState: int64(c.To), standingSince: c.At.UnixMicro(), standingSeq: int64(first)})
	})
}

// beforeRestore reports whether a standing is older than a restore whose grants are not accepted.
func (w *writer) beforeRestore(ctx context.Context, row sealedRow) (bool, error) {
	mark, err := w.wholeRow(ctx, tableStandings, store.RestoreMark[:])
	if err != nil || mark == nil || store.Standing(mark.int(standingState)) != store.Paused {
		return false, err
	}
	return row == nil || row.int(standingSeq) < mark.int(standingSeq), nil
}

// proofsLeft is how many expired proofs may be removed with each new one.
// proofGrace is how long they are kept after their expiry, in case the clock is
// set back.
const (
	proofsLeft = 16
	proofGrace = 10 * time.Minute // one holder may use 100 proofs a second, and a writer keeps the rows in memory
)

// UseProof implements store.Grants.
func (s *Store) UseProof(ctx context.Context, id [32]byte, until time.Time) (bool, error) {
	fresh := true
	var old [][]byte
	limit := s.now() - proofGrace.Microseconds()
	err := s.change(ctx, ledger.Entry{}, func(ctx context.Context, w *writer, r *request) error {
		row, err := w.wholeRow(ctx, tableProofs, id[:])
		if err != nil {
			return err
		}
		if row != nil {
			fresh, r.apply = false, nil
			return nil
		}
		old, err = w.oldProofs(ctx, limit)
		return err
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		for _, p := range old {
			if err := w.remove(ctx, tableProofs, p); err != nil {
				return err
			}
		}
		return w.put(ctx, tableProofs, sealedRow{proofID: id[:], proofUntil: s.sharedTime(until)})
	})
	return fresh && err == nil, err
}

// oldProofs returns proofs that expired before limit.
func (w *writer) oldProofs(ctx context.Context, limit int64) ([][]byte, error) {
	var out [][]byte
	err := each(ctx, w.conn, tableProofs.all+" WHERE until < ? ORDER BY until LIMIT ?", func(rows *sql.Rows) error {
		row, _, err := w.s.scanSealed(tableProofs, rows.Scan)
		if err == nil {
			out = append(out, row.bytes(proofID))
		}
		return err
	}, limit, proofsLeft)
	return out, asIO(err)
}
