package docs_test

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

// TestCoverageCountsWhatIsOpen: each line of coverage.md has a state, and the lines that are
// partly done or missing are as many as it says.
func TestCoverageCountsWhatIsOpen(t *testing.T) {
	text := read(t, "docs/coverage.md")
	counts := map[string]int{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| item |") || strings.HasPrefix(line, "| --- |") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| \n"), `\|`, "/"), " | ")
		if len(cells) != 3 || !slices.Contains([]string{"works", "equivalent", "partly", "missing", "different"}, cells[1]) {
			t.Errorf("not an item, a state and what shows it: %s", line)
			continue
		}
		counts[cells[1]]++
	}
	open := counts["partly"] + counts["missing"]
	for _, want := range []string{
		fmt.Sprintf("\nopen: %d\n", open),
		fmt.Sprintf("\n%d work, %d are equivalent, %d partly, %d missing, %d different.\n", counts["works"], counts["equivalent"], counts["partly"], counts["missing"], counts["different"]),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("coverage.md should say %q", strings.TrimSpace(want))
		}
	}
}

// TestCommandsOfCoverageRun: every command that coverage.md names exists with its flags, and
// those that only list or describe something are carried out.
func TestCommandsOfCoverageRun(t *testing.T) {
	named, carried := 0, 0
	for _, m := range regexp.MustCompile("`remit ([^`]+)`").FindAllStringSubmatch(read(t, "docs/coverage.md"), -1) {
		line, _, _ := strings.Cut(m[1], "\"")
		words := strings.Fields(line)
		named++
		found, rest, err := cli.Commands().Find(words)
		if err != nil || found.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !found.Runnable() {
			t.Errorf("remit %s: there is no such command (%v)", m[1], err)
			continue
		}
		if status, out := carryOut(t, append(words, "--help")); status != 0 {
			t.Errorf("remit %s --help: exit status %d: %s", m[1], status, out)
		}
		switch words[0] {
		case "approvals", "audit", "capabilities", "list-runs", "runs", "tools", "version":
			if regexp.MustCompile(`[A-Z]|--search$|^approvals .`).MatchString(line) {
				continue // its argument is left out
			}
			carried++
			if status, out := carryOut(t, words); status != 0 {
				t.Errorf("remit %s: exit status %d: %s", m[1], status, out)
			}
		}
	}
	if named < 50 || carried < 15 {
		t.Errorf("coverage.md names %d commands, %d were carried out: the test shows nothing", named, carried)
	}
}

// carryOut runs a command in a home of its own.
func carryOut(t *testing.T, words []string) (int, string) {
	t.Helper()
	var out strings.Builder
	status := cli.Main(context.Background(), words, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &out}, []string{"HOME=" + t.TempDir()}, "test")
	return status, out.String()
}
