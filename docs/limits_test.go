package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/settings"
)

// TestLimitsAreInTheTable: docs/limits.md has each setting of the section limits with its default,
// and each constant that is a limit.
func TestLimitsAreInTheTable(t *testing.T) {
	text := read(t, "docs/limits.md")
	d := httpapi.Defaults()
	defaults := map[string]any{"connections": d.Conns, "connections_per_address": d.PerAddress, "header_bytes": d.Header, "body_bytes": d.Body, "file_bytes": d.File,
		"requests": d.Requests, "uploads": d.Large, "runs": d.Runs, "streams": d.Streams, "mcp_clients": "by memory", "refused_per_second": d.Refused, "turn": d.Turn}
	_, err := settings.Read("config.yaml", []byte("limits: {zzzzzzzzzz: 1}"))
	_, known, found := strings.Cut(fmt.Sprint(err), "(known keys: ")
	keys := strings.Split(strings.TrimSuffix(known, ")"), ", ")
	if !found || len(keys) != len(defaults) {
		t.Fatalf("%d settings have a default: %v", len(defaults), err)
	}
	for _, key := range keys {
		if row := fmt.Sprintf("| `%s` | %v |", key, defaults[key]); strings.Count(text, row) != 1 {
			t.Errorf("docs/limits.md has no row that begins with %s", row)
		}
	}
	if n := strings.Count(text, "\n| `"); n < len(keys)+50 {
		t.Errorf("only %d rows", n)
	}
	generated(t, "docs/limits.md", "limits", fixedLimits(t))
}

var limitName = regexp.MustCompile(`^(max|most)[A-Z]`)

// fixedLimits makes the table of the constants.
func fixedLimits(t *testing.T) string {
	t.Helper()
	var rows []string
	for _, folder := range []string{"doors", "service", "agents", "call"} {
		root := filepath.Join(repo, "internal", folder)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(filepath.Join(repo, "internal"), filepath.Dir(path))
			for _, decl := range f.Decls {
				if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
					rows = append(rows, limitRows(set, rel, d)...)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(rows)
	return "| package | limit | value | |\n| --- | --- | --- | --- |\n" + strings.Join(rows, "")
}

// limitRows makes the rows of the limits among some constants.
func limitRows(set *token.FileSet, pkg string, d *ast.GenDecl) (rows []string) {
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !limitName.MatchString(v.Names[0].Name) {
			continue
		}
		var value strings.Builder
		if printer.Fprint(&value, set, v.Values[0]) != nil {
			continue
		}
		about := v.Comment.Text()
		if about == "" && len(d.Specs) == 1 {
			about = d.Doc.Text()
		}
		about = strings.Join(strings.Fields(about), " ")
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | `%s` | %s |\n", pkg, v.Names[0].Name, value.String(), cell(about)))
	}
	return rows
}
