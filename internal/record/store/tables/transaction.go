package tables

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// begin begins a transaction. After an error there is none: a caller whose context has ended meanwhile gets an error
// although it has begun.
func begin(ctx context.Context, conn *sql.Conn, statement string) error {
	_, err := conn.ExecContext(ctx, statement)
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), rollback) // it fails if there is none
	}
	return err
}

// snapshot takes a connection that reads one state of the ledger. end gives it back. A connection that might stay in its
// transaction leaves the pool: it would give this state to all that read with it later.
func (s *Store) snapshot(ctx context.Context) (conn *sql.Conn, end func() error, err error) {
	if conn, err = s.read.Conn(ctx); err != nil {
		return nil, nil, err
	}
	end = func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), rollback)
		if err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // so says package database/sql
		}
		if cerr := conn.Close(); err == nil && !errors.Is(cerr, sql.ErrConnDone) {
			err = cerr
		}
		return err
	}
	if _, err = conn.ExecContext(ctx, s.dialect.Snapshot); err != nil {
		_ = end() // the first error counts
		return nil, nil, err
	}
	return conn, end, nil
}
