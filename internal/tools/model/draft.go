package model

import (
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
)

// MaxAnswer bounds an answer, in bytes of its text, tool calls and reasoning.
const MaxAnswer = 8 << 20

// Draft is an answer that is coming in, piece by piece. The zero Draft is empty.
type Draft struct {
	On func(Delta) // is told of pieces; may be nil

	text      strings.Builder
	calls     []*Piece
	reasoning []string
	size      int
}

// Piece is a tool call that is coming in.
type Piece struct {
	ID, Name string
	Args     strings.Builder
}

// Begun reports whether anything of the answer came in: it cannot be asked for
// again without anybody's noticing.
func (d *Draft) Begun() bool { return d.size > 0 }

// Size is how many bytes came in.
func (d *Draft) Size() int { return d.size }

func (d *Draft) grow(n int) error {
	if d.size += n; d.size > MaxAnswer {
		return fault.New(fault.ModelFailed, "the answer has more than %d bytes", MaxAnswer).
			WithHint("ask for a shorter one with max_tokens")
	}
	return nil
}

// Text adds to the text, and tells of it.
func (d *Draft) Text(s string) error {
	if s == "" {
		return nil
	}
	if err := d.grow(len(s)); err != nil {
		return err
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	d.text.WriteString(s)
	if d.On != nil {
		d.On(Delta{Text: s})
	}
	return nil
}

// Call begins a tool call.
func (d *Draft) Call(id, name string) (*Piece, error) {
	p := &Piece{ID: id, Name: name}
	d.calls = append(d.calls, p)
	return p, d.grow(len(id) + len(name) + 1)
}

// Args adds to the arguments of a tool call.
func (d *Draft) Args(p *Piece, s string) error {
	p.Args.WriteString(s)
	return d.grow(len(s))
}

// Reasoning adds reasoning to be returned to the provider, as JSON of an object.
func (d *Draft) Reasoning(raw string) error {
	d.reasoning = append(d.reasoning, raw)
	return d.grow(len(raw))
}

// Count counts bytes that came in and are not kept in the draft.
func (d *Draft) Count(n int) error { return d.grow(n) }

// Finish makes the answer of what came in, and tells of its tool calls. A tool
// call that breaks off is an error.
func (d *Draft) Finish(stop Stop) (Message, Stop, error) {
	m := Message{Role: Assistant, Text: d.text.String()}
	if !utf8.ValidString(m.Text) {
		m.Text = strings.ToValidUTF8(m.Text, "\uFFFD")
	}
	for _, p := range d.calls {
		args := p.Args.String()
		if CutOff(args) {
			err := fault.New(fault.ModelCall, "the answer ends within the arguments of the tool call %.80q", p.Name)
			if stop == StopLength {
				return Message{}, stop, err.WithHint("raise max_tokens")
			}
			return Message{}, stop, err.WithHint("ask again")
		}
		m.Calls = append(m.Calls, NewCall(p.ID, p.Name, args))
	}
	m.Calls = Calls(m.Calls)
	for _, r := range d.reasoning {
		m.Reasoning = append(m.Reasoning, []byte(r))
	}
	switch {
	case len(m.Calls) > 0 && stop == StopEnd:
		stop = StopCalls
	case len(m.Calls) == 0 && stop == StopCalls:
		stop = StopEnd
	}
	for i := range m.Calls {
		if d.On != nil {
			d.On(Delta{Call: &m.Calls[i]})
		}
	}
	return m, stop, nil
}
