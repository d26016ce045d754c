package postgres

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// Copy copies a ledger into a database that has none, all or nothing. Both have the keys
// of o.Home.
func Copy(ctx context.Context, o Options, from *tables.Store) error {
	s, err := newStore(o)
	if err != nil {
		return err
	}
	return s.fault(s.copy(ctx, from), "the ledger cannot be copied")
}

func (s *Store) copy(ctx context.Context, from *tables.Store) error {
	unlock, err := s.lockSetup(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	conn, err := s.dial(ctx, s.copyConfig())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is left to be done
	all, end, err := from.Snapshot(ctx, false)
	if err != nil {
		return err
	}
	return errors.Join(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var logs int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM log").Scan(&logs); err != nil {
			return err
		}
		if logs > 0 {
			return fault.New(fault.Conflict, "the database %q has a ledger already", s.name).WithHint("name another database, or another schema with ?search_path=NAME")
		}
		for _, t := range all {
			put := copyTable
			if t.Name == "events" {
				put = copyEvents
			}
			if err := put(ctx, tx, t); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE tail SET total = (SELECT size FROM log)")
		return err
	}), end())
}

// copyConfig is for one long transaction.
func (s *Store) copyConfig() *pgx.ConnConfig {
	c := s.config.Copy()
	c.RuntimeParams["idle_in_transaction_session_timeout"] = "600000"
	return c
}

// copyEvents copies the events, and then the payloads into tables of their months.
func copyEvents(ctx context.Context, tx pgx.Tx, t tables.Copied) error {
	parts := map[tables.Part]bool{}
	err := copyRows(ctx, tx, t, "events", []string{"seq", "run", "call", "tag", "body", "part"}, func(row []any) ([]any, error) {
		part, err := partOfRow(row)
		if part != tables.NoPart && part != tables.KeptPart {
			parts[part] = true
		}
		return []any{row[0], row[1], row[2], row[3], row[4], int64(part)}, err
	})
	if err != nil {
		return err
	}
	for part := range parts {
		if _, err := tx.Exec(ctx, createPart(part)); err != nil {
			return err
		}
	}
	return copyRows(ctx, tx, t, "payloads", []string{"part", "seq", "salt", "data"}, func(row []any) ([]any, error) {
		part, err := partOfRow(row)
		if err != nil || part == tables.NoPart {
			return nil, err
		}
		return []any{int64(part), row[0], row[5], row[6]}, nil
	})
}

// partOfRow returns the part of the payload of a row of events.
func partOfRow(row []any) (tables.Part, error) {
	body, _ := row[4].([]byte)
	e, err := ledger.Decode(body)
	if err != nil || row[6] == nil {
		return tables.NoPart, err
	}
	return tables.PartOf(&e), nil
}

func copyTable(ctx context.Context, tx pgx.Tx, t tables.Copied) error {
	return copyRows(ctx, tx, t, t.Name, t.Columns, func(row []any) ([]any, error) { return row, nil })
}

// copyRows copies what take makes of the rows, without those of which it makes nothing.
func copyRows(ctx context.Context, tx pgx.Tx, t tables.Copied, name string, columns []string, take func(row []any) ([]any, error)) error {
	next, stop := iter.Pull2(t.Rows(ctx))
	defer stop()
	_, err := tx.CopyFrom(ctx, pgx.Identifier{name}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		for {
			row, err, ok := next()
			if !ok || err != nil {
				return nil, err
			}
			if row, err = take(row); row != nil || err != nil {
				return row, err
			}
		}
	}))
	return err
}

// Status describes a database.
type Status struct {
	Database string `json:"database"`         // without user and password
	Version  int64  `json:"version"`          // of its tables; 0: it has none
	Latest   int64  `json:"latest"`           // the version that this Remit knows
	Ledger   string `json:"ledger,omitempty"` // the ledger's name; "": it has none
	Events   int64  `json:"events"`
	Nodes    int    `json:"nodes"`             // that are members now
	Parts    int    `json:"parts"`             // tables with the payloads of a class and month
	Unmoved  int64  `json:"unmoved,omitempty"` // events of an older ledger that are still to be gone through for payloads
}

// ReadStatus describes a database, which need not have a ledger.
func ReadStatus(ctx context.Context, url string) (Status, error) {
	s, err := newStore(Options{Home: "/", URL: url})
	if err != nil {
		return Status{}, err
	}
	out := Status{Database: s.name, Latest: version}
	conn, err := s.dial(ctx, s.config)
	if err != nil {
		return out, s.fault(err, "the database cannot be opened")
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is left to be done
	if err := conn.QueryRow(ctx, selectVersion).Scan(&out.Version); isCode(err, "42P01") {
		return out, nil
	} else if err != nil || out.Version == 0 {
		return out, s.fault(err, "the database cannot be read")
	}
	err = conn.QueryRow(ctx, "SELECT coalesce((SELECT origin FROM log), ''), (SELECT total FROM tail), (SELECT count(*) FROM members WHERE lease_until > clock_timestamp())").
		Scan(&out.Ledger, &out.Events, &out.Nodes)
	if err == nil && out.Version >= version {
		err = conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM pg_inherits WHERE inhparent = 'payloads'::regclass), (SELECT last - done FROM moving)").Scan(&out.Parts, &out.Unmoved)
	}
	return out, s.fault(err, "the database cannot be read")
}
