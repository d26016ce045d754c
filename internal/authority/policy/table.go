package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// tablePattern is an entry of a database: a table, a schema and a table, either with
// columns. In deny, "a.b" is both the column b of the table a and the table b of the
// schema a, and "a.b.c" is a column.
type tablePattern struct {
	database, text string
	field          string // as rules name the entry
	readings       []tableReading

	// of the first reading
	schemaText, tableText string
	columns               []string
}

// tableReading is one meaning of a pattern. A nil schema is the database's own.
type tableReading struct {
	schema, table *glob.Text
	columns       []*glob.Text // nil: all
}

var tableForm = regex.Lazy(`^[\pL\pN_$* -]+(\.[\pL\pN_$* -]+){0,2}(\([\pL\pN_$* -]+(, *[\pL\pN_$* -]+)*\))?$`)

// parseDatabasePattern reads a pattern with the name of its database: "main: orders".
func parseDatabasePattern(text string, e Effect) (pattern, error) {
	name, table, ok := strings.Cut(text, ": ")
	if !ok {
		return nil, fmt.Errorf("%q is not a valid table; expected DATABASE: TABLE", clip.Text(text, 60))
	}
	p, err := parseTable(name, table, e)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func parseTable(database, text string, e Effect) (*tablePattern, error) {
	wrong := fmt.Errorf("%q is not a valid table; expected TABLE, SCHEMA.TABLE or TABLE(COLUMN, ...), with * as a wildcard", clip.Text(text, 60))
	if !tableForm.MatchString(text) {
		return nil, wrong
	}
	p := &tablePattern{database: database, text: text}
	head, inside, listed := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	if listed {
		for _, c := range strings.Split(inside, ",") {
			p.columns = append(p.columns, strings.TrimSpace(c))
		}
	}
	parts := strings.Split(head, ".")
	p.tableText = parts[len(parts)-1]
	switch n := len(parts); {
	case n == 1:
	case n == 2:
		p.schemaText = parts[0]
	case listed || e != Deny:
		return nil, wrong
	default: // a column
		p.schemaText, p.tableText, p.columns = parts[0], parts[1], parts[2:]
	}
	if err := p.read(p.schemaText, p.tableText, p.columns, e); err != nil {
		return nil, err
	}
	if e == Deny && len(parts) == 2 && !listed {
		return p, p.read("", parts[0], parts[1:], e)
	}
	return p, nil
}

// read adds a meaning.
func (p *tablePattern) read(schema, table string, columns []string, e Effect) error {
	var t tableReading
	name := func(s string) *glob.Text {
		g, err := glob.CompileName(strings.ToLower(s), '.', e == Deny)
		if err != nil {
			return nil // the form leaves nothing that does not compile
		}
		return g
	}
	if schema != "" {
		t.schema = name(schema)
	}
	t.table = name(table)
	for _, c := range columns {
		t.columns = append(t.columns, name(c))
	}
	if t.table == nil || schema != "" && t.schema == nil || slices.Contains(t.columns, nil) {
		return fmt.Errorf("%q is not a valid table", clip.Text(p.text, 60))
	}
	p.readings = append(p.readings, t)
	return nil
}

// match reports whether the entry names a use. Case does not matter: no database that
// Remit reaches has two tables whose names differ in nothing else.
func (p *tablePattern) match(database string, u *tool.TableUse, deny bool) bool {
	if p.database != database {
		return false
	}
	column := strings.ToLower(u.Column)
	return slices.ContainsFunc(p.readings, func(t tableReading) bool {
		schema := strings.ToLower(u.Schema)
		switch {
		case t.schema == nil && !u.Own && schema != "" && schema != "main" && schema != "public":
			return false
		case t.schema != nil && !t.schema.Match(schema) && (schema != "" || !t.schema.Match("main")):
			return false
		case !t.table.Match(strings.ToLower(u.Table)):
			return false
		case t.columns == nil:
			return true
		case column == "": // that there are rows, which no list of columns hides
			return !deny
		case column == "*":
			return deny || slices.ContainsFunc(t.columns, func(c *glob.Text) bool { return c.Match("*") })
		}
		return slices.ContainsFunc(t.columns, func(c *glob.Text) bool { return c.Match(column) })
	})
}

func (p *tablePattern) String() string { return p.database + ": " + p.text }

func (p *tablePattern) print(w *printer, in int) { w.line(in, "- %s", quote(p.String())) }

func (p *tablePattern) bind(*Rules, Effect) (pattern, error) { return p, nil }

// includes knows the same entry, and one name of a table under a pattern for all columns.
func (p *tablePattern) includes(_ *Rules, other pattern) bool {
	o, ok := other.(*tablePattern)
	if !ok || o.database != p.database {
		return false
	}
	plain := !strings.Contains(o.schemaText+o.tableText, "*")
	u := tool.TableUse{Schema: o.schemaText, Table: o.tableText, Column: "*"}
	return strings.EqualFold(o.text, p.text) || plain && len(p.columns) == 0 && p.match(p.database, &u, false)
}

// disjoint knows databases, and tables that are named without wildcards.
func (p *tablePattern) disjoint(other pattern) bool {
	o, ok := other.(*tablePattern)
	if !ok {
		return false
	}
	if o.database != p.database {
		return true
	}
	plain := !strings.Contains(p.text+o.text, "*") && p.schemaText == "" && o.schemaText == ""
	return plain && !strings.EqualFold(p.tableText, o.tableText)
}
