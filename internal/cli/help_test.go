package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help that is shown first fits a terminal of 40 lines, and names every command.
func TestRootHelpFitsIn40Lines(t *testing.T) {
	s := &session{lookup: func(string) (string, bool) { return "", false }}
	root := s.root()
	var out bytes.Buffer
	root.SetOut(&out)
	if err := root.Help(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > 38 {
		t.Errorf("%d lines, which leaves no room for the prompts: make a command rare", n)
	}
	words := strings.FieldsFunc(out.String(), func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	for _, c := range root.Commands() {
		if !slices.Contains(words, c.Name()) {
			t.Errorf("%s is not named", c.Name())
		}
	}
}

// A command that is built alone is the same as among the others.
func TestACommandIsBuiltAlone(t *testing.T) {
	s := &session{lookup: func(string) (string, bool) { return "", false }}
	all := s.root().Commands()
	for _, g := range s.groups() {
		for _, c := range slices.Concat(g.common, g.rare) {
			built := s.root(c.name, "--help").Commands()
			i := slices.IndexFunc(all, func(x *cobra.Command) bool { return x.Name() == c.name })
			if len(built) != 1 || i < 0 || built[0].Name() != c.name {
				t.Errorf("%s: got %d commands", c.name, len(built))
				continue
			}
			if got, want := help(t, built[0]), help(t, all[i]); got != want {
				t.Errorf("%s: got the help\n%s\nnot\n%s", c.name, got, want)
			}
		}
	}
	for _, args := range [][]string{nil, {"--json", "version"}, {"help", "version"}, {"__complete", "ver"}, {"verison"}} {
		if got := len(s.root(args...).Commands()); got != len(all) {
			t.Errorf("%q: %d commands, not %d", args, got, len(all))
		}
	}
}

func help(t *testing.T, c *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	c.SetOut(&out)
	c.InitDefaultHelpFlag()
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestHelpFitsIn80Columns(t *testing.T) {
	s := &session{lookup: func(string) (string, bool) { return "", false }}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Name() == "completion" { // cobra writes its help
			return
		}
		var out bytes.Buffer
		c.SetOut(&out)
		c.InitDefaultHelpFlag()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(s.root())
}
