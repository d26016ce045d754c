package database

import (
	"context"
	"database/sql"
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"modernc.org/sqlite"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Rows are the rows that a statement returned.
type Rows struct {
	Columns   []string
	Rows      [][]any
	Truncated bool  // there are more than the limits allow
	Changed   int64 // rows that were inserted, changed or deleted
}

// Database is a database under a permit.
type Database struct {
	p      permit.Permit
	name   string
	secret func(key string) (string, bool)
}

// Open returns the handle of a database. It opens nothing yet. secret finds the values of
// stored secrets; nil finds none.
func Open(p permit.Permit, name string, secret func(key string) (string, bool)) *Database {
	return &Database{p, name, secret}
}

// Query runs a statement that changes nothing.
func (d *Database) Query(ctx context.Context, statement string, params []any) (Rows, error) {
	return d.run(ctx, call{sql: statement, params: params})
}

// Execute runs a statement that changes rows, in a transaction of its own.
func (d *Database) Execute(ctx context.Context, statement string, params []any) (Rows, error) {
	if d.p.Held() != nil {
		return Rows{}, fault.New(fault.HandleRefused, "the run's writes are held until a person applies them, and a change of a database cannot be held").
			WithHint("query only, or ask for a run under a policy without files.write.hold")
	}
	return d.run(ctx, call{sql: statement, params: params, write: true})
}

func (d *Database) run(ctx context.Context, what call) (out Rows, err error) {
	at, err := d.at(what.write)
	if err != nil {
		return out, err
	}
	if at.Server != "" {
		return d.runServer(ctx, at, what)
	}
	if err := oneStatement(what.sql); err != nil {
		return out, err
	}
	s, stop, err := open(ctx, at, what.write)
	if err != nil {
		return out, err
	}
	defer stop()
	begin := "BEGIN"
	if what.write {
		begin = "BEGIN IMMEDIATE"
	}
	if _, err := s.conn.ExecContext(s.ctx, begin); err != nil {
		return out, s.failed(err)
	}
	g := &guard{uses: uses{known: s.known}, d: d, write: what.write}
	if err := s.authorize(g.decide); err != nil {
		return out, err
	}
	if what.explain {
		out, err = s.explain(what)
	} else {
		out, err = s.rows(what.sql, what.params)
	}
	if g.err != nil {
		err = g.err
	}
	if aerr := s.authorize(nil); err == nil {
		err = aerr
	}
	if err == nil && what.write {
		if err = s.conn.QueryRowContext(s.ctx, "SELECT changes()").Scan(&out.Changed); err == nil {
			_, err = s.conn.ExecContext(s.ctx, "COMMIT")
		}
		if err != nil {
			err = s.failed(err)
		}
	}
	if err != nil {
		return Rows{}, err // closing the connection rolls back
	}
	g.tell()
	return out, nil
}

// at returns the database if the permit allows the call to use it.
func (d *Database) at(write bool) (policy.Database, error) {
	kind := tool.TableRead
	if write {
		kind = tool.TableWrite
	}
	if err := d.p.Check(tool.Action{Kind: kind, Database: d.name}); err != nil {
		return policy.Database{}, err
	}
	return find(d.p.Limits().Databases, d.name)
}

func changesRows() error {
	return fault.New(fault.ArgsInvalid, "the statement changes rows; expected one that only queries").In("sql").WithHint("use db.execute")
}

// guard asks the permit about each use, while the statement that runs is compiled.
type guard struct {
	uses
	d     *Database
	write bool
	err   error // the first refusal
}

func (g *guard) decide(action sqlite.AuthorizerActionCode, a, b, db, trigger string) sqlite.AuthorizerReturnCode {
	use, write, why := g.classify(action, a, b, db)
	if why == "" && use.Table == "" {
		return sqlite.AuthorizerOK
	}
	on := tool.Action{Kind: tool.TableRead, Database: g.d.name, Uses: []tool.TableUse{use}}
	if write {
		on.Kind = tool.TableWrite
	}
	err := error(nil)
	switch {
	case why != "":
		err = fault.New(fault.HandleRefused, "%s", why)
	case write && !g.write:
		err = changesRows()
	default:
		err = g.d.p.Check(on)
	}
	if err != nil {
		if g.err == nil {
			g.err = err
		}
		return sqlite.AuthorizerDeny
	}
	return g.note(action, a, b, db, trigger)
}

// tell notes the tables that the statement used, with their columns, for the record.
func (g *guard) tell() {
	for _, part := range []struct {
		effect tool.Effect
		list   []tool.TableUse
	}{{tool.DatabaseRead, g.read}, {tool.DatabaseWrite, g.written}} {
		var order []string
		columns := map[string][]string{}
		for _, u := range part.list {
			if _, ok := columns[u.Table]; !ok {
				order = append(order, u.Table)
				columns[u.Table] = nil
			}
			if u.Column != "" {
				columns[u.Table] = append(columns[u.Table], u.Column)
			}
		}
		for _, t := range order {
			on := g.d.name + ": " + t
			if c := columns[t]; len(c) > 0 {
				slices.Sort(c)
				on += "(" + strings.Join(c, ", ") + ")"
			}
			g.d.p.Note(tool.Happened{Effect: part.effect, On: on})
		}
	}
}

// most returns how many rows a call may read.
func most(d policy.Database) int {
	if d.Rows == 0 {
		return DefaultRows
	}
	return d.Rows
}

// rows runs a statement and reads its rows, up to the limits.
func (s *session) rows(statement string, params []any) (Rows, error) {
	out := Rows{Columns: []string{}, Rows: [][]any{}}
	most := most(s.limits)
	rows, err := s.conn.QueryContext(s.ctx, statement, params...)
	if err != nil {
		return out, s.failed(err)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return out, s.failed(err)
	}
	out.Columns = append(out.Columns, columns...)
	bytes := 0
	for rows.Next() {
		row, n, err := scan(rows, len(columns))
		if err != nil {
			return out, s.failed(err)
		}
		if bytes += n; len(out.Rows) == most || bytes > MaxBytes {
			out.Truncated = true
			break
		}
		out.Rows = append(out.Rows, row)
	}
	if err := rows.Err(); err != nil {
		return out, s.failed(err)
	}
	return out, nil
}

// scan reads one row as values of JSON, and their size.
func scan(rows *sql.Rows, columns int) (row []any, size int, err error) {
	row = make([]any, columns)
	into := make([]any, columns)
	for i := range row {
		into[i] = &row[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, 0, err
	}
	for i := range row {
		var n int
		row[i], n = value(row[i])
		size += n
	}
	return row, size, nil
}

// value is a value of SQLite as JSON has it. Bytes are {"base64": …}.
func value(v any) (any, int) {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return value([]byte(v))
		}
		return v, len(v)
	case []byte:
		text := base64.StdEncoding.EncodeToString(v)
		return map[string]any{"base64": text}, len(text)
	case time.Time:
		text := v.Format(time.RFC3339Nano)
		return text, len(text)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, 8
		}
	}
	return v, 8
}
