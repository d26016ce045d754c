package database

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// driverFolder is the source of a driver.
func driverFolder(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("the source of %s cannot be found: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// driverVariables are all names that begin with PG in the driver's source. Its parser reads only some of them.
func driverVariables(t *testing.T) []string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(driverFolder(t, "github.com/jackc/pgx/v5"), "pgconn", "config.go"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var names []string
	for _, name := range regexp.MustCompile(`\bPG[A-Z_]{2,}\b`).FindAllString(string(src), -1) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	if len(names) < 20 || !seen["PGREQUIREAUTH"] || !seen["PGSERVICE"] {
		t.Fatalf("found only %v in the driver's source", names)
	}
	return names
}

// fields returns the fields of a configuration. Of a function only its presence counts.
func fields(c *pgconn.Config) map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !v.Type().Field(i).IsExported():
		case f.Kind() == reflect.Func:
			out[v.Type().Field(i).Name] = f.IsNil()
		default:
			out[v.Type().Field(i).Name] = f.Interface()
		}
	}
	return out
}

// Neither a variable of the environment nor a file in the home folder changes a connection.
func TestTheEnvironmentChangesNoConnection(t *testing.T) {
	names := driverVariables(t)
	home := t.TempDir()
	service := filepath.Join(home, ".pg_service.conf")
	for file, text := range map[string]string{service: "[evil]\nhost=evil.example\nrequire_auth=none\nsearch_path=evil\nkrbspn=evil\n", filepath.Join(home, ".pgpass"): "*:*:*:*:evil\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(values map[string]string) map[string]any {
		t.Helper()
		for _, name := range names {
			value, set := values[name]
			if !set {
				value = values["*"]
			}
			t.Setenv(name, value)
			if values == nil {
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		base, err := readDriverConfig()
		if err != nil {
			t.Fatalf("with %v: %v", values, err)
		}
		driverConfig = func() (*pgconn.Config, error) { return base, nil }
		s := &pgSession{limits: policy.Database{Name: "shop"}}
		out, err := s.config("postgres://u@db.example/n?sslmode=disable", func(tool.Action) error { return nil })
		if err != nil {
			t.Fatalf("with %v: %v", values, err)
		}
		return fields(out)
	}
	old := driverConfig
	t.Cleanup(func() { driverConfig = old })
	t.Setenv("HOME", t.TempDir())
	want := config(nil)
	t.Setenv("HOME", home)
	for _, values := range []map[string]string{
		{"*": ""}, {"*": "evil"}, {"*": "1"}, {"*": "disable"}, {"*": "'"}, {"*": "/dev/null"},
		{"*": "evil", "PGSERVICEFILE": service}, {"PGSERVICE": "evil"},
		{"PGREQUIREAUTH": "none", "PGCHANNELBINDING": "require", "PGCONNECT_TIMEOUT": "1", "PGMINPROTOCOLVERSION": "3.2", "PGMAXPROTOCOLVERSION": "3.2",
			"PGSSLNEGOTIATION": "direct", "PGSSLCERTMODE": "require", "PGTARGETSESSIONATTRS": "read-write", "PGOPTIONS": "-c search_path=evil"},
	} {
		if got := config(values); !reflect.DeepEqual(got, want) {
			t.Errorf("with %v:\n%v\nwant\n%v", values, got, want)
		}
	}
}

// The driver of MariaDB reads no variable. The driver of SQLite reads those that name the folder
// of temporary files, and makes no such file.
func TestOtherDriversAndTheEnvironment(t *testing.T) {
	err := filepath.WalkDir(driverFolder(t, "github.com/go-sql-driver/mysql"), func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		src, err := os.ReadFile(file)
		if use := regexp.MustCompile(`os\.(Getenv|LookupEnv|Environ|ExpandEnv|UserHomeDir)|user\.Current`).Find(src); use != nil {
			t.Errorf("%s uses %s", file, use)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d := policy.Database{Name: "shop", File: filepath.Join(t.TempDir(), "shop.db")}
	if err := os.WriteFile(d.File, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, stop, err := open(context.Background(), d, false)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var store string
	if err := s.each("SELECT temp_store, '' FROM pragma_temp_store", func(v, _ string) { store = v }); err != nil || store != "2" {
		t.Errorf("temp_store is %q, want 2 (in memory); %v", store, err)
	}
}
