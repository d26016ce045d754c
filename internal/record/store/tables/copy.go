package tables

import (
	"context"
	"database/sql"
	"iter"
	"strings"
)

// Copied is a table of a ledger, for a copy in another database.
type Copied struct {
	Name    string
	Columns []string

	s    *Store
	conn *sql.Conn
	take func(row []any)
}

// Snapshot begins to read one state of the ledger, whole: its tables for a copy in
// another database, which has the same keys. The copy has the same events, nodes,
// checkpoints and state of the log, so whatever was proved of the ledger holds for the
// copy. Call end when all rows were read.
func (s *Store) Snapshot(ctx context.Context) (all []Copied, end func() error, err error) {
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return nil, nil, s.fault(err, "the ledger cannot be copied")
	}
	if _, err := conn.ExecContext(ctx, s.dialect.Snapshot); err != nil {
		return nil, nil, s.fault(err, "the ledger cannot be copied")
	}
	if _, err := s.readLog(ctx, conn); err != nil {
		return nil, nil, s.fault(err, "the ledger cannot be copied")
	}
	end = func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), rollback)
		if cerr := conn.Close(); err == nil {
			err = cerr
		}
		return s.fault(err, "the ledger cannot be copied")
	}
	tags := newTagger(s.keys)
	add := func(name string, take func([]any), columns ...string) {
		all = append(all, Copied{Name: name, Columns: columns, s: s, conn: conn, take: take})
	}
	add("events", func(row []any) { // in a shared database no tag covers the event's number
		row[3] = tags.tag(0, bytesOf(row[4]), bytesOf(row[5]), bytesOf(row[6]))
	}, "seq", "run", "call", "tag", "body", "salt", "data")
	add("blobs", nil, "address", "size", "enc", "data")
	add("nodes", nil, "idx", "hash")
	add("checkpoints", nil, "size", "note")
	add("runs", nil, "seq", "id", "status", "mode", "started", "ended", "total", "completed", "denied", "failed", "refused")
	add("run_tools", nil, "tool", "run")
	add("session_runs", nil, "session", "run")
	add("blocks", nil, "mark", "block")
	for _, t := range append(append([]*sealedTable{tableMessages}, sealedTables...), tableSeals) {
		add(t.name, nil, append(append([]string(nil), t.columns...), "mac")...)
	}
	add("log", nil, "id", "origin", "size", "frontier", "signed", "mac")
	return all, end, nil
}

func bytesOf(v any) []byte { b, _ := v.([]byte); return b }

// Rows reads the rows, each valid until the next: int64, string, []byte or nil.
func (t Copied) Rows(ctx context.Context) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := t.conn.QueryContext(ctx, "SELECT "+strings.Join(t.Columns, ", ")+" FROM "+t.Name)
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
