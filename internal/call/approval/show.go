package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/redact"
)

// Line is a labelled line of a question. Its text is safe to print.
type Line struct{ Label, Text string }

// maxTouches is how many of a question's actions its short form lists.
const maxTouches = 20

// Short returns a question in few lines of at most so many characters each, and reports whether
// anything was shortened. Each shortened text is given with its length and digest, and [Body.Whole]
// has it in full.
func (b Body) Short(most int) (lines []Line, cut bool) {
	add := func(label, text string) {
		if text == "" {
			return
		}
		short := Shorten(text, most)
		cut = cut || short != redact.Show(text)
		lines = append(lines, Line{label, short})
	}
	add("arguments", string(b.Args))
	for _, t := range b.Touches[:min(len(b.Touches), maxTouches)] {
		add("touches", t)
	}
	if rest := b.Touches[min(len(b.Touches), maxTouches):]; len(rest) > 0 {
		all := strings.Join(rest, "\n")
		lines = append(lines, Line{"touches", fmt.Sprintf("and %d more (%d bytes, sha256 %x)", len(rest), len(all), sha256.Sum256([]byte(all)))})
		cut = true
	}
	add("effects", strings.Join(b.Effects, " "))
	add("for", b.Holder)
	add("because", b.Reason)
	add("says", b.Wanted)
	for _, e := range b.Edits {
		add("proposes", "to change "+e.File)
		for line := range strings.Lines(e.Diff) {
			add("", strings.TrimSuffix(line, "\n"))
		}
	}
	if b.Pattern != nil {
		for _, text := range b.Pattern.Lines() {
			add("session", text)
		}
	}
	return lines, cut
}

// Shorten makes a text safe to print and cuts it to a number of characters. A text that
// was cut ends with its length and its digest.
func Shorten(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return fmt.Sprintf("%s… (cut: all of it is %d bytes, sha256 %x)", redact.Show(text[:i]), len(text), sha256.Sum256([]byte(text)))
		}
		n++
	}
	return redact.Show(text)
}

// Whole returns all of a question, each text of the arguments by itself. Lines that come
// from the caller stand behind a bar, so that none can pass for a line of Remit's own.
func (b Body) Whole() string {
	w := &whole{}
	w.line(string(b.Tool) + " (risk " + b.Risk + ")")
	var args any
	dec := json.NewDecoder(bytes.NewReader(b.Args))
	dec.UseNumber()
	if dec.Decode(&args) == nil {
		w.value("argument", args)
	} else if len(b.Args) > 0 {
		w.text("arguments", string(b.Args))
	}
	for _, t := range b.Touches {
		w.text("touches", t)
	}
	for _, l := range []Line{{"effects", strings.Join(b.Effects, " ")}, {"for", b.Holder}, {"in", b.Workspace}, {"because", b.Reason}} {
		if l.Text != "" {
			w.text(l.Label, l.Text)
		}
	}
	if b.Wanted != "" {
		w.text("says", b.Wanted)
	}
	for _, e := range b.Edits {
		w.text("proposes to change", e.File)
		for line := range strings.Lines(e.Diff) {
			w.line("  | " + strings.TrimSuffix(line, "\n"))
		}
	}
	if b.Pattern != nil {
		for _, text := range b.Pattern.Lines() {
			w.text("session", text)
		}
	}
	return w.out.String()
}

// whole writes a question's whole form.
type whole struct{ out strings.Builder }

// line writes a line, and goes on with a long one in lines that say so.
func (w *whole) line(text string) {
	const most = 1000 // characters
	all := []rune(redact.Show(text))
	for more := ""; ; more = "  + " {
		n := min(len(all), most)
		w.out.WriteString(more + string(all[:n]) + "\n")
		if all = all[n:]; len(all) == 0 {
			return
		}
	}
}

// text writes a text: beside its label, or below it with its length and digest.
func (w *whole) text(label, text string) {
	const beside = 100
	if len(text) <= beside && !strings.Contains(text, "\n") {
		w.line(label + " | " + text)
		return
	}
	w.line(fmt.Sprintf("%s, %d bytes, sha256 %x", label, len(text), sha256.Sum256([]byte(text))))
	for line := range strings.Lines(text) {
		w.line("  | " + strings.TrimSuffix(line, "\n"))
	}
}

// value writes a value of the arguments, down to its texts.
func (w *whole) value(label string, v any) {
	switch v := v.(type) {
	case string:
		w.text(label, v)
		return
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			w.value(label+" "+name, v[name])
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i := range v {
			w.value(fmt.Sprintf("%s[%d]", label, i), v[i])
		}
		if len(v) > 0 {
			return
		}
	}
	b, err := json.Marshal(v)
	if err != nil { // cannot be: it was decoded from JSON
		b = []byte(fmt.Sprint(v))
	}
	w.text(label, string(b))
}
