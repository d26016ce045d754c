package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/tools/extension"
)

// binder binds the words after an action to its arguments and flags.
type binder struct {
	line   string
	action *extension.Action
	out    *Route
	given  int // arguments so far
	end    int // where the last word begins
}

func (b *binder) bind(rest []Word) error {
	b.end = len(b.line)
	for open := true; len(rest) > 0; {
		w := rest[0]
		rest = rest[1:]
		switch {
		case open && w.Text == "--" && !w.Quoted:
			open = false
		case open && b.isFlag(w):
			used, err := b.flag(w, rest)
			if err != nil {
				return err
			}
			rest = rest[used:]
		default:
			if err := b.argument(w); err != nil {
				return err
			}
		}
	}
	for _, p := range b.action.Params() {
		if _, ok := b.out.Input[p.Name]; !ok && p.Required {
			return wrong(b.line, b.end, "%s is missing", b.label(&p)).WithHint("usage: %s", b.out.Usage)
		}
	}
	return nil
}

// label is a parameter's name as it is written in a command.
func (b *binder) label(p *extension.Param) string {
	for _, a := range b.action.Arguments {
		if a.Name == p.Name {
			return strings.ToUpper(p.Name)
		}
	}
	return "--" + p.Name
}

// isFlag reports whether a word is a flag: it starts with a dash, and is neither a single
// dash nor a number in the place of a number.
func (b *binder) isFlag(w Word) bool {
	if len(w.Text) < 2 || w.Text[0] != '-' {
		return false
	}
	if c := w.Text[1]; c >= '0' && c <= '9' || c == '.' {
		p := b.next()
		return p == nil || p.Type != extension.Integer && p.Type != extension.Number
	}
	return true
}

// next gives the next argument; nil: there is none.
func (b *binder) next() *extension.Param {
	args := b.action.Arguments
	switch {
	case b.given < len(args):
		return &args[b.given]
	case len(args) > 0 && args[len(args)-1].Repeat:
		return &args[len(args)-1]
	}
	return nil
}

func (b *binder) argument(w Word) error {
	p := b.next()
	if p == nil {
		return wrong(b.line, w.At, "unexpected argument %q", clip.Text(w.Text, 60)).WithHint("usage: %s", b.out.Usage)
	}
	b.given++
	b.out.Args = append(b.out.Args, w.Text)
	return b.set(p, w.Text, w.At, false)
}

// set gives a parameter a value.
func (b *binder) set(p *extension.Param, text string, at int, flag bool) error {
	v, err := p.Parse(text)
	if err != nil {
		return wrong(b.line, at, "%s %v", b.label(p), err)
	}
	if p.Repeat {
		list, _ := b.out.Input[p.Name].([]any)
		v = append(list, v)
	} else if _, twice := b.out.Input[p.Name]; twice {
		return wrong(b.line, at, "%s is given twice", b.label(p))
	}
	b.out.Input[p.Name] = v
	if flag {
		b.out.Flags[p.Name] = v
	}
	return nil
}

// flag reads --name, --name=value, --name value, --no-name, and the same with -n. It gives
// how many further words belong to the flag.
func (b *binder) flag(w Word, rest []Word) (used int, err error) {
	name, value, joined := strings.Cut(w.Text, "=")
	p, no := b.find(name)
	if p == nil {
		return 0, b.noFlag(w, name)
	}
	switch {
	case p.Type == extension.Boolean && !joined:
		return 0, b.set(p, fmt.Sprint(!no), w.At, true)
	case no:
		return 0, wrong(b.line, w.At, "%s is only valid for flags that are true or false", name)
	case joined:
		return 0, b.set(p, value, w.At, true)
	case len(rest) == 0:
		return 0, wrong(b.line, len(b.line), "%s needs a value", name).WithHint("usage: %s", b.out.Usage)
	}
	return 1, b.set(p, rest[0].Text, rest[0].At, true)
}

func (b *binder) find(name string) (p *extension.Param, no bool) {
	flags := b.action.Flags
	for i := range flags {
		p := &flags[i]
		switch {
		case name == "--"+p.Name, p.Short != "" && name == "-"+p.Short:
			return p, false
		case p.Type == extension.Boolean && name == "--no-"+p.Name:
			return p, true
		}
	}
	return nil, false
}

func (b *binder) noFlag(w Word, name string) error {
	e := wrong(b.line, w.At, "unknown flag %s", clip.Text(name, 60))
	var names []string
	for _, p := range b.action.Flags {
		names = append(names, "--"+p.Name)
	}
	if meant := near.Word(name, names); meant != "" {
		return e.WithHint("did you mean %q?", meant)
	}
	return e.WithHint("write -- before an argument that starts with a dash; usage: %s", b.out.Usage)
}

func object(s string) (map[string]any, error) {
	v, err := canon.Decode([]byte(s))
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("expected an object")
	}
	return m, nil
}
