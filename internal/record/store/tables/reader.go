package tables

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
)

// reader reads the database with statements that are prepared once for each
// connection. Preparing a statement takes longer than running most of them.
type reader struct {
	*sql.DB
	stmts sync.Map // by their text: *sql.Stmt
	count atomic.Int32
}

// maxStmts bounds the cached statements. Filters have few combinations.
const maxStmts = 128

// QueryContext implements Querier.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.stmt(ctx, query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext implements Querier.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := r.stmt(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}

// stmt returns the prepared statement for a text, or nil if it is not cached. The
// query itself then reports any error in the text.
func (r *reader) stmt(ctx context.Context, query string) *sql.Stmt {
	if kept, ok := r.stmts.Load(query); ok {
		s, _ := kept.(*sql.Stmt) // nothing else is stored
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
	_ = s.Close() // another goroutine was faster
	s, _ = kept.(*sql.Stmt)
	return s
}
