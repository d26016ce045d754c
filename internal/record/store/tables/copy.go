package tables

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"strings"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Copied is a table of a ledger, for a copy in another database.
type Copied struct {
	Name    string
	Columns []string
	from    string // the name in the statement that reads it; "": Name

	s    *Store
	conn *sql.Conn
	take func(row []any)

	only bool    // the rows are those of more alone
	more [][]any // rows besides those of the table
}

// Snapshot begins to read one state of the ledger, whole: its tables for a copy in another
// database, which has the same keys. The copy has the same events, nodes, checkpoints and state of
// the log, so every proof about the ledger holds for the copy. Events of a shared database that are
// not in the tree yet are in that of the copy. numbered says that the copy's tags cover the numbers
// of events, as in a database that is not shared. Call end when all rows were read.
func (s *Store) Snapshot(ctx context.Context, numbered bool) (all []Copied, end func() error, err error) {
	conn, done, err := s.snapshot(ctx)
	if err != nil {
		return nil, nil, s.fault(err, "the ledger cannot be copied")
	}
	l, nodes, err := s.wholeLog(ctx, conn)
	if err != nil {
		return nil, nil, s.fault(errors.Join(err, done()), "the ledger cannot be copied")
	}
	end = func() error { return s.fault(done(), "the ledger cannot be copied") }
	tags := newTagger(s.keys)
	add := func(name string, take func([]any), columns ...string) *Copied {
		all = append(all, Copied{Name: name, Columns: columns, s: s, conn: conn, take: take})
		return &all[len(all)-1]
	}
	add("events", func(row []any) {
		seq := ledger.Seq(0)
		if n, ok := row[0].(int64); ok && numbered {
			seq = ledger.Seq(n)
		}
		row[3] = tags.tag(seq, bytesOf(row[4]), bytesOf(row[5]), bytesOf(row[6]))
	}, "seq", "run", "call", "tag", "body", "salt", "data").from = EventsAndPayloads + " e"
	add("blobs", nil, "address", "size", "enc", "data")
	add("nodes", nil, "idx", "hash").more = nodes
	add("checkpoints", nil, "size", "note")
	add("runs", nil, "seq", "id", "status", "mode", "started", "ended", "total", "completed", "denied", "failed", "refused")
	add("run_tools", nil, "tool", "run")
	add("session_runs", nil, "session", "run")
	add("blocks", nil, "mark", "block")
	for _, t := range append(append([]*sealedTable{tableMessages}, sealedTables...), tableSeals) {
		add(t.name, nil, append(append([]string(nil), t.columns...), "mac")...)
	}
	log := add("log", nil, "id", "origin", "size", "frontier", "signed", "mac")
	log.only, log.more = true, [][]any{{int64(1), s.keys.origin, l.Size, l.Bytes(), l.signed, l.sum(s.keys)}}
	return all, end, nil
}

// wholeLog reads the state of the log with all events in it, and the nodes of the events that are
// not in the stored tree yet.
func (s *Store) wholeLog(ctx context.Context, q Querier) (l logState, nodes [][]any, err error) {
	if l, err = s.readLog(ctx, q); err != nil || s.shared == nil {
		return l, nil, err
	}
	total, err := s.shared.Total(ctx, q)
	if err != nil {
		return l, nil, err
	}
	batches, err := s.shared.Tail(ctx, q, l.Size, math.MaxInt32)
	if err != nil {
		return l, nil, err
	}
	leaves, err := s.leaves(ctx, q, l.Size, total)
	if err != nil {
		return l, nil, err
	}
	if err := s.keys.checkTail(batches, l.Size, leaves); err != nil {
		return l, nil, err
	}
	for _, h := range leaves {
		l.Append(h, storedNodes(&nodes))
	}
	return l, nodes, nil
}

func bytesOf(v any) []byte { b, _ := v.([]byte); return b }

// Rows reads the rows, each valid until the next: int64, string, []byte or nil.
func (t Copied) Rows(ctx context.Context) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, row := range t.more {
			if !yield(row, nil) {
				return
			}
		}
		if t.only {
			return
		}
		rows, err := t.conn.QueryContext(ctx, "SELECT "+strings.Join(t.Columns, ", ")+" FROM "+cmp.Or(t.from, t.Name))
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		row, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
		for i := range row {
			into[i] = &row[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				yield(nil, err)
				return
			}
			for i := range row {
				if b, ok := row[i].([]byte); ok && b == nil { // empty, and nil would be written as NULL
					row[i] = []byte{}
				}
			}
			if t.take != nil {
				t.take(row)
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}
