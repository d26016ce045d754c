package database

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// call is a statement with its parameters.
type call struct {
	sql     string
	params  []any
	write   bool
	explain bool // show the plan instead
}

// lookMaria lists what a statement uses.
func lookMaria(ctx context.Context, d policy.Database, at string, c connector, sql string) (u uses, err error) {
	m, err := mariaShape(sql)
	if err != nil {
		return u, err
	}
	s, stop, err := openMaria(ctx, d, at, c, m.verb != "select") // else the server does not compile a change
	if err != nil {
		return u, err
	}
	defer stop()
	if m, u, err = s.describe(sql); err != nil || len(u.refused) > 0 {
		return u, err
	}
	st, err := s.prepare(m, false)
	if err == nil {
		err = st.Close() // it was never run
	}
	return u, err
}

// describe lists what a statement uses.
func (s *mariaSession) describe(sql string) (m *mariaStatement, u uses, err error) {
	if m, err = mariaShape(sql); err != nil {
		return nil, u, err
	}
	c, err := newCatalog(s)
	if err != nil {
		return nil, u, err
	}
	refs, err := m.uses(c, s.own, &u, 0)
	if err == nil {
		err = c.changes(&u, m, refs)
	}
	return m, u, err
}

// prepare has the server compile the statement as it was analysed, or its explanation.
func (s *mariaSession) prepare(m *mariaStatement, explain bool) (*sql.Stmt, error) {
	text := printMaria(m.tokens)
	if explain {
		text = "EXPLAIN " + text
	}
	st, err := s.conn.PrepareContext(s.ctx, text)
	if err != nil {
		return nil, s.failed(err, false)
	}
	return st, nil
}

// runMaria runs a statement.
func (d *Database) runMaria(ctx context.Context, at policy.Database, where string, c connector, what call) (out Rows, err error) {
	s, stop, err := openMaria(ctx, at, where, c, what.write)
	if err != nil {
		return out, err
	}
	defer stop()
	m, u, err := s.describe(what.sql)
	if err == nil {
		err = d.mayUse(&u, what.write)
	}
	if err != nil {
		return out, err
	}
	params, err := m.values(what.params)
	if err != nil {
		return out, err
	}
	st, err := s.prepare(m, what.explain)
	if err != nil {
		return out, err
	}
	if out, err = s.mariaRows(st, params, what.write); err == nil && what.explain {
		out, err = s.mariaSteps(out)
	}
	if err != nil {
		return Rows{}, err
	}
	check := s
	if out.Truncated && !what.write && !what.explain { // the connection is still receiving, and its locks hold
		var end func()
		if check, end, err = openMaria(ctx, at, where, c, false); err != nil {
			return Rows{}, err
		}
		defer end()
	}
	if err := check.unchanged(what.sql, u); err != nil {
		return Rows{}, err
	}
	if what.write {
		if _, err := s.conn.ExecContext(s.ctx, "COMMIT"); err != nil {
			return Rows{}, s.failed(err, true)
		}
	}
	g := &guard{uses: u, d: d}
	g.tell()
	return out, nil
}

// unchanged analyses a statement again, after it ran and before its rows are shown or its
// changes are kept. The server locks the tables and views that it used until the transaction
// ends, so this finds what changed between the first analysis and the lock.
func (s *mariaSession) unchanged(sql string, was uses) error {
	_, is, err := s.describe(sql)
	if err == nil && (!slices.Equal(is.read, was.read) || !slices.Equal(is.written, was.written) || len(is.refused) > 0) {
		err = fault.New(fault.ToolFailed, "the tables of the database %q were changed while the statement ran; nothing was done", s.limits.Name)
	}
	return err
}

// values are parameters as the driver binds them.
func (m *mariaStatement) values(params []any) ([]any, error) {
	if len(params) != m.params {
		return nil, fault.New(fault.ArgsInvalid, "the statement has %d parameters, and params has %d values", m.params, len(params)).In("params")
	}
	for i, p := range params {
		switch p.(type) {
		case nil, string, bool, int64, float64:
		default:
			return nil, fault.New(fault.ArgsInvalid, "expected a text, number, boolean or null").In("params[" + strconv.Itoa(i) + "]")
		}
	}
	return params, nil
}

// mariaRows runs a statement and reads its rows, up to the limits. A change goes on to its
// end. A query that was cut is left to the end of the connection.
func (s *mariaSession) mariaRows(st *sql.Stmt, params []any, change bool) (out Rows, err error) {
	out = Rows{Columns: []string{}, Rows: [][]any{}}
	rows, err := st.QueryContext(s.ctx, params...)
	if err != nil {
		return out, s.failed(err, true)
	}
	columns, err := rows.ColumnTypes()
	if err != nil {
		return out, s.failed(err, true)
	}
	for _, c := range columns {
		out.Columns = append(out.Columns, c.Name())
	}
	bytes := 0
	for rows.Next() {
		row := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return out, s.failed(err, true)
		}
		for i := range row {
			var n int
			row[i], n = mariaValue(row[i], columns[i].DatabaseTypeName())
			bytes += n
		}
		if len(out.Rows) >= most(s.limits) || bytes > MaxBytes {
			if out.Truncated = true; !change {
				return out, nil // closing the connection ends the query
			}
			continue
		}
		out.Rows = append(out.Rows, row)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return out, s.failed(err, true)
	}
	if change {
		var n [][]string
		if n, err = s.texts("SELECT ROW_COUNT()"); err == nil {
			out.Changed, err = strconv.ParseInt(n[0][0], 10, 64)
		}
	}
	return out, err
}

// mariaValue is a value of MariaDB as JSON has it. What JSON cannot hold exactly, such as
// DECIMAL, is the text that MariaDB prints.
func mariaValue(v any, kind string) (any, int) {
	switch v := v.(type) {
	case []byte:
		binary := strings.Contains(kind, "BLOB") || strings.Contains(kind, "BINARY") || kind == "BIT" || kind == "GEOMETRY"
		if binary || !utf8.Valid(v) {
			return map[string]any{"base64": base64.StdEncoding.EncodeToString(v)}, len(v) * 4 / 3
		}
		return string(v), len(v)
	case uint64:
		if v > math.MaxInt64 {
			return strconv.FormatUint(v, 10), 20
		}
		return int64(v), 8
	case float32:
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		if err != nil {
			return nil, 8
		}
		return value(f)
	}
	return value(v)
}

// schemaMaria lists the tables of the database of which the call may see something.
func (d *Database) schemaMaria(ctx context.Context, at policy.Database, where string, c connector) ([]Table, error) {
	s, stop, err := openMaria(ctx, at, where, c, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	rows, err := s.texts(`SELECT c.TABLE_SCHEMA, c.TABLE_NAME, t.TABLE_TYPE, c.COLUMN_NAME, c.COLUMN_TYPE, COALESCE(c.GENERATION_EXPRESSION, '') <> ''
		FROM information_schema.COLUMNS c JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
		WHERE t.TABLE_TYPE IN ('BASE TABLE', 'VIEW') AND c.TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
		ORDER BY c.TABLE_SCHEMA <> DATABASE(), c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION LIMIT 50000`)
	if err != nil {
		return nil, err
	}
	out := []Table{}
	for _, r := range rows {
		kind, name, own := "table", r[1], r[0] == s.own
		if r[2] == "VIEW" {
			kind = "view"
		}
		if !own {
			name = r[0] + "." + r[1]
		}
		use := tool.TableUse{Schema: r[0], Own: own, Table: r[1], Column: r[3]}
		if r[5] == "1" {
			use.Column = "*"
		}
		col := Column{r[3], r[4], d.sees(tool.TableRead, use), d.sees(tool.TableWrite, use)}
		if !col.Read && !col.Write {
			continue
		}
		if n := len(out); n == 0 || out[n-1].Name != name {
			out = append(out, Table{Name: name, Kind: kind})
		}
		out[len(out)-1].Columns = append(out[len(out)-1].Columns, col)
	}
	return out, nil
}
