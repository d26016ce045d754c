package modelchat

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/model"
)

// maxHeld bounds the text held back of a word that goes on.
const maxHeld = 8 << 10

// teller tells of an answer's text as it comes in, as the progress of the call:
// Message is the next piece, Done how many bytes there were. A word is told whole,
// so that a secret in it can be hidden.
type teller struct {
	send  func(tool.Progress) // nil: nobody wants to know
	held  strings.Builder
	bytes int // that came, of text and tool calls
	done  int // that were told
}

func newTeller(ctx context.Context) *teller {
	if !tool.WantsProgress(ctx) {
		return &teller{}
	}
	return &teller{send: func(p tool.Progress) { tool.TellProgress(ctx, p) }}
}

func (t *teller) tell(d model.Delta) {
	t.bytes += len(d.Text)
	if d.Call != nil {
		t.bytes += len(d.Call.Name) + len(d.Call.Args)
	}
	if d.Text == "" || t.send == nil {
		return
	}
	t.held.WriteString(d.Text)
	text := t.held.String()
	cut := strings.LastIndexFunc(text, func(r rune) bool { return !inWord(r) })
	if cut < 0 && len(text) < maxHeld {
		return
	}
	t.held.Reset()
	if cut >= 0 {
		_, size := utf8.DecodeRuneInString(text[cut:])
		t.held.WriteString(text[cut+size:])
		text = text[:cut+size]
	}
	t.pass(text)
}

// end passes on the rest.
func (t *teller) end() {
	if t.held.Len() > 0 {
		t.pass(t.held.String())
		t.held.Reset()
	}
}

func (t *teller) pass(text string) {
	t.done += len(text)
	t.send(tool.Progress{Done: float64(t.done), Message: text})
}

// inWord reports whether a character can be part of a secret's spelling.
func inWord(r rune) bool {
	return r >= '!' && r <= '~'
}
