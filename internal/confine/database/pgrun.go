package database

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// lookServer lists what a statement uses, on a server.
func lookServer(ctx context.Context, d policy.Database, secret func(string) (string, bool), sql string) (u uses, err error) {
	c := connector{secret, d.Reach}
	at, err := c.url(d)
	if err != nil {
		return u, err
	}
	if isMaria(at) {
		return lookMaria(ctx, d, at, c, sql)
	}
	s, stop, err := openServer(ctx, d, at, c, false)
	if err != nil {
		return u, err
	}
	defer stop()
	_, u, err = s.describe(sql)
	return u, err
}

// runServer runs a statement on a server.
func (d *Database) runServer(ctx context.Context, at policy.Database, what call) (Rows, error) {
	c := connector{d.secret, d.p.Check}
	where, err := c.url(at)
	if err != nil {
		return Rows{}, err
	}
	if isMaria(where) {
		return d.runMaria(ctx, at, where, c, what)
	}
	s, stop, err := openServer(ctx, at, where, c, what.write)
	if err != nil {
		return Rows{}, err
	}
	defer stop()
	described, u, err := s.describe(what.sql)
	if err == nil {
		err = d.mayUse(&u, what.write)
	}
	if err != nil {
		return Rows{}, err
	}
	values, err := pgValues(what.params, len(described.ParamOIDs))
	if err != nil {
		return Rows{}, err
	}
	var out Rows
	if what.explain {
		out, err = s.explain(what.sql, described, values)
	} else {
		out, err = s.rows(described, values)
	}
	if err == nil && what.write {
		_, err = s.conn.Exec(s.ctx, "COMMIT").ReadAll()
	}
	if err != nil {
		return Rows{}, s.failed(err)
	}
	g := &guard{uses: u, d: d}
	g.tell()
	return out, nil
}

// mayUse asks the permit about each use.
func (d *Database) mayUse(u *uses, write bool) error {
	if len(u.refused) > 0 {
		return fault.New(fault.HandleRefused, "%s", u.refused[0].Refused)
	}
	if len(u.written) > 0 && !write {
		return changesRows()
	}
	for _, part := range []struct {
		kind tool.ActionKind
		list []tool.TableUse
	}{{tool.TableRead, u.read}, {tool.TableWrite, u.written}} {
		for _, use := range part.list {
			if err := d.p.Check(tool.Action{Kind: part.kind, Database: d.name, Uses: []tool.TableUse{use}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// pgValues are parameters as texts, which the server reads by the types that it has
// inferred.
func pgValues(params []any, want int) ([][]byte, error) {
	if len(params) != want {
		return nil, fault.New(fault.ArgsInvalid, "the statement has %d parameters, and params has %d values", want, len(params)).In("params")
	}
	out := make([][]byte, len(params))
	for i, p := range params {
		switch p := p.(type) {
		case nil:
		case string:
			if strings.ContainsRune(p, 0) {
				return nil, fault.New(fault.ArgsInvalid, "PostgreSQL keeps no text with a NUL byte").In("params[" + strconv.Itoa(i) + "]")
			}
			out[i] = []byte(p)
		case bool:
			out[i] = strconv.AppendBool(nil, p)
		case int64:
			out[i] = strconv.AppendInt(nil, p, 10)
		case float64:
			out[i] = strconv.AppendFloat(nil, p, 'g', -1, 64)
		default:
			return nil, fault.New(fault.ArgsInvalid, "expected a text, number, boolean or null").In("params[" + strconv.Itoa(i) + "]")
		}
	}
	return out, nil
}

// rows runs the described statement and reads its rows, up to the limits. A change goes on
// to its end.
func (s *pgSession) rows(what *pgconn.StatementDescription, values [][]byte) (Rows, error) {
	out := Rows{Columns: []string{}, Rows: [][]any{}}
	for _, f := range what.Fields {
		out.Columns = append(out.Columns, f.Name)
	}
	most := most(s.limits)
	res := s.conn.ExecPrepared(s.ctx, pgStatement, values, nil, nil)
	bytes := 0
	for res.NextRow() {
		if out.Truncated {
			continue
		}
		row := make([]any, len(what.Fields))
		for i, v := range res.Values() {
			bytes += len(v) + 8
			row[i] = pgValue(v, what.Fields[i].DataTypeOID)
		}
		if len(out.Rows) == most || bytes > MaxBytes {
			out.Truncated = true
			if !s.write {
				return out, nil // closing the connection ends the query
			}
			continue
		}
		out.Rows = append(out.Rows, row)
	}
	tag, err := res.Close()
	if err != nil {
		return out, err
	}
	if !tag.Select() {
		out.Changed = tag.RowsAffected()
	}
	return out, nil
}

// OIDs of the types that are not given as text.
const (
	pgBool, pgBytea, pgInt8, pgInt2, pgInt4, pgOid, pgFloat4, pgFloat8 = 16, 17, 20, 21, 23, 26, 700, 701
)

// pgValue is a value of PostgreSQL as JSON has it. What JSON cannot hold exactly, such as
// numeric, is the text that PostgreSQL prints.
func pgValue(v []byte, typ uint32) any {
	if v == nil {
		return nil
	}
	text := string(v)
	switch typ {
	case pgBool:
		return text == "t"
	case pgInt2, pgInt4, pgInt8, pgOid:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case pgFloat4, pgFloat8:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil
		}
		return f
	case pgBytea:
		if b, err := hex.DecodeString(strings.TrimPrefix(text, `\x`)); err == nil {
			return map[string]any{"base64": base64.StdEncoding.EncodeToString(b)}
		}
	}
	if !utf8.ValidString(text) {
		return map[string]any{"base64": base64.StdEncoding.EncodeToString(v)}
	}
	return text
}

// schemaServer lists the tables of a server's database of which the call may see something.
func (d *Database) schemaServer(ctx context.Context, at policy.Database) ([]Table, error) {
	c := connector{d.secret, d.p.Check}
	where, err := c.url(at)
	if err != nil {
		return nil, err
	}
	if isMaria(where) {
		return d.schemaMaria(ctx, at, where, c)
	}
	s, stop, err := openServer(ctx, at, where, c, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	rows, err := s.texts(`SELECT n.nspname, c.relname, c.relkind, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
		WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema' AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY n.nspname <> 'public', n.nspname, c.relname, a.attnum LIMIT 50000`)
	if err != nil {
		return nil, err
	}
	out := []Table{}
	for _, r := range rows {
		kind, name := "table", r[1]
		if r[2] == "v" || r[2] == "m" {
			kind = "view"
		}
		if r[0] != "public" {
			name = r[0] + "." + r[1]
		}
		use := tool.TableUse{Schema: r[0], Table: r[1], Column: r[3]}
		if r[5] == "t" {
			use.Column = "*"
		}
		c := Column{r[3], r[4], d.sees(tool.TableRead, use), d.sees(tool.TableWrite, use)}
		if !c.Read && !c.Write {
			continue
		}
		if n := len(out); n == 0 || out[n-1].Name != name {
			out = append(out, Table{Name: name, Kind: kind})
		}
		out[len(out)-1].Columns = append(out[len(out)-1].Columns, c)
	}
	return out, nil
}
