package database

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// maxSteps bounds how many steps of a plan are shown.
const maxSteps = 1000

// Explain returns how the database would run a query, and does not run it: one row for each
// step, with the rows and the cost that the database estimates. It needs the same rights as
// the query. A step has no conditions: conditions of views hold values that the caller did not write.
func (d *Database) Explain(ctx context.Context, statement string, params []any) (Rows, error) {
	return d.run(ctx, call{sql: statement, params: params, explain: true})
}

// steps are the rows of an explanation.
func steps() Rows { return Rows{Columns: []string{"step", "rows", "cost"}, Rows: [][]any{}} }

func (r *Rows) step(depth int, text string, rows, cost any) {
	if len(r.Rows) == maxSteps {
		r.Truncated = true
		return
	}
	r.Rows = append(r.Rows, []any{strings.Repeat("  ", min(depth, 50)) + clip.Text(visible(text), 300), rows, cost})
}

// explain lists the steps of a query in a file. SQLite estimates no rows.
func (s *session) explain(what call) (Rows, error) {
	out := steps()
	rows, err := s.conn.QueryContext(s.ctx, "EXPLAIN QUERY PLAN "+what.sql, what.params...)
	if err != nil {
		return out, s.failed(err)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	depth := map[int]int{}
	for rows.Next() {
		var id, parent, unused int
		var text string
		if err := rows.Scan(&id, &parent, &unused, &text); err != nil {
			return out, s.failed(err)
		}
		depth[id] = depth[parent] + 1
		out.step(depth[parent], text, nil, nil)
	}
	if err := rows.Err(); err != nil {
		return out, s.failed(err)
	}
	return out, nil
}

// pgPlan is a step of PostgreSQL's plan, with the fields that the caller may see.
type pgPlan struct {
	Type     string   `json:"Node Type"`
	Relation string   `json:"Relation Name"`
	Index    string   `json:"Index Name"`
	Rows     float64  `json:"Plan Rows"`
	Cost     float64  `json:"Total Cost"`
	Plans    []pgPlan `json:"Plans"`
}

// explain lists the steps of a query that was described.
func (s *pgSession) explain(sql string, what *pgconn.StatementDescription, values [][]byte) (Rows, error) {
	out := steps()
	res := s.conn.ExecParams(s.ctx, "EXPLAIN (FORMAT JSON) "+sql, values, what.ParamOIDs, nil, nil).Read()
	if res.Err != nil {
		return out, s.failed(res.Err)
	}
	var plans []struct{ Plan pgPlan }
	if len(res.Rows) != 1 || json.Unmarshal(res.Rows[0][0], &plans) != nil {
		return out, fault.New(fault.ToolFailed, "the database %q explains the statement in a form that Remit does not know", s.limits.Name)
	}
	for _, p := range plans {
		p.Plan.add(&out, 0)
	}
	return out, nil
}

func (p *pgPlan) add(out *Rows, depth int) {
	text := p.Type
	if p.Relation != "" {
		text += " on " + p.Relation
	}
	if p.Index != "" {
		text += " using " + p.Index
	}
	out.step(depth, text, p.Rows, p.Cost)
	for i := range p.Plans {
		p.Plans[i].add(out, depth+1)
	}
}

// mariaSteps makes the steps of MariaDB's table of a plan. It has the cost of the whole only.
func (s *mariaSession) mariaSteps(plan Rows) (Rows, error) {
	out := steps()
	out.Truncated = plan.Truncated
	at := map[string]int{}
	for i, c := range plan.Columns {
		at[c] = i
	}
	text := func(row []any, column string) string {
		i, known := at[column]
		if t, ok := row[min(i, len(row)-1)].(string); known && ok {
			return t
		}
		return ""
	}
	var cost any
	status, err := s.texts("SHOW SESSION STATUS LIKE 'Last_query_cost'")
	if err != nil {
		return out, err
	}
	if len(status) == 1 {
		if f, err := strconv.ParseFloat(status[0][1], 64); err == nil && f > 0 {
			cost = f
		}
	}
	for _, row := range plan.Rows {
		step := strings.ToLower(text(row, "select_type"))
		for _, part := range []struct{ before, column string }{{" on ", "table"}, {", ", "type"}, {" using ", "key"}} {
			if t := text(row, part.column); t != "" {
				step += part.before + t
			}
		}
		var rows any
		if n, err := strconv.ParseFloat(text(row, "rows"), 64); err == nil {
			rows = n
		}
		if i, known := at["rows"]; known && rows == nil {
			rows = row[i]
		}
		out.step(0, step, rows, cost)
		cost = nil
	}
	return out, nil
}
