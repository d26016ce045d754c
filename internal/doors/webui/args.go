package webui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/record/report"
)

// Longer texts are shown by their beginning, with all of them a click away.
const (
	headBytes = 1500
	headLines = 24
)

// value is a part of a call's arguments or output. Nothing of it is ever left out: Text is
// all of it.
type value struct {
	Name  string
	Text  string
	Head  string // its beginning, if it is long; "": all is shown
	Bytes int    // of Text
	SHA   string // of Text, if it is long
	Diff  []diffLine
}

// diffLine is a line of an edit.
type diffLine struct {
	Sign string // "-", "+" or " "; "@": not a line of the texts
	Text string
}

// Class is the line's class in the style sheet.
func (l diffLine) Class() string {
	return map[string]string{"-": "del", "+": "add"}[l.Sign]
}

// valuesOf takes a JSON object apart; any other value is one without a name.
func valuesOf(raw json.RawMessage) []value {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return []value{valueOf("", raw)}
	}
	var out []value
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if edits := editsOf(object[name]); edits != nil {
			out = append(out, edits.named(name)...)
			continue
		}
		out = append(out, valueOf(name, object[name]))
	}
	return out
}

// valueOf makes a value of JSON: a text as it is, anything else as indented JSON.
func valueOf(name string, raw json.RawMessage) value {
	var text string
	if json.Unmarshal(raw, &text) != nil || string(raw) == "null" {
		var b bytes.Buffer
		if text = string(raw); len(raw) > 60 && json.Indent(&b, raw, "", "  ") == nil {
			text = b.String()
		}
	} else if text == "" {
		text = `""`
	}
	return newValue(name, text)
}

func newValue(name, text string) value {
	v := value{Name: name, Text: text, Bytes: len(text)}
	head := text
	if lines := strings.SplitAfterN(text, "\n", headLines+1); len(lines) > headLines {
		head = strings.Join(lines[:headLines], "")
	}
	if len(head) > headBytes {
		cut := headBytes
		for cut > 0 && !utf8.RuneStart(head[cut]) {
			cut--
		}
		head = head[:cut]
	}
	if head != text {
		sum := sha256.Sum256([]byte(text))
		v.Head, v.SHA = head, hex.EncodeToString(sum[:])
	}
	return v
}

// edit replaces one text by another.
type edit struct{ Old, New string }

type edits []edit

// editsOf reads a list of edits, as fs.edit takes it; nil: it is none. Each must have exactly
// the fields old and new: an edit would not show another field, or another spelling of these.
func editsOf(raw json.RawMessage) edits {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil
	}
	out := make(edits, len(list))
	for i, fields := range list {
		for name, into := range map[string]*string{"old": &out[i].Old, "new": &out[i].New} {
			if text := fields[name]; len(fields) != 2 || !bytes.HasPrefix(text, []byte(`"`)) || json.Unmarshal(text, into) != nil {
				return nil
			}
		}
	}
	return out
}

// named gives the edits as differences.
func (l edits) named(name string) []value {
	out := make([]value, len(l))
	for i, e := range l {
		out[i] = value{Name: name + "[" + strconv.Itoa(i) + "]", Bytes: len(e.Old) + len(e.New), Diff: differences(e.Old, e.New)}
	}
	return out
}

// differences shows the different lines between the equal ones at the beginning and at the end.
func differences(old, next string) []diffLine {
	if strings.HasSuffix(old, "\n") && strings.HasSuffix(next, "\n") {
		old, next = strings.TrimSuffix(old, "\n"), strings.TrimSuffix(next, "\n")
	}
	a, b := strings.Split(old, "\n"), strings.Split(next, "\n")
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	var out []diffLine
	add := func(sign string, lines []string) {
		for _, text := range lines {
			out = append(out, diffLine{sign, text})
		}
	}
	add(" ", a[:first])
	add("-", a[first:len(a)-last])
	add("+", b[first:len(b)-last])
	add(" ", a[len(a)-last:])
	return out
}

// aboutOfValues gives the most telling one of a call's arguments; "": none is.
func aboutOfValues(list []value) string {
	for _, name := range report.Telling {
		if i := slices.IndexFunc(list, func(v value) bool { return v.Name == name }); i >= 0 {
			return list[i].Text
		}
	}
	return ""
}
