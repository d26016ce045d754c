package scripted

import (
	"slices"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// Script is a file of answers.
type Script struct {
	Turns  []Turn // in order
	Asides []Turn // answers to requests that are not part of the conversation
}

// Turn is one answer.
type Turn struct {
	Text   string
	Calls  []Call
	Stop   model.Stop // "": as it follows from the calls
	Repeat bool       // of the last turn: it is given again and again
}

// Call is a tool call of an answer.
type Call struct {
	ID   string // "": one is made
	Name string
	Args string // JSON, or a text as a model might have written it wrongly
}

// Bounds of a file besides its size.
const (
	maxTurns = 10_000
	maxCalls = 1000 // of one turn
	maxDepth = 100
)

// Parse reads a file of answers: a YAML list of turns, each with text, tool_calls
// (a list of name and args), or both. Every problem is reported with its position.
// Messages do not quote the file, which may be any file that was named by mistake.
func Parse(name string, src []byte) (*Script, error) {
	p := parser{document.NewReader(name, document.Options{Code: fault.ModelFailed, Noun: "file of answers",
		MaxBytes: MaxSize, MaxDepth: maxDepth, AnyText: true, Private: true})}
	s := &Script{}
	if root := p.Read(src); root != nil {
		p.turns(s, root)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

type parser struct{ *document.Reader }

func (p parser) turns(s *Script, root *document.Node) {
	if root.Kind != document.List || len(root.Items) == 0 {
		p.Fail(root, "", "a file of answers must be a list of turns, each with text or tool_calls")
		return
	}
	repeated := false
	p.List(maxTurns, func(n *document.Node, path string) {
		t, aside := p.turn(n, path)
		switch {
		case aside && t.Repeat:
			p.Fail(n, path, "a turn with aside cannot have repeat")
		case aside:
			s.Asides = append(s.Asides, t)
			return
		case repeated:
			p.Fail(n, path, "a turn with repeat must be the last one")
		}
		repeated = repeated || t.Repeat
		s.Turns = append(s.Turns, t)
	})(root, "turns")
}

func (p parser) turn(n *document.Node, path string) (t Turn, aside bool) {
	stops := []string{string(model.StopEnd), string(model.StopLength), string(model.StopRefused)}
	ok := p.Mapping(n, path, document.Fields{
		"text":       p.String(&t.Text),
		"tool_calls": func(n *document.Node, path string) { t.Calls = p.calls(n, path) },
		"stop":       p.OneOf((*string)(&t.Stop), stops...),
		"repeat":     p.Bool(&t.Repeat),
		"aside":      p.Bool(&aside),
	})
	if ok && !slices.ContainsFunc(n.Pairs, func(pair document.Pair) bool { return pair.Key.Is("text") || pair.Key.Is("tool_calls") }) {
		p.Fail(n, path, "a turn must have text or tool_calls")
	}
	return t, aside
}

func (p parser) calls(n *document.Node, path string) []Call {
	var out []Call
	if n.Kind == document.List && len(n.Items) == 0 {
		p.Fail(n, path, "must have at least one tool call")
	}
	p.List(maxCalls, func(n *document.Node, path string) {
		c := Call{Args: "{}"}
		ok := p.Mapping(n, path, document.Fields{
			"id":   p.String(&c.ID),
			"name": p.String(&c.Name),
			"args": func(n *document.Node, path string) { c.Args = p.args(n, path) },
		})
		if ok && c.Name == "" {
			p.Fail(n, path, "a tool call must have a name")
		}
		out = append(out, c)
	})(n, path)
	return out
}

// args returns arguments as JSON. A string is taken as it is: what a model might
// write.
func (p parser) args(n *document.Node, path string) string {
	switch n.Kind {
	case document.String:
		return n.Text
	case document.Mapping:
	default:
		p.Expected(n, path, "a mapping of names to values, or a string that is taken as it is")
		return ""
	}
	b, err := canon.Marshal(n.Value())
	if err != nil {
		p.Fail(n, path, "cannot be written as JSON")
	}
	return string(b)
}
