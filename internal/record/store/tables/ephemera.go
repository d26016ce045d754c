package tables

import (
	"context"
	"database/sql"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// expiredLeft is how many expired records may be removed with each saved one. It is more than
// one, so that their number falls.
const expiredLeft = 16

// maxEphemeral is the largest Data of a record, in bytes.
const maxEphemeral = 1 << 20

// ephemeralName is the name that binds the data of a record to it.
func ephemeralName(e store.Ephemeral) []byte {
	return append([]byte("ephemeral\x00"+e.Kind+"\x00"), e.Key[:]...)
}

func (s *Store) ephemeralRow(e store.Ephemeral) sealedRow {
	return sealedRow{ephemeralKind: e.Kind, ephemeralKey: e.Key[:], ephemeralOwner: e.Owner, ephemeralVersion: e.Version,
		ephemeralUntil: s.sharedTime(e.Until), ephemeralData: s.keys.encrypt(e.Data, ephemeralName(e))}
}

func (s *Store) ephemeralOf(row sealedRow) (store.Ephemeral, error) {
	e := store.Ephemeral{Kind: row.text(ephemeralKind), Owner: row.text(ephemeralOwner), Version: row.int(ephemeralVersion), Until: s.ownTime(row.int(ephemeralUntil))}
	copy(e.Key[:], row.bytes(ephemeralKey))
	var ok bool
	if e.Data, ok = s.keys.decrypt(row.bytes(ephemeralData), ephemeralName(e)); !ok {
		return e, s.notOurs(tableEphemera)
	}
	return e, nil
}

// SaveEphemeral implements store.Ephemera.
func (s *Store) SaveEphemeral(ctx context.Context, e store.Ephemeral, b store.EphemeralBounds) (saved bool, err error) {
	if e.Kind == "" || len(e.Data) > maxEphemeral {
		return false, fault.New(fault.Internal, "a record of kind %q with %d bytes cannot be kept", e.Kind, len(e.Data))
	}
	var old []sealedRow
	now := s.now()
	err = s.change(ctx, ledger.Entry{}, func(ctx context.Context, w *writer, q *request) error {
		version, err := w.ephemeralVersion(ctx, e, now)
		if err != nil {
			return err
		}
		if saved = version == e.Version; !saved {
			q.apply = nil
			return nil
		}
		if version == 0 {
			if err := w.withinBounds(ctx, e, b, now); err != nil {
				return err
			}
		}
		old, err = w.ephemera(ctx, "until <= ? ORDER BY until LIMIT ?", now, expiredLeft)
		return err
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		for _, row := range old {
			if err := w.remove(ctx, tableEphemera, row[:tableEphemera.keys]...); err != nil {
				return err
			}
		}
		next := e
		next.Version++
		return w.put(ctx, tableEphemera, s.ephemeralRow(next))
	})
	return saved && err == nil, err
}

// ephemeralVersion is the version of the stored record; 0: there is none, or it has expired.
func (w *writer) ephemeralVersion(ctx context.Context, e store.Ephemeral, now int64) (int64, error) {
	row, err := w.wholeRow(ctx, tableEphemera, e.Kind, e.Key[:])
	if err != nil || row == nil || row.int(ephemeralUntil) <= now {
		return 0, err
	}
	return row.int(ephemeralVersion), nil
}

// withinBounds refuses a new record beyond a bound.
func (w *writer) withinBounds(ctx context.Context, e store.Ephemeral, b store.EphemeralBounds, now int64) error {
	c, err := w.wholeTable(ctx, tableEphemera)
	if err != nil {
		return err
	}
	all, each := 0, 0
	for _, r := range c.rows {
		if r.row.text(ephemeralKind) == e.Kind && r.row.int(ephemeralUntil) > now {
			all++
			if r.row.text(ephemeralOwner) == e.Owner {
				each++
			}
		}
	}
	if b.All > 0 && all >= b.All || b.Each > 0 && each >= b.Each {
		return fault.New(fault.LimitReached, "there are %d records of this kind, %d of one owner, as many as may be", all, each)
	}
	return nil
}

// ephemera returns the rows that match a condition.
func (w *writer) ephemera(ctx context.Context, where string, args ...any) ([]sealedRow, error) {
	var out []sealedRow
	err := each(ctx, w.conn, tableEphemera.all+" WHERE "+where, func(rows *sql.Rows) error {
		row, _, err := w.s.scanSealed(tableEphemera, rows.Scan)
		out = append(out, row)
		return err
	}, args...)
	return out, asIO(err)
}

// DropEphemeral implements store.Ephemera. A dropped record stays dropped after a loss of power.
func (s *Store) DropEphemeral(ctx context.Context, e store.Ephemeral) (dropped bool, err error) {
	now := s.now()
	err = s.change(ctx, ledger.Entry{Durable: true}, func(ctx context.Context, w *writer, q *request) error {
		version, err := w.ephemeralVersion(ctx, e, now)
		if dropped = err == nil && version > 0 && version == e.Version; !dropped {
			q.apply = nil
		}
		return err
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		return w.remove(ctx, tableEphemera, e.Kind, e.Key[:])
	})
	return dropped && err == nil, err
}

// Ephemeral implements store.Ephemera.
func (s *Store) Ephemeral(ctx context.Context, kind string, key [32]byte) (store.Ephemeral, bool, error) {
	if s.format < EphemeraFormat {
		return store.Ephemeral{}, false, nil
	}
	row, err := s.readSealed(ctx, s.read, tableEphemera, kind, key[:])
	if err != nil || row == nil || row.int(ephemeralUntil) <= s.now() {
		return store.Ephemeral{}, false, s.fault(err, "a record cannot be read")
	}
	e, err := s.ephemeralOf(row)
	return e, err == nil, err
}

// Ephemerals implements store.Ephemera.
func (s *Store) Ephemerals(ctx context.Context, kind, owner string) ([]store.Ephemeral, error) {
	if s.format < EphemeraFormat {
		return nil, nil
	}
	var out []store.Ephemeral
	err := each(ctx, s.read, tableEphemera.all+" WHERE kind = ? AND owner = ? AND until > ? ORDER BY until, key", func(rows *sql.Rows) error {
		row, _, err := s.scanSealed(tableEphemera, rows.Scan)
		if err != nil {
			return err
		}
		e, err := s.ephemeralOf(row)
		out = append(out, e)
		return err
	}, kind, owner, s.now())
	return out, s.fault(err, "records cannot be read")
}
