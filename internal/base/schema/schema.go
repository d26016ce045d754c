// Package schema compiles JSON Schemas, within bounds, and checks values with
// them. It knows the drafts 4, 6, 7, 2019-09 and 2020-12. It fetches nothing: a
// reference to another document is an error. Start at [Compile].
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/near"
)

// The bounds of a schema.
const (
	MaxBytes = 1 << 20
	MaxDepth = 200 // levels of nesting
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	root   *node
	tracks bool // a part of it asks which properties or items were evaluated
}

// Compile reads a JSON Schema, of draft 2020-12 unless it says otherwise. The name
// is for messages.
func Compile(name string, src []byte) (*Schema, error) { return compileSource(name, src, false) }

func compileSource(name string, src []byte, lenient bool) (*Schema, error) {
	if len(src) > MaxBytes {
		return nil, fmt.Errorf("the schema of %s has %d bytes; the maximum is %d", name, len(src), MaxBytes)
	}
	doc, err := Decode(src)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s is not valid JSON: %w", name, err)
	}
	if depth(doc) > MaxDepth {
		return nil, fmt.Errorf("the schema of %s is nested more than %d levels deep", name, MaxDepth)
	}
	s, err := compile(doc, lenient)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s is not valid: %w", name, err)
	}
	return s, nil
}

func depth(v any) int {
	below := 0
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			below = max(below, depth(w))
		}
	case map[string]any:
		for _, w := range v {
			below = max(below, depth(w))
		}
	default:
		return 0
	}
	return below + 1
}

// Invalid is the error of a value that does not fit a schema.
type Invalid struct{ Problems []Problem }

// Problem is one part of a value that does not fit.
type Problem struct {
	At   []string // the names and indexes that lead to the part; none: the whole value
	Text string   // in English, without the value
	Hint string   // a known property similar to an unknown one, or ""
}

func (e *Invalid) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Text
		if len(p.At) > 0 {
			texts[i] = strings.Join(p.At, ".") + ": " + p.Text
		}
	}
	return strings.Join(texts, "; ")
}

// Validate checks a value of decoded JSON. Numbers are json.Number, or Go's own. The
// error is an [*Invalid] with every problem.
func (s *Schema) Validate(v any) error {
	c := &check{tracks: s.tracks}
	e := &Invalid{}
	c.visit(s.root, v, nil, nil, &e.Problems, &evaluated{})
	if c.stopped != nil {
		return c.stopped
	}
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}

// unknown describes properties that a schema does not have, and suggests a known one.
func unknown(names, known []string) (text, hint string) {
	names = slices.Sorted(slices.Values(names)) // the order of a map otherwise
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(clip.Text(name, 60))
		if meant := near.Word(name, known); meant != "" && hint == "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
	}
	if len(names) == 1 {
		return "unknown property " + quoted[0], hint
	}
	return "unknown properties " + strings.Join(quoted, ", "), hint
}

// Decode reads one JSON value as [Schema.Validate] takes it.
func Decode(src []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the value")
	}
	return v, nil
}
