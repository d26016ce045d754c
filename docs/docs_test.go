// Package docs_test keeps the documentation true: the commands that it shows
// are run and must print what it says, what it generates must be up to date,
// and every file and test that it names must be there.
package docs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/service/settings"
)

var update = flag.Bool("update", false, "write what commands print, and generated parts, into the documents")

var (
	repo   string // the project's folder
	binary string // remit, built from this source
	// goCache is where Go keeps what it built: documents build a program.
	goCache string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "remit-docs")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if repo, err = filepath.Abs(".."); err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "bin", "remit")
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/remit")
	cmd.Dir, cmd.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		panic(err)
	}
	goCache = strings.TrimSpace(string(cache))
	return m.Run()
}

// documents are the Markdown files, by their paths in the project.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(repo, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(repo, f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, rel)
		}
	}
	if len(out) < 2 {
		t.Fatalf("only %v found: the test shows nothing", out)
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// canConfine reports whether this machine runs commands at all.
func canConfine(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command(binary, "doctor", "--json")
	cmd.Env = []string{"REMIT_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Layers []struct{ Available, Required bool }
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	for _, l := range d.Layers {
		if l.Required && !l.Available {
			return false
		}
	}
	return len(d.Layers) > 0
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	testLink = regexp.MustCompile("\\[`((?:Test|Fuzz)[A-Za-z0-9_]+)`\\]\\(([^)]+)\\)")
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestLinksLead: files, headings and tests that a document names are there.
func TestLinksLead(t *testing.T) {
	for _, name := range documents(t) {
		text := read(t, name)
		for _, m := range testLink.FindAllStringSubmatch(text, -1) {
			src, err := os.ReadFile(filepath.Join(repo, filepath.Dir(name), m[2]))
			if err != nil || !bytes.Contains(src, []byte("func "+m[1]+"(")) {
				t.Errorf("%s: there is no %s in %s", name, m[1], m[2])
			}
		}
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(repo, target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, target, anchor)
			}
		}
	}
}

// unpromised are the sections of guarantees.md that promise nothing. Each of the other lines is a row
// of a table whose last cell names a test, leads to such a table, or names a test in each sentence.
var unpromised = []string{"## What is not promised", "## All faults at random"}

// sentence is a sentence. A full stop within it is followed by no space.
var sentence = regexp.MustCompile(`[^.]+(?:\.[^ ][^.]*)*(?:\.|$)`)

// namesTest reports whether a text names a test, or a script.
func namesTest(text string) bool {
	return testLink.MatchString(text) || strings.Contains(text, ".txtar)")
}

// TestEveryPromiseHasATest: each sentence of guarantees.md that promises something names a test or a
// script. TestLinksLead checks that they are there.
func TestEveryPromiseHasATest(t *testing.T) {
	rows, section := 0, ""
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, "docs/guarantees.md"), "")
	lines := strings.Split(prose, "\n")
	for i, line := range lines {
		line = strings.TrimPrefix(strings.TrimSpace(line), "> ")
		next := ""
		if i+1 < len(lines) {
			next = lines[i+1]
		}
		switch {
		case strings.HasPrefix(line, "#"):
			section = line
		case line == "", slices.Contains(unpromised, section), strings.HasSuffix(line, ":"):
		case strings.HasPrefix(line, "| ---"), strings.HasPrefix(next, "| ---"): // the head of a table
		case strings.HasPrefix(line, "|"):
			rows++
			if cells := strings.Split(strings.Trim(line, "|"), "|"); !namesTest(cells[len(cells)-1]) {
				t.Errorf("no test is named for%s", cells[0])
			}
		default:
			for _, s := range sentence.FindAllString(line, -1) {
				if !namesTest(s) {
					t.Errorf("no test is named for the sentence %q", strings.TrimSpace(s))
				}
			}
		}
	}
	if rows < 80 {
		t.Errorf("only %d promises were found", rows)
	}
}

// anchors are a document's headings as links name them.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		s := strings.ToLower(strings.TrimSpace(m[1]))
		s = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(s, "")
		out = append(out, strings.ReplaceAll(s, " ", "-"))
	}
	return out
}

// TestPathsAreThere: a path of the source that a document names is there.
func TestPathsAreThere(t *testing.T) {
	paths := regexp.MustCompile("`((?:internal|cmd|examples|bench|docs)/[A-Za-z0-9_./-]+)`")
	for _, name := range documents(t) {
		for _, m := range paths.FindAllStringSubmatch(read(t, name), -1) {
			if _, err := os.Stat(filepath.Join(repo, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}

// TestEveryPolicyKeyIsDescribed: policy.md names every key of the format.
func TestEveryPolicyKeyIsDescribed(t *testing.T) {
	out, err := exec.Command(binary, "policy", "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties map[string]*json.RawMessage
	}
	text := read(t, "docs/policy.md")
	var walk func(path string, raw []byte)
	walk = func(path string, raw []byte) {
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		if len(n.Properties) == 0 && !strings.Contains(text, "`"+path+"`") {
			t.Errorf("docs/policy.md does not describe %s", path)
		}
		for name, sub := range n.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), *sub)
		}
	}
	walk("", out)
}

// TestEverySettingIsDescribed: cli.md names every key of config.yaml. The keys are
// those that the reader lists when it refuses one.
func TestEverySettingIsDescribed(t *testing.T) {
	text := read(t, "docs/cli.md")
	var walk func(path []string) int
	walk = func(path []string) (n int) {
		src := strings.Join(path, ": {") + ": {zzzzzzzzzz: 1}" + strings.Repeat("}", max(len(path)-1, 0))
		if len(path) == 0 {
			src = "zzzzzzzzzz: 1"
		}
		_, err := settings.Read("config.yaml", []byte(src))
		_, known, mapping := strings.Cut(fmt.Sprint(err), "(known keys: ")
		if name := strings.Join(path, "."); !mapping {
			if !strings.Contains(text, "| `"+name+"` |") {
				t.Errorf("docs/cli.md does not describe the setting %s", name)
			}
			return 1
		}
		for key := range strings.SplitSeq(strings.TrimSuffix(known, ")"), ", ") {
			n += walk(append(path[:len(path):len(path)], key))
		}
		return n
	}
	if n := walk(nil); n < 20 {
		t.Errorf("only %d settings found", n)
	}
}
