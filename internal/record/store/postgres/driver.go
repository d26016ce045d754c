package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/remitrun/remit/internal/record/store/tables"
)

// open makes a pool of connections that take statements with the parameters ? and ?N, as
// package tables writes them. Nothing is opened yet.
func open(c *pgx.ConnConfig, params map[string]string, most int) *sql.DB {
	return openAs(connector{}, c, params, most)
}

// pool is open for connections that are waited for: while the server cannot be reached, until the
// lease of this node is over.
func (s *Store) pool(params map[string]string, most int, again bool) *sql.DB {
	return openAs(connector{leased: database{s}.Leased, again: again}, s.config, params, most)
}

func openAs(of connector, c *pgx.ConnConfig, params map[string]string, most int) *sql.DB {
	c = c.Copy()
	maps.Copy(c.RuntimeParams, params)
	of.openings, of.translations = newOpenings(stdlib.GetConnector(*settingLate(c))), &sync.Map{}
	db := sql.OpenDB(of)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db
}

type connector struct {
	*openings
	translations *sync.Map // of statements, which are few

	leased func(context.Context) (context.Context, context.CancelFunc) // how long a connection is waited for; nil: it is not
	again  bool                                                        // statements may be repeated on another connection
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (out driver.Conn, err error) {
	if c.leased == nil {
		return c.connect(ctx)
	}
	during, stop := c.leased(ctx)
	defer stop()
	if during.Err() != nil { // without a lease it is tried once
		return c.connect(ctx)
	}
	err = retry(during, func() error {
		out, err = c.connect(during)
		return err
	})
	if err != nil && ctx.Err() == nil && during.Err() != nil {
		err = context.Cause(during)
	}
	return out, err
}

func (c connector) connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.openings.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := made.(*stdlib.Conn)
	if !ok {
		return nil, driver.ErrBadConn // pgx makes no other connections
	}
	return conn{inner, c.translations, c.again}, nil
}

// conn is a connection that translates the parameters of statements.
type conn struct {
	*stdlib.Conn
	translations *sync.Map
	again        bool
}

// ended turns the error of a connection that has ended into one after which package sql takes
// another connection, if the statement may be repeated.
func (c conn) ended(err error) error {
	if err != nil && c.again && c.Conn.Conn().IsClosed() {
		return driver.ErrBadConn
	}
	return err
}

// Ping implements driver.Pinger.
func (c conn) Ping(ctx context.Context) error { return c.ended(c.Conn.Ping(ctx)) }

// BeginTx implements driver.ConnBeginTx.
func (c conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, o)
	return tx, c.ended(err)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	made, err := c.Conn.PrepareContext(ctx, c.translated(query))
	if inner, ok := made.(*stdlib.Stmt); ok && err == nil {
		return stmt{inner, c}, nil
	}
	return made, c.ended(err)
}

// ExecContext implements driver.ExecerContext.
func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.Conn.ExecContext(ctx, c.translated(query), args)
	return r, c.ended(err)
}

// QueryContext implements driver.QueryerContext.
func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.rows(c.Conn.QueryContext(ctx, c.translated(query), args))
}

// rows reads the first rows of a query that may be repeated.
func (c conn) rows(rows driver.Rows, err error) (driver.Rows, error) {
	if err == nil && c.again {
		rows, err = readAhead(rows)
	}
	return rows, c.ended(err)
}

// stmt is a prepared statement of a connection.
type stmt struct {
	*stdlib.Stmt
	conn conn
}

// ExecContext implements driver.StmtExecContext.
func (s stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.Stmt.ExecContext(ctx, args)
	return r, s.conn.ended(err)
}

// QueryContext implements driver.StmtQueryContext.
func (s stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.rows(s.Stmt.QueryContext(ctx, args))
}

func (c conn) translated(query string) string {
	if !strings.Contains(query, "?") && !strings.Contains(query, tables.EventsAndPayloads) {
		return query
	}
	if known, ok := c.translations.Load(query); ok {
		s, _ := known.(string) // nothing else is stored
		return s
	}
	out := translate(query)
	c.translations.Store(query, out)
	return out
}

// mostAhead is how many rows are read before the caller gets the first one. A query whose
// connection ends later cannot be repeated without the caller.
const mostAhead = 64

// aheadRows are rows of which the first ones have been read.
type aheadRows struct {
	driver.Rows
	ahead [][]driver.Value
	over  bool // there are no others
}

func readAhead(rows driver.Rows) (driver.Rows, error) {
	a := &aheadRows{Rows: rows}
	for len(a.ahead) < mostAhead {
		row := make([]driver.Value, len(rows.Columns()))
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			a.over = true
			break
		}
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok { // the driver uses its memory again
				row[i] = bytes.Clone(b)
			}
		}
		a.ahead = append(a.ahead, row)
	}
	return a, nil
}

// Next implements driver.Rows.
func (a *aheadRows) Next(into []driver.Value) error {
	switch {
	case len(a.ahead) > 0:
		copy(into, a.ahead[0])
		a.ahead = a.ahead[1:]
		return nil
	case a.over:
		return io.EOF
	}
	return a.Rows.Next(into)
}

// translate writes the parameters ? and ?N of SQLite as $N, and events with their payloads. A ? is one more than the
// highest before it. No statement has a ? elsewhere.
func translate(query string) string {
	query = strings.ReplaceAll(query, tables.EventsAndPayloads, eventsAndPayloads)
	var b strings.Builder
	for highest := 0; ; {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits := 0
		for digits < len(after) && after[digits] >= '0' && after[digits] <= '9' {
			digits++
		}
		n := highest + 1
		if digits > 0 {
			n, _ = strconv.Atoi(after[:digits]) // digits only
		}
		highest = max(highest, n)
		b.WriteString("$" + strconv.Itoa(n))
		query = after[digits:]
	}
}
