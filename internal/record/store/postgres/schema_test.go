package postgres_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

var update = flag.Bool("update", false, "rewrite schema.txt")

// TestSchemaIsListed: schema.txt is what verification compares the schema with.
func TestSchemaIsListed(t *testing.T) {
	home := t.TempDir()
	open(t, home)
	ctx := t.Context()
	c, err := pgx.Connect(ctx, server.Schema(t, home))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, err := c.Query(ctx, postgres.SelectObjects)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var name, def string
		err := r.Scan(&name, &def)
		return name + "\t" + def + "\n", err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile("schema.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("schema.txt")
	if err != nil || got != string(want) {
		t.Errorf("schema.txt is not the schema of the migrations (go test -run TestSchemaIsListed -update): %v\n%s", err, got)
	}
}
