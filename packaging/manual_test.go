package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

func TestEveryCommandHasAPage(t *testing.T) {
	pages := manual(testRelease())
	for _, c := range cli.Commands().Commands() {
		if page, ok := pages["remit-"+c.Name()+".1"]; !ok && !c.Hidden && c.Name() != "help" || ok && !strings.Contains(page, ".SH \"DESCRIPTION\"") {
			t.Errorf("%s: %q", c.Name(), page)
		}
	}
	for name, page := range pages {
		for _, want := range []string{`"2026\-11\-23" "remit 1.2.3"`, ".SH \"NAME\"\n", ".SH \"SYNOPSIS\"\n", ".SH \"EXIT STATUS\"\n.TP\n0\ndone\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
		for _, unwanted := range []string{"Auto generated", "cobra", "Exit status:"} {
			if strings.Contains(page, unwanted) {
				t.Errorf("%s has %q", name, unwanted)
			}
		}
	}
}

// What the help says is what the page shows: nothing in it is read as a request.
func TestTextIsShownAsItIs(t *testing.T) {
	for in, want := range map[string]string{
		`commands: ["**"] and _x_`: `commands: ["**"] and _x_`,
		`-p a\b`:                   `\-p a\eb`,
		".so /etc/passwd":          `\&.so /etc/passwd`,
		"'\\\" x":                  `\(aq\e" x`,
		"a\n.TH X":                 "a .TH X",
	} {
		if got := roff(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got, want := quote(`a "b" .c`), `"a \(dqb\(dq .c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPagesAreFormattedWithoutWarnings(t *testing.T) {
	tool(t, "groff")
	var all []string
	dir := t.TempDir()
	for name, page := range manual(testRelease()) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644))
		all = append(all, filepath.Join(dir, name))
	}
	out, err := exec.Command("groff", append([]string{"-man", "-K", "utf8", "-T", "utf8", "-ww", "-z"}, all...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	text := output(t, "groff", "-man", "-K", "utf8", "-T", "ascii", filepath.Join(dir, "remit-exec.1"))
	for _, want := range []string{"remit exec -p policy.yaml -- bash", "COMMAND..."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
