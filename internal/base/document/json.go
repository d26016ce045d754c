package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/canon"
)

// parseJSON checks the text with the strict reader of canonical JSON (which
// refuses repeated keys and invalid text), then walks its tokens for positions.
func (r *Reader) parseJSON(src []byte) *Node {
	if _, err := canon.Decode(src); err != nil {
		at, msg := 0, err.Error()
		var s *canon.SyntaxError
		if errors.As(err, &s) {
			at, msg = s.Offset, s.Msg
		}
		r.failAt(src, at, "not valid JSON: %s", msg)
		return nil
	}
	w := jsonWalk{r: r, src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1, column: 1}
	w.dec.UseNumber()
	return w.value("", 0)
}

// jsonWalk gives the values of well-formed JSON their positions.
type jsonWalk struct {
	r            *Reader
	src          []byte
	dec          *json.Decoder
	at           int // the byte that line and column are of
	line, column int
	lost         bool // a value was not read to its end, so the rest has no meaning
}

// token reads the next token into a node; open is '{' or '[' for a container.
func (w *jsonWalk) token() (n *Node, open json.Delim) {
	offset := int(w.dec.InputOffset())
	for offset < len(w.src) && strings.IndexByte(" \t\r\n,:", w.src[offset]) >= 0 {
		offset++
	}
	for ; w.at < offset; w.at++ {
		switch c := w.src[w.at]; {
		case c == '\n':
			w.line, w.column = w.line+1, 1
		case utf8.RuneStart(c):
			w.column++
		}
	}
	n = &Node{Line: w.line, Column: w.column}
	t, err := w.dec.Token()
	if err != nil {
		w.r.Fail(n, "", "not valid JSON: %v", err)
	}
	switch t := t.(type) {
	case bool:
		n.Kind, n.Text = Bool, fmt.Sprint(t)
	case json.Number:
		n.Kind, n.Text = Number, t.String()
	case string:
		n.Kind, n.Text = String, t
	case json.Delim:
		open = t
	}
	return n, open
}

func (w *jsonWalk) value(field string, depth int) *Node {
	n, open := w.token()
	if !w.r.enter(n, field, depth) {
		w.lost = true
		return n
	}
	if open == 0 {
		w.r.checkNumber(n, field)
		return n
	}
	n.Kind = List
	var seen map[string]int
	if open == '{' {
		n.Kind, seen = Mapping, map[string]int{}
	}
	for !w.lost && w.dec.More() {
		if open == '[' {
			n.Items = append(n.Items, w.value(Index(field, len(n.Items)), depth+1))
			continue
		}
		key, _ := w.token()
		key.Kind = String
		w.lost = !w.r.addPair(n, seen, key, field, func(path string) *Node { return w.value(path, depth+1) }) || w.lost
	}
	if !w.lost {
		w.token() // the closing bracket
	}
	return n
}
