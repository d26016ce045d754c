package database

import (
	"context"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Table is a table or view of which the caller may see something.
type Table struct {
	Name, Kind string
	Columns    []Column
}

// Column is a column that the caller may read or write.
type Column struct {
	Name, Type  string
	Read, Write bool
}

// Schema lists the tables and columns that the permit lets the call read or write.
func (d *Database) Schema(ctx context.Context) ([]Table, error) {
	at, err := d.at(false)
	if err != nil {
		return nil, err
	}
	var out []Table
	if at.Server != "" {
		out, err = d.schemaServer(ctx, at)
	} else {
		out, err = d.schemaFile(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	d.p.Note(tool.Happened{Effect: tool.DatabaseRead, On: d.name + ": the schema of " + tables(out)})
	return out, nil
}

// sees reports whether the policies let the call use a column at all.
func (d *Database) sees(k tool.ActionKind, u tool.TableUse) bool {
	return d.p.Chain().DecideAction(tool.Action{Kind: k, Database: d.name, Uses: []tool.TableUse{u}}).Effect != policy.Deny
}

func (d *Database) schemaFile(ctx context.Context, at policy.Database) ([]Table, error) {
	s, stop, err := open(ctx, at, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	may := func(k tool.ActionKind, table, column string) bool {
		if s.computed[strings.ToLower(table+"."+column)] {
			column = "*"
		}
		return d.sees(k, tool.TableUse{Table: table, Column: column})
	}
	var names []Table
	err = s.each(`SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name LIMIT ?`,
		func(name, kind string) { names = append(names, Table{Name: name, Kind: kind}) }, maxTables)
	if err != nil {
		return nil, err
	}
	out := []Table{}
	for _, t := range names {
		t.Columns = []Column{}
		err := s.each(`SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden <> 1`, func(name, typ string) {
			c := Column{name, typ, may(tool.TableRead, t.Name, name), may(tool.TableWrite, t.Name, name)}
			if c.Read || c.Write {
				t.Columns = append(t.Columns, c)
			}
		}, t.Name)
		if err != nil {
			return nil, err
		}
		if len(t.Columns) > 0 {
			out = append(out, t)
		}
	}
	return out, nil
}

// tables names tables for the record.
func tables(list []Table) string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name
	}
	if len(names) == 0 {
		return "no table"
	}
	return strings.Join(names, ", ")
}
