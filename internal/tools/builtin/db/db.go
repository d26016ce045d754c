// Package db holds the built-in tools db.query, db.execute and db.schema, which use the
// databases that policies name. Start at [Tools].
package db

import (
	"context"
	"encoding/json"
	"math"
	"strconv"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/database"
	"github.com/remitrun/remit/internal/tools/typed"
)

type statement struct {
	Database string `json:"database"`
	SQL      string `json:"sql"`
	Params   []any  `json:"params"`
	Explain  bool   `json:"explain"` // of db.query
}

// use is what the tools need to reach databases.
type use struct {
	secret func(key string) (string, bool)
}

type schemaArgs struct {
	Database string `json:"database"`
}

const (
	named = `"database": {"type": "string", "minLength": 1, "maxLength": 40, "description": "the database, by its name in the policy"}`
	asked = named + `,
		"sql": {"type": "string", "minLength": 1, "maxLength": 100000, "description": "one statement; a parameter is ? in SQLite and MariaDB, and $1, $2 in PostgreSQL"},
		"params": {"type": "array", "maxItems": 1000, "items": {"type": ["string", "number", "boolean", "null"]}, "description": "the values of the parameters, in order"}`
	answer = `"columns": {"type": "array", "items": {"type": "string"}},
		"rows": {"type": "array", "items": {"type": "array"}, "description": "the values of each row in the order of the columns; bytes are {base64}"},
		"truncated": {"type": "boolean", "description": "there are more rows than the policy allows, or their content is too large"}`
	planned = `,
		"explain": {"type": "boolean", "description": "return how the database would run the query, with the rows and the cost that it estimates, instead of running it"}`
	listed = `"tables": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["name", "kind", "columns"], "properties": {
		"name": {"type": "string"}, "kind": {"type": "string", "description": "table or view"},
		"columns": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["name", "type", "read", "write"], "properties": {
			"name": {"type": "string"}, "type": {"type": "string"}, "read": {"type": "boolean"}, "write": {"type": "boolean"}}}}}}}`
)

// Tools returns the tools of this package. secret finds the URLs that are stored secrets.
func Tools(secret func(key string) (string, bool)) []permit.Tool {
	of := use{secret}
	return []permit.Tool{
		typed.New(tool.Spec{
			ID: "db.query", Title: "Query a database", Version: "1", Source: "builtin", Risk: tool.Medium, Effects: tool.EffectSet(tool.DatabaseRead),
			Description: "Runs one statement that reads a database which the policy names, in a read-only connection, and returns its rows, or how the database would run it.",
			Input:       typed.Object(asked+planned, "database", "sql"), Output: typed.Object(answer, "columns", "rows", "truncated"),
		}, of.prepareQuery),
		typed.New(tool.Spec{
			ID: "db.execute", Title: "Change rows of a database", Version: "1", Source: "builtin", Risk: tool.High, Effects: tool.EffectSet(tool.DatabaseRead, tool.DatabaseWrite),
			Description: "Runs one INSERT, UPDATE or DELETE on a database which the policy names, in a transaction of its own, and returns how many rows it changed and the rows of RETURNING.",
			Input:       typed.Object(asked, "database", "sql"),
			Output:      typed.Object(answer+`, "changed": {"type": "integer", "description": "rows inserted, changed or deleted"}`, "columns", "rows", "truncated", "changed"),
		}, of.prepareExecute),
		typed.New(tool.Spec{
			ID: "db.schema", Title: "Describe a database", Version: "1", Source: "builtin", Risk: tool.Low, Effects: tool.EffectSet(tool.DatabaseRead),
			Description: "Lists the tables and columns of a database that the policy lets the caller read or write.",
			Input:       typed.Object(named, "database"), Output: typed.Object(listed, "tables"),
		}, of.prepareSchema),
	}
}

func (u use) prepareQuery(_ tool.Env, a statement) (permit.Prepared, error) {
	params, err := values(a.Params)
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.TableRead, Database: a.Database, SQL: a.SQL}},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			d := database.Open(p, a.Database, u.secret)
			run := d.Query
			if a.Explain {
				run = d.Explain
			}
			out, err := run(ctx, a.SQL, params)
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: map[string]any{"columns": out.Columns, "rows": out.Rows, "truncated": out.Truncated}}, nil
		},
	}, err
}

func (u use) prepareExecute(_ tool.Env, a statement) (permit.Prepared, error) {
	params, err := values(a.Params)
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.TableWrite, Database: a.Database, SQL: a.SQL}, {Kind: tool.TableRead, Database: a.Database, SQL: a.SQL}},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			out, err := database.Open(p, a.Database, u.secret).Execute(ctx, a.SQL, params)
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: map[string]any{"columns": out.Columns, "rows": out.Rows, "truncated": out.Truncated, "changed": out.Changed}}, nil
		},
	}, err
}

func (u use) prepareSchema(_ tool.Env, a schemaArgs) (permit.Prepared, error) {
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.TableRead, Database: a.Database}},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			tables, err := database.Open(p, a.Database, u.secret).Schema(ctx)
			if err != nil {
				return tool.Result{}, err
			}
			list := make([]any, len(tables))
			for i, t := range tables {
				columns := make([]any, len(t.Columns))
				for k, c := range t.Columns {
					columns[k] = map[string]any{"name": c.Name, "type": c.Type, "read": c.Read, "write": c.Write}
				}
				list[i] = map[string]any{"name": t.Name, "kind": t.Kind, "columns": columns}
			}
			return tool.Result{Output: map[string]any{"tables": list}}, nil
		},
	}, nil
}

// values are parameters as the driver binds them.
func values(params []any) ([]any, error) {
	out := make([]any, len(params))
	for i, v := range params {
		out[i] = v
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		if whole, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			out[i] = whole
			continue
		}
		f, err := n.Float64()
		if err != nil || math.IsInf(f, 0) {
			return nil, fault.New(fault.ArgsInvalid, "the number %q is too large", n).In("params[" + strconv.Itoa(i) + "]")
		}
		out[i] = f
	}
	return out, nil
}
