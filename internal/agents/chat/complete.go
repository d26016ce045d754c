package chat

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/tools/extension"
)

// Completion is one possible continuation of a line.
type Completion struct {
	Text        string // in place of the line from the offset that came with it
	Description string
}

// Complete gives the continuations of the last word of a line, and the offset of that word
// in bytes. A line that cannot be split, as one with an open quote, has none.
func (r *Router) Complete(line string) (from int, list []Completion) {
	words, err := Split(line)
	if err != nil || len(words) == 0 {
		return len(line), nil
	}
	last := Word{At: len(line)}
	if !strings.ContainsAny(line[len(line)-1:], " \t\n") {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	if last.Quoted {
		return last.At, nil
	}
	if len(words) == 0 {
		for _, name := range r.names {
			if k := r.commands[name]; k == nil || k.ext.Off == "" {
				list = append(list, Completion{"/" + name, r.summary(name)})
			}
		}
		return last.At, fitting(last.Text, list)
	}
	name := strings.TrimPrefix(words[0].Text, "/")
	if name == "help" && len(words) == 1 {
		for _, n := range r.names {
			list = append(list, Completion{n, r.summary(n)})
		}
		return last.At, fitting(last.Text, list)
	}
	k := r.commands[name]
	if k == nil || k.ext.Off != "" {
		return last.At, nil
	}
	return last.At, fitting(last.Text, k.complete(words[1:], last.Text))
}

func (r *Router) summary(name string) string {
	switch k := r.commands[name]; {
	case k != nil:
		return k.command.Summary
	case name == "call":
		return callSummary
	}
	return "Shows what there is to call, and how"
}

func fitting(begin string, list []Completion) []Completion {
	return slices.DeleteFunc(list, func(c Completion) bool { return !strings.HasPrefix(c.Text, begin) })
}

// complete lists the continuations of a command and some words.
func (k *known) complete(words []Word, last string) []Completion {
	var list []Completion
	var a *extension.Action
	if len(words) > 0 {
		if a = k.command.Action(words[0].Text); a != nil {
			words = words[1:]
		}
	}
	if a == nil && len(words) == 0 {
		for _, one := range k.command.Actions {
			list = append(list, Completion{one.ID, one.Description})
		}
		list = append(list, Completion{"help", "Shows how the command is used"})
	}
	if a == nil && len(k.command.Actions) == 1 {
		a = &k.command.Actions[0]
	}
	if a == nil {
		return list
	}
	return append(list, listContinuations(a, words, last)...)
}

// listContinuations lists the continuations of an action and some words: values and flags.
func listContinuations(a *extension.Action, words []Word, last string) []Completion {
	b := binder{action: a, out: &Route{Input: map[string]any{}, Flags: map[string]any{}}}
	for i := 0; i < len(words); i++ {
		if !b.isFlag(words[i]) {
			b.given++
			continue
		}
		name, _, joined := strings.Cut(words[i].Text, "=")
		p, _ := b.find(name)
		if p == nil || joined || p.Type == extension.Boolean {
			continue
		}
		if i++; i == len(words) {
			return values(p, "")
		}
	}
	if name, _, joined := strings.Cut(last, "="); joined {
		if p, _ := b.find(name); p != nil {
			return values(p, name+"=")
		}
	}
	var list []Completion
	if p := b.next(); p != nil {
		list = values(p, "")
	}
	for _, p := range a.Flags {
		list = append(list, Completion{"--" + p.Name, p.Description})
	}
	return list
}

// values lists the known values of a parameter.
func values(p *extension.Param, before string) []Completion {
	choices := p.Choices
	if p.Type == extension.Boolean {
		choices = []string{"true", "false"}
	}
	out := make([]Completion, len(choices))
	for i, c := range choices {
		out[i] = Completion{before + Quote(c), p.Description}
	}
	return out
}
