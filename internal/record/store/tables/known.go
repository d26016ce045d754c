package tables

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"
	"sync"
)

// knownTable is a sealed table as its seal has it, for readers: a row that was changed, removed
// or put back is found at every use. Only rows with newer events are read again, as long as no
// row was removed.
type knownTable struct {
	table  *sealedTable
	column int // of the row's event
	take   func(row sealedRow)
	drop   func() // forgets all that take was given

	mu   sync.Mutex
	macs map[string][sha256.Size]byte // by key; nil: nothing is known
	seal seal
	last int64 // the newest event
}

// look calls f with the table's present content known, and returns its version.
func (t *knownTable) look(ctx context.Context, s *Store, f func()) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, err := s.readLog(ctx, s.read) // it tells of all seals: an older one that was put back is found
	if err == nil && (t.macs == nil || !l.hasSeal(t.table.name, t.seal.mac)) {
		if err = t.catchUp(ctx, s); err != nil {
			t.forget()
		}
	}
	if err != nil {
		return 0, err
	}
	f()
	return t.seal.version, nil
}

func (t *knownTable) forget() {
	t.macs, t.last, t.seal = nil, 0, seal{}
	t.drop()
}

// catchUp reads the new rows; if the sum then differs from the seal, it reads all
// rows.
func (t *knownTable) catchUp(ctx context.Context, s *Store) error {
	return s.inSnapshot(ctx, func(conn *sql.Conn) error { return t.catchUpFrom(ctx, s, conn) })
}

// inSnapshot calls read with one state of the ledger, of which the log's state tells of the seals.
func (s *Store) inSnapshot(ctx context.Context, read func(conn *sql.Conn) error) error {
	conn, end, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer end() //nolint:errcheck // nothing was written
	if _, err := s.readLog(ctx, conn); err != nil {
		return err
	}
	return read(conn)
}

func (t *knownTable) catchUpFrom(ctx context.Context, s *Store, conn *sql.Conn) error {
	want, err := s.readSeal(ctx, conn, t.table.name)
	if err != nil {
		return err
	}
	for range 2 {
		if err := t.add(ctx, s, conn); err != nil {
			return err
		}
		if t.seal.sum == want.sum && t.seal.count == want.count {
			t.seal = want
			return nil
		}
		t.forget()
	}
	return s.sealBroken(t.table)
}

// add adds the rows that are newer than the known ones.
func (t *knownTable) add(ctx context.Context, s *Store, q Querier) error {
	if t.macs == nil {
		t.macs = map[string][sha256.Size]byte{}
	}
	by := t.table.columns[t.column]
	return each(ctx, q, t.table.all+" WHERE "+by+" > ? ORDER BY "+by, func(rows *sql.Rows) error {
		row, mac, err := s.scanSealed(t.table, rows.Scan)
		if err != nil {
			return err
		}
		key := keyOf(row[:t.table.keys])
		if old, ok := t.macs[key]; ok {
			t.seal.add(s.keys, old[:], -1)
		}
		t.seal.add(s.keys, mac, 1)
		t.macs[key], t.last = [sha256.Size]byte(mac), row.int(t.column)
		t.take(row)
		return nil
	}, t.last)
}

// has reports whether the table has exactly this row; call it in look.
func (t *knownTable) has(s *Store, row sealedRow) bool {
	mac, ok := t.macs[keyOf(row[:t.table.keys])]
	return ok && mac == [sha256.Size]byte(s.keys.rowMAC(t.table.name, row))
}

// maxListed is how often a list of questions is read whose rows are replaced at the same time.
const maxListed = 100

// present reads rows of a table and fails if one is not the table's present row. A row that writers
// replaced meanwhile is read again, until ctx ends.
func (s *Store) present(ctx context.Context, t *knownTable, read func() ([]toldRow, error)) ([]toldRow, error) {
	for last := int64(-1); ; {
		rows, err := read()
		if err != nil {
			return nil, err
		}
		old := false
		version, err := t.look(ctx, s, func() {
			old = slices.ContainsFunc(rows, func(r toldRow) bool { return !t.has(s, r.row) })
		})
		if err != nil || !old {
			return rows, err
		}
		if version == last { // no writer has changed the table since the row was read
			return nil, s.sealBroken(t.table)
		}
		last = version
	}
}
