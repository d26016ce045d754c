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
	"strconv"
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
		"requests": d.Requests, "uploads": d.Large, "runs": d.Runs, "streams": d.Streams, "mcp_clients": "by memory", "refused_per_second": d.Refused, "turn": d.Turn,
		"open_runs": d.OpenRuns, "open_run_idle": d.RunIdle}
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

// verb is a verb of a format.
var verb = regexp.MustCompile(`%[.0-9]*[a-z]`)

// fixedLimits makes the table of the constants.
func fixedLimits(t *testing.T) string {
	t.Helper()
	files, sets := map[string][]*ast.File{}, map[string][]*token.FileSet{}
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
			files[rel] = append(files[rel], f)
			sets[rel] = append(sets[rel], set)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var rows []string
	for rel, all := range files {
		said := map[string]string{}
		for _, f := range all {
			ast.Inspect(f, func(n ast.Node) bool { messageAt(said, n); return true })
		}
		for i, f := range all {
			for _, decl := range f.Decls {
				if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
					rows = append(rows, limitRows(sets[rel][i], rel, d, said)...)
				}
			}
		}
	}
	slices.Sort(rows)
	return "| package | limit | value | | message at the limit |\n| --- | --- | --- | --- | --- |\n" + strings.Join(rows, "")
}

// messageAt notes the message of a limit: of the first error that a branch makes whose condition names the
// limit, or of an error whose message has the limit.
func messageAt(said map[string]string, n ast.Node) {
	var text string
	var names ast.Node
	shown := false // the names are arguments of the message
	switch n := n.(type) {
	case *ast.IfStmt:
		names = n.Cond
		ast.Inspect(n.Body, func(n ast.Node) bool {
			if text == "" {
				text = errorMessage(n)
			}
			return text == ""
		})
	case *ast.CallExpr:
		text = errorMessage(n)
		names, shown = &ast.CompositeLit{Elts: n.Args}, true
	}
	if text == "" {
		return
	}
	ast.Inspect(names, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && limitName.MatchString(id.Name) && said[id.Name] == "" {
			said[id.Name] = text
		}
		_, inner := n.(*ast.CallExpr)
		return !inner || !shown // a call may shorten a shown text to another limit
	})
}

// errorMessage gives the message of a call of fault.New or fault.Wrap; "": it is another node.
func errorMessage(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	from, ok := fun.X.(*ast.Ident)
	if !ok || from.Name != "fault" || fun.Sel.Name != "New" && fun.Sel.Name != "Wrap" {
		return ""
	}
	for _, arg := range call.Args {
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			return text
		}
	}
	return ""
}

// TestMessagesAtLimitsAreFound: however a function makes the error of a limit, its message is in the table.
func TestMessagesAtLimitsAreFound(t *testing.T) {
	for name, statement := range map[string]string{
		"returned at the limit":             `if n > maxOf { return fault.New(fault.Usage, "over") }`,
		"wrapped at the limit":              `if n > maxOf { return fault.Wrap(fault.Usage, err, "over") }`,
		"assigned in a branch of its own":   `if why { many = fault.New(fault.Usage, "over", maxOf) }`,
		"assigned in a function of its own": `w.f = func() { many = fault.New(fault.Usage, "over", maxOf).WithHint("less") }`,
		"in another unit":                   `return fault.New(fault.Usage, "over", maxOf>>20)`,
		"beside the bound of a shown text":  `if why { _ = fault.New(fault.Usage, "other", clip.Line(s, maxOf)); return fault.New(fault.Usage, "over", maxOf) }`,
		"after another error":               `if n > maxOf { log() }; if why { return fault.Wrap(fault.Usage, err, "over", maxOf) }`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() error { "+statement+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		ast.Inspect(f, func(n ast.Node) bool { messageAt(said, n); return true })
		if said["maxOf"] != "over" {
			t.Errorf("%s: the message is %q", name, said["maxOf"])
		}
	}
}

// limitRows makes the rows of the limits among some constants. said has their messages.
func limitRows(set *token.FileSet, pkg string, d *ast.GenDecl, said map[string]string) (rows []string) {
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
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | `%s` | %s | %s |\n", pkg, v.Names[0].Name, value.String(), cell(about), cell(verb.ReplaceAllString(said[v.Names[0].Name], "…"))))
	}
	return rows
}
