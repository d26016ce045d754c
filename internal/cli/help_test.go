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
