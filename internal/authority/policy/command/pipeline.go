package command

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// ParseDeny reads a pattern of a deny list. Beside the patterns of [ParsePattern] that is
// a pipeline, as curl ** | sh **: the last command, where it reads the output of the
// commands before, in their order, directly or through others.
func ParseDeny(s string) (*Pattern, error) {
	stages := stagesOf(s)
	last, err := ParsePattern(stages[len(stages)-1])
	if err != nil {
		return nil, err
	}
	for _, stage := range stages[:len(stages)-1] {
		p, err := ParsePattern(stage)
		if err != nil {
			return nil, err
		}
		last.before = append(last.before, p)
	}
	return last, nil
}

// stagesOf splits a pattern at the words that are an unquoted |.
func stagesOf(s string) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\'', '"':
			var lit strings.Builder
			n, ok := quoted(s[i:], &lit)
			if !ok {
				return append(out, s[start:]) // such a pattern cannot be read
			}
			i += n
		case '|':
			if i > 0 && s[i-1] == ' ' && i+1 < len(s) && s[i+1] == ' ' {
				out, start = append(out, s[start:i]), i+1
			}
		}
	}
	return append(out, s[start:])
}

// reads reports whether an action reads the output of the commands that a pipeline has
// before its last one.
func (p *Pattern) reads(a *tool.Action) bool {
	at := 0
	for _, stage := range p.before {
		n := slices.IndexFunc(a.Input[at:], func(argv []string) bool {
			return stage.MatchDeny(&tool.Action{Kind: tool.Command, Argv: argv, Dir: a.Dir}, nil)
		})
		if n < 0 {
			return false
		}
		at += n + 1
	}
	return true
}
