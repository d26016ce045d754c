// Package schema compiles JSON Schemas, within bounds, and checks values with
// them. It fetches nothing: a reference to another document is an error. Start
// at [Compile].
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/near"
)

// The bounds of a schema.
const (
	MaxBytes = 1 << 20
	MaxDepth = 200 // levels of nesting
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Compile reads a JSON Schema, of draft 2020-12 unless it says otherwise. The name
// is for messages.
func Compile(name string, src []byte) (*Schema, error) {
	if len(src) > MaxBytes {
		return nil, fmt.Errorf("the schema of %s has %d bytes; the maximum is %d", name, len(src), MaxBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		return nil, fmt.Errorf("the schema of %s is not valid JSON: %w", name, err)
	}
	if depth(doc) > MaxDepth {
		return nil, fmt.Errorf("the schema of %s is nested more than %d levels deep", name, MaxDepth)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // of no scheme
	url := "remit:" + name
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("the schema of %s is not valid: %w", name, err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s is not valid: %w", name, err)
	}
	return &Schema{s}, nil
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
	Hint string   // what an unknown property was meant to be, or ""
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

// english words problems, whatever the machine's locale.
var english = message.NewPrinter(language.English)

// Validate checks a value of decoded JSON. Numbers are json.Number or float64.
// The error is an [*Invalid] with every problem.
func (s *Schema) Validate(v any) error {
	err := s.compiled.Validate(v)
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	e := &Invalid{}
	e.add(s.compiled, ve)
	return e
}

func (e *Invalid) add(s *jsonschema.Schema, ve *jsonschema.ValidationError) {
	if len(ve.Causes) == 0 {
		p := Problem{At: ve.InstanceLocation, Text: ve.ErrorKind.LocalizedString(english)}
		if k, ok := ve.ErrorKind.(*kind.AdditionalProperties); ok {
			p.Text, p.Hint = unknown(k.Properties, propertiesAt(s, p.At))
		}
		e.Problems = append(e.Problems, p)
	}
	for _, cause := range ve.Causes {
		e.add(s, cause)
	}
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

// propertiesAt returns the property names of the schema for a part of the value, nil if
// they are not written out there.
func propertiesAt(s *jsonschema.Schema, at []string) []string {
	for _, name := range at {
		switch items, isSchema := s.Items.(*jsonschema.Schema); {
		case s.Properties[name] != nil:
			s = s.Properties[name]
		case s.Items2020 != nil:
			s = s.Items2020
		case isSchema:
			s = items
		default:
			return nil
		}
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// Decode reads one JSON value as [Schema.Validate] takes it.
func Decode(src []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(src)) }
