package tables

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"slices"
	"strings"
)

// wholeTable is a sealed table as its seal has it. A writer keeps it from one batch to the next,
// so that a row that was changed, removed, renamed or put back is found at every use without
// reading the table again. Another process's write changes the seal; then the table is read anew.
type wholeTable struct {
	rows map[string]wholeRow // by key
	seal seal
}

type wholeRow struct {
	mac [sha256.Size]byte
	row sealedRow // of leases, slots and ephemera, without data
}

// keyOf returns a row's key as text. The lengths of columns keep different keys apart.
func keyOf(key []any) string {
	var b strings.Builder
	for _, k := range key {
		switch k := k.(type) {
		case []byte:
			b.Write(k)
		case string:
			b.WriteString(k)
		case int64:
			for shift := 0; shift < 64; shift += 8 {
				b.WriteByte(byte(k >> shift))
			}
		}
		b.WriteString("\x00|")
	}
	return b.String()
}

func (c *wholeTable) put(t *sealedTable, row sealedRow, mac []byte, l *seal) {
	if c == nil {
		return
	}
	r := wholeRow{mac: [sha256.Size]byte(mac)}
	switch t {
	case tableLeases, tableSlots:
		r.row = slices.Clone(row)
	case tableEphemera:
		r.row = slices.Clone(row[:ephemeralData])
	}
	c.rows[keyOf(row[:t.keys])], c.seal = r, *l
}

func (c *wholeTable) remove(key []any, l *seal) {
	if c != nil {
		delete(c.rows, keyOf(key))
		c.seal = *l
	}
}

// wholeTable returns a table after a comparison with its seal.
func (w *writer) wholeTable(ctx context.Context, t *sealedTable) (*wholeTable, error) {
	l, err := w.sealOf(ctx, t)
	if err != nil {
		return nil, err
	}
	if c := w.tables[t.name]; c != nil && c.seal.sum == l.sum && c.seal.count == l.count {
		return c, nil
	}
	delete(w.tables, t.name)
	c := &wholeTable{rows: map[string]wholeRow{}}
	var got seal
	err = each(ctx, w.conn, t.all, func(rows *sql.Rows) error {
		row, mac, err := w.s.scanSealed(t, rows.Scan)
		if err == nil {
			got.add(w.s.keys, mac, 1)
			c.put(t, row, mac, l)
		}
		return err
	})
	if err != nil {
		return nil, asIO(err)
	}
	if got.sum != l.sum || got.count != l.count {
		return nil, w.s.sealBroken(t)
	}
	w.tables[t.name] = c
	return c, nil
}

// wholeRow is row for a table in which a missing or older row would give authority: it finds a
// row only if the whole table has it, and no row only if the whole table has none.
func (w *writer) wholeRow(ctx context.Context, t *sealedTable, key ...any) (sealedRow, error) {
	c, err := w.wholeTable(ctx, t)
	if err != nil {
		return nil, err
	}
	row, mac, err := w.rowMAC(ctx, t, key...)
	if err != nil {
		return nil, err
	}
	if want, there := c.rows[keyOf(key)]; there != (row != nil) || there && !hmac.Equal(want.mac[:], mac) {
		return nil, w.s.sealBroken(t)
	}
	return row, nil
}
