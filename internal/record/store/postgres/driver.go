package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
	c = c.Copy()
	maps.Copy(c.RuntimeParams, params)
	db := sql.OpenDB(connector{stdlib.GetConnector(*settingLate(c)), &sync.Map{}})
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db
}

type connector struct {
	driver.Connector
	translations *sync.Map // of statements, which are few
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := made.(*stdlib.Conn)
	if !ok {
		return nil, driver.ErrBadConn // pgx makes no other connections
	}
	return conn{inner, c.translations}, nil
}

// conn is a connection that translates the parameters of statements.
type conn struct {
	*stdlib.Conn
	translations *sync.Map
}

// PrepareContext implements driver.ConnPrepareContext.
func (c conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.PrepareContext(ctx, c.translated(query))
}

// ExecContext implements driver.ExecerContext.
func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.ExecContext(ctx, c.translated(query), args)
}

// QueryContext implements driver.QueryerContext.
func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.QueryContext(ctx, c.translated(query), args)
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
