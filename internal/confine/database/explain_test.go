package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

// TestExplain: a plan needs the rights of its query, runs nothing, and shows no condition.
func TestExplain(t *testing.T) {
	const rest = `read: ["*"], deny: [users.password], write: ["*"]`
	for name, of := range map[string]struct {
		policy, slow string
		want         []string
	}{
		"SQLite": {databasePolicy(makeShopNamed(t, "shop.db"), rest), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", []string{"SCAN o", "SEARCH u"}},
		"PostgreSQL": {pgPolicy(pgShop(t), rest), "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 100000) c",
			[]string{"orders", "users"}},
		"MariaDB": {mariaPolicy(mariaShop(t), rest), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT count(*) FROM n a, n b, n c", []string{" on u", " on o"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := permitFor(t, of.policy)
			explain := func(text string, params ...any) (Rows, error) {
				return Open(p, "main", nil).Explain(t.Context(), text, params)
			}
			mark := map[bool]string{true: "$1", false: "?"}[name == "PostgreSQL"]
			out, err := explain("SELECT u.name, o.total FROM users u JOIN orders o ON o.user = u.id WHERE u.name <> 'confidential' AND o.total > "+mark, int64(1))
			shown := fmt.Sprint(out.Rows)
			if err != nil || len(out.Rows) < 2 || fmt.Sprint(out.Columns) != "[step rows cost]" || strings.Contains(shown, "confidential") {
				t.Fatalf("got %v, %v", out, err)
			}
			for _, want := range of.want {
				if !strings.Contains(shown, want) {
					t.Errorf("the plan does not name %s: %s", want, shown)
				}
			}
			if rows, cost := out.Rows[0][1], out.Rows[0][2]; name != "SQLite" && (rows == nil || cost == nil) {
				t.Errorf("no estimate: %s", shown)
			}
			if _, err := explain(of.slow); err != nil {
				t.Errorf("a query that would take hours: %v", err)
			}
			for _, text := range []string{"SELECT password FROM users", "ANALYZE SELECT 1", "(ANALYZE) SELECT 1", "QUERY PLAN SELECT 1", "FORMAT=JSON SELECT 1", "SELECT 1; SELECT 2",
				"INSERT INTO notes(body) VALUES ('x')", "UPDATE notes SET body = 'x'", ""} {
				if out, err := explain(text); fault.CodeOf(err) != fault.HandleRefused && fault.CodeOf(err) != fault.ArgsInvalid && fault.CodeOf(err) != fault.ToolFailed || err == nil {
					t.Errorf("%s: got %v, %v", text, out, err)
				}
			}
		})
	}
}
