package database

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testedServers are the versions whose answers are those of testdata. docs/databases.md
// names them.
func testedServers() map[string][]string {
	return map[string][]string{
		"MariaDB":    {"10.11.14", "10.11.18", "10.11.19", "11.8.9"},
		"PostgreSQL": {"15.18"},
	}
}

// serverVersion compares the answers of one server with those that the tests expect.
type serverVersion struct {
	t             *testing.T
	name, version string
}

func newServerVersion(t *testing.T, name, version string) *serverVersion {
	t.Helper()
	version, _, _ = strings.Cut(version, " ")
	version, _, _ = strings.Cut(version, "-")
	t.Logf("%s %s", name, version)
	return &serverVersion{t, name, version}
}

// stricter reports that the server refuses what Remit would allow. It fails the test for a
// tested version. For another version it is a warning: such a server allows less.
func (v *serverVersion) stricter(format string, args ...any) {
	v.t.Helper()
	text := fmt.Sprintf("%s %s: ", v.name, v.version) + fmt.Sprintf(format, args...)
	if slices.Contains(testedServers()[v.name], v.version) {
		v.t.Error(text)
		return
	}
	v.t.Log("warning: " + text)
	if file := os.Getenv("REMIT_TEST_WARNINGS"); file != "" { // go test hides the log of a test that passes
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			v.t.Fatal(err)
		}
		_, err = fmt.Fprintln(f, text)
		if err := f.Close(); err != nil {
			v.t.Error(err)
		}
		if err != nil {
			v.t.Error(err)
		}
	}
}

// statements splits a file of statements, each followed by its indented results.
func statements(text string) (out [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "\t") {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], line)
	}
	return out
}

// compare compares the results of all statements with the expected ones.
func (v *serverVersion) compare(want, got string) {
	v.t.Helper()
	refused, other := differences(want, got)
	for _, d := range refused {
		v.stricter("%s", d)
	}
	for _, d := range other {
		v.t.Errorf("%s %s: %s", v.name, v.version, d)
	}
}

// differences lists the statements that are now refused, apart from those with any other
// difference.
func differences(want, got string) (refused, other []string) {
	wanted, results := statements(want), statements(got)
	if len(wanted) != len(results) {
		return nil, []string{fmt.Sprintf("got %d statements, want %d", len(results), len(wanted))}
	}
	for i, w := range wanted {
		g := results[i]
		d := cmp.Diff(w, g)
		switch {
		case d == "":
		case len(g) == 2 && (strings.HasPrefix(g[1], "\terror: ") || strings.HasPrefix(g[1], "\trefused: ")):
			refused = append(refused, d)
		default:
			other = append(other, d)
		}
	}
	return refused, other
}

// TestServersAreNamed holds the documentation to the versions that are tested.
func TestServersAreNamed(t *testing.T) {
	doc := string(must(os.ReadFile("../../../docs/databases.md")))
	for name, versions := range testedServers() {
		if line := "tested with " + name + " " + strings.Join(versions, ", "); !strings.Contains(doc, line) {
			t.Errorf("docs/databases.md does not say %q", line)
		}
	}
}

// TestAnotherVersionMayOnlyRefuseMore pins what is a warning for a version that was not tested.
func TestAnotherVersionMayOnlyRefuseMore(t *testing.T) {
	const want = "SELECT a\n\treads t(a)\n"
	for got, warning := range map[string]bool{
		"SELECT a\n\terror: no such column\n": true, "SELECT a\n\trefused: a view\n": true,
		"SELECT a\n\tuses no table\n": false, "SELECT a\n\treads t(b)\n": false, "SELECT a\n": false, "": false,
	} {
		refused, other := differences(want, got)
		if (len(refused) == 1) != warning || (len(other) == 1) == warning {
			t.Errorf("%q instead of %q: got warnings %q and failures %q", got, want, refused, other)
		}
	}
}
