package command

import (
	"maps"
	"slices"
	"strings"
)

// Known reports whether what a program starts is looked at.
func Known(name string) bool { p := programs()[name]; return p != nil && !p.harmless }

// Described is a program, or a subcommand of git, whose options are known.
type Described struct {
	Name   string
	Before []string // words before the options
	Free   bool
	*grammar
}

// Programs are all of these.
func Programs() (out []Described) {
	for _, name := range slices.Sorted(maps.Keys(programs())) {
		p := programs()[name]
		switch {
		case p.never != "", p.run == byGit, p.run == byFind && name != "find":
		case p.run == byOpenSSL:
			out = append(out, Described{Name: name, Before: []string{"req"}, grammar: &grammar{known: "-" + strings.Join(slices.Sorted(maps.Keys(opensslOptions())), " -"), single: true}})
		default:
			out = append(out, Described{Name: name, Free: p.run == byTmux || p.run == bySu || name == "command" || name == "busybox" || name == "toybox" || name == "dd", grammar: &p.grammar})
		}
	}
	for _, sub := range slices.Sorted(maps.Keys(gitCommandSet())) {
		if sub != "bisect" && sub != "submodule" {
			out = append(out, Described{Name: "git", Before: []string{sub}, grammar: gitCommandSet()[sub]})
		}
	}
	return out
}

// Knows reports whether an option is listed.
func (d Described) Knows(option string) bool {
	name, no := strings.CutPrefix(option, "--no-")
	return d.options().kinds[option] != unlisted || d.prefixOf(option) || no && d.negate && d.options().kinds["--"+name] != unlisted || d.digits && strings.Trim(option[1:], "0123456789") == ""
}

// Long are the listed options of several letters.
func (d Described) Long() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.options().kinds)), func(o string) bool { return len(o) < 4 })
}

// Globals are the options before a program's subcommand, with values.
func Globals(name string) (out []string) {
	for option, kind := range heads()[name].global.options().kinds {
		switch kind {
		case valued:
			out = append(out, option+" x")
			if len(option) > 2 {
				out = append(out, option+"=x")
			}
		default:
			out = append(out, option)
		}
	}
	return out
}

// MustParse parses a pattern and binds it to /ws.
func MustParse(text string) *Pattern {
	p, err := ParsePattern(text)
	if err != nil {
		panic(err)
	}
	return p.Bind("/ws")
}

// Fetching is the list of Fetches, and NumFetches how many of its patterns can be parsed.
const Fetching = fetching

func NumFetches() int { return len(fetches()) }
