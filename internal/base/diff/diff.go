// Package diff compares two texts line by line. A display takes the lines of [Diff.Hunks]: only
// programs read the text form, in which a line of a file can look like a header. Start at [New].
package diff

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	unified "github.com/rogpeppe/go-internal/diff"
)

// Diff is how two texts differ.
type Diff struct {
	Text  string // unified, for programs; "": the texts are equal
	Hunks []Hunk
}

// Hunk is a run of lines around changes.
type Hunk struct {
	Old   int    `json:"old" doc:"Number of its first line in the old text"`
	New   int    `json:"new" doc:"Number of its first line in the new text"`
	Lines []Line `json:"lines"`
}

// Line is a line of a hunk.
type Line struct {
	Op    string `json:"op" enum:"+,-,=" doc:"+ is in the new text, - in the old one, = in both"`
	Text  string `json:"text" doc:"Without its line end"`
	NoEnd bool   `json:"no_newline,omitempty" doc:"The text ends with this line, without a line end"`
}

// The operations of lines.
const (
	Insert = "+"
	Delete = "-"
	Same   = "="
)

// Sign is the first column of a line as people read it.
func (l Line) Sign() string {
	if l.Op == Same {
		return " "
	}
	return l.Op
}

// Head is the line before a hunk as people read it.
func (h Hunk) Head() string {
	old, now := h.counts()
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.Old, old, h.New, now)
}

// NoEnd is the remark after a line without a line end.
const NoEnd = `\ No newline at end of file`

// counts returns how many lines of each text a hunk has.
func (h Hunk) counts() (old, now int) {
	for _, l := range h.Lines {
		if l.Op != Insert {
			old++
		}
		if l.Op != Delete {
			now++
		}
	}
	return old, now
}

// New compares two texts.
func New(oldName string, old []byte, newName string, now []byte) Diff {
	text := unified.Diff(oldName, old, newName, now)
	if len(text) == 0 {
		return Diff{}
	}
	hunks, err := read(string(text))
	if err != nil || !turns(hunks, old, now) {
		hunks = replaceAll(old, now) // more than necessary is shown, and nothing is left out
	}
	return Diff{Text: string(text), Hunks: hunks}
}

var errFormat = errors.New("the lines are not those that the head of their hunk counts")

// read reads the text form. The counts in the head of a hunk say which lines belong to it, so no
// line of a text is taken for anything else.
func read(text string) ([]Hunk, error) {
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:len(lines)-1] // each ends with a newline
	if len(lines) < 3 {
		return nil, errFormat
	}
	var out []Hunk
	for lines = lines[3:]; len(lines) > 0; { // without the names
		var h Hunk
		var old, now int
		if _, err := fmt.Sscanf(lines[0], "@@ -%d,%d +%d,%d @@\n", &h.Old, &old, &h.New, &now); err != nil {
			return nil, err
		}
		for lines = lines[1:]; len(lines) > 0 && (old > 0 || now > 0); lines = lines[1:] {
			l := Line{Op: lines[0][:1], Text: strings.TrimSuffix(lines[0][1:], "\n")}
			switch l.Op {
			case Insert:
				now--
			case Delete:
				old--
			case " ":
				l.Op, old, now = Same, old-1, now-1
			default:
				return nil, errFormat
			}
			if len(lines) > 1 && lines[1] == NoEnd+"\n" {
				l.NoEnd, lines = true, lines[1:]
			}
			h.Lines = append(h.Lines, l)
		}
		if old != 0 || now != 0 {
			return nil, errFormat
		}
		out = append(out, h)
	}
	return out, nil
}

// turns reports whether hunks turn one text into the other.
func turns(hunks []Hunk, old, now []byte) bool {
	var out bytes.Buffer
	rest := bytes.SplitAfter(old, []byte("\n"))
	at := 1
	for _, h := range hunks {
		begin := h.Old
		if n, _ := h.counts(); n == 0 {
			begin++ // it stands after the line
		}
		for ; at < begin && len(rest) > 0; at++ {
			out.Write(rest[0])
			rest = rest[1:]
		}
		for _, l := range h.Lines {
			text := l.Text
			if !l.NoEnd {
				text += "\n"
			}
			if l.Op != Insert {
				if len(rest) == 0 || string(rest[0]) != text {
					return false
				}
				rest, at = rest[1:], at+1
			}
			if l.Op != Delete {
				out.WriteString(text)
			}
		}
	}
	out.Write(bytes.Join(rest, nil))
	return bytes.Equal(out.Bytes(), now)
}

// replaceAll is a hunk that replaces all of a text.
func replaceAll(old, now []byte) []Hunk {
	h := Hunk{Old: 1, New: 1}
	for _, side := range []struct {
		op   string
		text []byte
	}{{Delete, old}, {Insert, now}} {
		for line := range bytes.Lines(side.text) {
			text, ended := strings.CutSuffix(string(line), "\n")
			h.Lines = append(h.Lines, Line{Op: side.op, Text: text, NoEnd: !ended})
		}
	}
	return []Hunk{h}
}
