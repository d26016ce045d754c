package tables

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// wholeTable is a sealed table as its seal has it. A writer keeps it from one batch to the next,
// so that a row that was changed, removed, renamed or put back is found at every use without
// reading the table again. Another process's write changes the seal; then the table is read anew.
type wholeTable struct {
	rows map[string]wholeRow // by key
	seal seal
	last int64 // the newest event of a row, where the table has columns for it

	unique map[string]uniqueRun // of the queue: the newest run of each unique key
}

type uniqueRun struct {
	id  []byte
	seq int64
}

type wholeRow struct {
	mac [sha256.Size]byte
	row sealedRow // of leases, slots, schedules and ephemera, without secrets
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
	case tableSchedules:
		r.row = slices.Clone(row[:scheduleToken])
	case tableEphemera:
		r.row = slices.Clone(row[:ephemeralData])
	case tableQueue: // rows are never removed
		if key, seq := string(row.bytes(queueUnique)), row.int(queueSeq); key != "" && seq >= c.unique[key].seq {
			c.unique[key] = uniqueRun{slices.Clone(row.bytes(queueID)), seq}
		}
	}
	c.rows[keyOf(row[:t.keys])], c.seal = r, *l
	for _, i := range t.events {
		c.last = max(c.last, row.int(i))
	}
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
	known := w.tables[t.name]
	if known != nil && known.seal.sum == l.sum && known.seal.count == l.count {
		return known, nil
	}
	delete(w.tables, t.name) // it is not whole while rows are read
	if known != nil && len(t.events) > 0 {
		if same, err := w.readNewer(ctx, t, known, l); err != nil {
			return nil, err
		} else if same {
			w.tables[t.name] = known
			return known, nil
		}
	}
	c := &wholeTable{rows: map[string]wholeRow{}, unique: map[string]uniqueRun{}}
	if same, err := w.readNewer(ctx, t, c, l); err != nil {
		return nil, err
	} else if !same {
		return nil, w.s.sealBroken(t)
	}
	w.tables[t.name] = c
	return c, nil
}

// readNewer reads the rows that have newer events, or all if none are known. It reports whether
// the table is then as its seal has it.
func (w *writer) readNewer(ctx context.Context, t *sealedTable, c *wholeTable, l *seal) (bool, error) {
	got, query := c.seal, t.all
	if c.last > 0 {
		is := make([]string, len(t.events))
		for i, column := range t.events {
			is[i] = fmt.Sprintf("%s > %d", t.columns[column], c.last)
		}
		query += " WHERE " + strings.Join(is, " OR ")
	}
	err := each(ctx, w.conn, query, func(rows *sql.Rows) error {
		row, mac, err := w.s.scanSealed(t, rows.Scan)
		if err != nil {
			return err
		}
		if old, known := c.rows[keyOf(row[:t.keys])]; known {
			got.add(w.s.keys, old.mac[:], -1)
		}
		got.add(w.s.keys, mac, 1)
		c.put(t, row, mac, l)
		return nil
	})
	return err == nil && got.sum == l.sum && got.count == l.count, asIO(err)
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
