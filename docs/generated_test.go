package docs_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
)

// generated compares the part of a document between <!-- generated: NAME -->
// and <!-- end --> with what it should hold, or with -update writes it.
func generated(t *testing.T, doc, name, want string) {
	t.Helper()
	text := read(t, doc)
	head := "<!-- generated: " + name + " -->\n"
	before, rest, ok := strings.Cut(text, head)
	got, after, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no generated part %q", doc, name)
	}
	if want = "\n" + strings.TrimSpace(want) + "\n\n"; got == want {
		return
	}
	if !*update {
		t.Fatalf("%s: the part %q is out of date; run: go test ./docs -update", doc, name)
	}
	if err := os.WriteFile(filepath.Join(repo, doc), []byte(before+head+want+"<!-- end -->"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remit(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("remit %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

func TestErrorsAreListed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repo, "internal/base/fault/fault.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| error | means | exit status |\n| --- | --- | --- |\n")
	rows := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || spec.Comment == nil {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		number, err := strconv.Atoi(lit.Value)
		if err != nil {
			return true
		}
		c := fault.Code(number)
		fmt.Fprintf(&b, "| %s | %s | %d |\n", c.Error(), cell(strings.TrimSpace(spec.Comment.Text())), c.Exit())
		rows++
		return true
	})
	if rows < 20 {
		t.Fatalf("only %d errors found", rows)
	}
	generated(t, "docs/cli.md", "errors", b.String())
}

var (
	flagLine     = regexp.MustCompile(`^ +(?:(-\w), )?(--[a-z0-9-]+)(?: ([a-zA-Z=]+))?   +(.*)$`)
	continuation = regexp.MustCompile(`\n {12,}(\S)`) // of a flag's usage, in the help's 80 columns
)

// command describes a command as its help does, and those below it.
func command(t *testing.T, b *strings.Builder, words ...string) {
	help := remit(t, append(slices.Clone(words), "--help")...)
	text, rest := help, ""
	if i := strings.LastIndex(help, "\nExit status"); i >= 0 {
		text, rest = help[:i], help[i:]
	}
	_, usage, _ := strings.Cut(rest, "Usage:\n  ")
	usage, rest, _ = strings.Cut(usage, "\n")
	fmt.Fprintf(b, "### remit %s\n\n`%s`\n\n%s\n\n", strings.Join(words, " "), strings.TrimSuffix(usage, " [flags]"), strings.TrimSpace(text))
	_, flags, _ := strings.Cut(rest, "\nFlags:\n")
	flags, _, _ = strings.Cut(flags, "\nGlobal Flags:")
	var rows []string
	for line := range strings.SplitSeq(continuation.ReplaceAllString(flags, " $1"), "\n") {
		m := flagLine.FindStringSubmatch(line)
		if m == nil || m[2] == "--help" {
			continue
		}
		name := "`" + strings.TrimSpace(m[2]+" "+m[3]) + "`"
		if m[1] != "" {
			name = "`" + m[1] + "`, " + name
		}
		rows = append(rows, fmt.Sprintf("| %s | %s |", name, cell(m[4])))
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "| flag | |\n| --- | --- |\n%s\n\n", strings.Join(rows, "\n"))
	}
	_, sub, _ := strings.Cut(rest, "Available Commands:\n")
	sub, _, _ = strings.Cut(sub, "\n\n")
	for line := range strings.SplitSeq(sub, "\n") {
		if f := strings.Fields(line); len(f) > 1 {
			command(t, b, append(slices.Clone(words), f[0])...)
		}
	}
}

func TestCommandsAreListed(t *testing.T) {
	_, list, _ := strings.Cut(remit(t, "help", "--all"), "\nRun:\n")
	list, _, _ = strings.Cut(list, "\n\nFlags:\n")
	var b strings.Builder
	for line := range strings.SplitSeq(list, "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "completion" && f[0] != "help" {
			command(t, &b, f[0])
		}
	}
	generated(t, "docs/cli.md", "commands", b.String())
}

type schema struct {
	Properties map[string]struct {
		Type        any
		Description string
		Default     any
		Enum        []any
	}
	Required []string
}

func TestToolsAreListed(t *testing.T) {
	var list struct{ Items []struct{ ID string } }
	if err := json.Unmarshal([]byte(remit(t, "tools", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) < 10 {
		t.Fatalf("only %d tools", len(list.Items))
	}
	var table, all strings.Builder
	table.WriteString("| tool | risk | side effects | |\n| --- | --- | --- | --- |\n")
	for _, one := range list.Items {
		var d struct {
			ID, Title, Description, Risk string
			Effects                      []string
			Input                        schema `json:"input_schema"`
			Output                       schema `json:"output_schema"`
		}
		if err := json.Unmarshal([]byte(remit(t, "tool", one.ID, "--json")), &d); err != nil {
			t.Fatal(err)
		}
		effects := strings.Join(d.Effects, ", ")
		if effects == "" {
			effects = "none"
		}
		fmt.Fprintf(&table, "| [`%s`](#%s) | %s | %s | %s |\n", d.ID, strings.ReplaceAll(d.ID, ".", ""), d.Risk, effects, d.Title)
		fmt.Fprintf(&all, "## %s\n\n%s\n\n%s\n%s\n", d.ID, d.Description, fields("argument", d.Input), fields("output", d.Output))
	}
	generated(t, "docs/tools.md", "tools", table.String()+"\n"+all.String())
}

// fields is a table of a schema's properties.
func fields(what string, s schema) string {
	var names []string
	for n := range s.Properties {
		names = append(names, n)
	}
	slices.Sort(names)
	out := fmt.Sprintf("| %s | type | |\n| --- | --- | --- |\n", what)
	for _, n := range names {
		p := s.Properties[n]
		notes := []string{}
		if p.Description != "" {
			notes = append(notes, p.Description)
		}
		if len(p.Enum) > 0 {
			notes = append(notes, "one of "+strings.Trim(fmt.Sprint(p.Enum), "[]"))
		}
		if p.Default != nil {
			notes = append(notes, fmt.Sprintf("default %v", p.Default))
		}
		if what == "argument" && slices.Contains(s.Required, n) {
			notes = append(notes, "required")
		}
		kind := "any"
		switch k := p.Type.(type) {
		case string:
			kind = k
		case []any:
			kind = strings.ReplaceAll(strings.Trim(fmt.Sprint(k), "[]"), " ", " or ")
		}
		out += fmt.Sprintf("| `%s` | %s | %s |\n", n, kind, cell(strings.Join(notes, "; ")))
	}
	return out
}

// cell is text for a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

// TestGoExamplesAreShown: the guides show the examples that the Go package is tested with.
func TestGoExamplesAreShown(t *testing.T) {
	for _, one := range []struct{ page, part, file, begins, ends string }{
		{"docs/guide.md", "go", "example_test.go", "rt, err := remit.Open(", "Output:"},
		{"docs/guide.md", "tools in go", "example_tools_test.go", "type ship struct", "Output:"},
		{"docs/agents-guide.md", "agents in go", "example_agents_test.go", "rt, err := remit.Open(", "Unordered output:"},
	} {
		_, body, ok := strings.Cut(read(t, one.file), "\n\t"+one.begins)
		body, output, ok2 := strings.Cut(body, "\n\t// "+one.ends+"\n")
		if !ok || !ok2 {
			t.Fatalf("%s has no example that begins with %q", one.file, one.begins)
		}
		code := one.begins + strings.ReplaceAll(body, "\n\t", "\n")
		output, _, _ = strings.Cut(output, "\n}")
		output = strings.ReplaceAll(strings.ReplaceAll(output, "\t// ", ""), "\t", "")
		generated(t, one.page, one.part, "```go\n"+code+"\n```\n\nIt prints:\n\n```\n"+output+"\n```")
	}
}

// TestTheTestOfAnAgentIsShown: the guide shows the test that the package for tests is tested with.
func TestTheTestOfAnAgentIsShown(t *testing.T) {
	const begins, policy = "func TestAnAgentWithoutAModel", "const policy = "
	src := read(t, "remittest/remittest_test.go")
	_, head, ok := strings.Cut(src, policy)
	head, _, ok2 := strings.Cut(head, "\n\n")
	_, body, ok3 := strings.Cut(src, begins)
	body, _, ok4 := strings.Cut(body, "\n}\n")
	if !ok || !ok2 || !ok3 || !ok4 {
		t.Fatalf("remittest has no test that begins with %q, or no policy", begins)
	}
	generated(t, "docs/guide.md", "a test in go", "```go\n"+policy+head+"\n\n"+begins+body+"\n}\n```")
}

// TestProfilesAreShown: the page has every ready policy as it is written.
func TestProfilesAreShown(t *testing.T) {
	all, err := profile.All()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "## %s\n\n```yaml\n%s```\n\n", p.Name, p.Source)
	}
	generated(t, "docs/profiles.md", "profiles", b.String())
	b.Reset()
	for _, name := range profile.AgentNames() {
		a, err := profile.FindAgent(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "### %s\n\n```yaml\n%s```\n\n", a.Title, a.Source)
	}
	generated(t, "docs/profiles.md", "agent profiles", b.String())
}

// TestPackagesAreListed: the table of packages in architecture.md is the first
// sentence of each package's comment.
func TestPackagesAreListed(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", "{{if .GoFiles}}{{.ImportPath}}\t{{.Doc}}{{end}}", ".", "./internal/...")
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	folders := strings.Fields(". cli app doors service agents call tools confine record authority base")
	for line := range strings.Lines(string(out)) {
		pkg, doc, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if pkg == "" {
			continue
		}
		_, short, internal := strings.Cut(pkg, "/internal/")
		if !internal {
			short = "."
		}
		folder, _, _ := strings.Cut(short, "/")
		if !slices.Contains(folders, folder) {
			t.Errorf("package %s is in no folder of the architecture", short)
		}
		doc = strings.TrimSuffix(regexp.MustCompile(`^Package \w+ `).ReplaceAllString(doc, ""), ".")
		if doc == "" {
			t.Errorf("package %s has no comment", short)
		}
		rows[folder] = append(rows[folder], fmt.Sprintf("| `%s` | %s |\n", short, cell(doc)))
	}
	var b strings.Builder
	b.WriteString("| package | what it does |\n| --- | --- |\n")
	for _, folder := range folders {
		for _, row := range rows[folder] {
			b.WriteString(row)
		}
	}
	generated(t, "docs/architecture.md", "packages", b.String())
}

// TestBuiltInToolIsShown keeps the page on built-in tools like the code that is tested.
func TestBuiltInToolIsShown(t *testing.T) {
	for name, file := range map[string]string{"built-in tool": "example_count_test.go", "built-in tool test": "example_contract_test.go"} {
		clause := "package count"
		if name == "built-in tool" {
			clause = "// Package count holds the built-in tool text.count, which counts how often a text\n// occurs in a file.\n" + clause
		}
		code := strings.Replace(read(t, "internal/tools/typed/"+file), "package typed_test", clause, 1)
		generated(t, "docs/built-in-tool.md", name, "```go\n"+code+"```")
	}
}
