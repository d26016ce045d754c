package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
)

// reader is the database as it is read, by statements that are prepared once for
// each connection: preparing one takes longer than most of them do.
type reader struct {
	*sql.DB
	stmts sync.Map // by their text: *sql.Stmt
	count atomic.Int32
}

// maxStmts bounds the statements that are kept: filters are combined in few ways.
const maxStmts = 128

// QueryContext implements querier.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.stmt(ctx, query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext implements querier.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := r.stmt(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}

// stmt is the prepared statement of a text, or nil where it is not kept: what is
// wrong with it is told by the query itself.
func (r *reader) stmt(ctx context.Context, query string) *sql.Stmt {
	if kept, ok := r.stmts.Load(query); ok {
		s, _ := kept.(*sql.Stmt) // nothing else is kept
		return s
	}
	if r.count.Load() >= maxStmts {
		return nil
	}
	s, err := r.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	kept, loaded := r.stmts.LoadOrStore(query, s)
	if !loaded {
		r.count.Add(1)
		return s
	}
	_ = s.Close() // somebody else was quicker
	s, _ = kept.(*sql.Stmt)
	return s
}
