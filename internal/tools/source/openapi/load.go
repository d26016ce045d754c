package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// reader reads one document.
type reader struct {
	file  string
	src   []byte // JSON
	lines bool   // src is the file: its lines are the file's
	v30   bool

	top        map[string]json.RawMessage
	components map[string]map[string]json.RawMessage
	schemas    map[string]*converted // by pointer
	keywords   map[string]keyword
}

// fail makes an error about a place in the document, as "paths./x.get".
func (r *reader) fail(field, format string, args ...any) *fault.Error {
	return fault.New(fault.Usage, format, args...).At(fault.Pos{File: r.file}).In(field)
}

// lineAt returns the place of a byte.
func (r *reader) lineAt(at int64) fault.Pos {
	if !r.lines || at < 0 || at > int64(len(r.src)) {
		return fault.Pos{File: r.file}
	}
	before := r.src[:at]
	return fault.Pos{File: r.file, Line: 1 + bytes.Count(before, []byte("\n")), Column: int(at) - bytes.LastIndexByte(before, '\n')}
}

// open reads the top level.
func (r *reader) open(src []byte) error {
	switch {
	case len(src) > MaxDocument:
		return r.fail("", "the document has %d bytes, more than %d", len(src), MaxDocument)
	case !utf8.Valid(src):
		return r.fail("", "the document is not UTF-8")
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if text := bytes.TrimLeft(src, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		r.src, r.lines = src, true
	} else {
		converted, err := r.fromYAML(src)
		if err != nil {
			return err
		}
		r.src = converted
	}
	if err := json.Unmarshal(r.src, &r.top); err != nil {
		return r.syntax(err)
	}
	if err := r.version(); err != nil {
		return err
	}
	if err := r.onlyOwn(); err != nil {
		return err
	}
	return r.decodeInto("components", r.top["components"], &r.components)
}

func (r *reader) syntax(err error) error {
	var se *json.SyntaxError
	if errors.As(err, &se) {
		return fault.New(fault.Usage, "not JSON: %v", se).At(r.lineAt(se.Offset - 1))
	}
	return r.fail("", "the document is not a JSON object")
}

func (r *reader) version() error {
	var v, swagger string
	if err := r.decodeInto("openapi", r.top["openapi"], &v); err != nil {
		return err
	}
	_ = json.Unmarshal(r.top["swagger"], &swagger) // only for the message
	r.v30 = strings.HasPrefix(v, "3.0")
	switch {
	case r.v30, strings.HasPrefix(v, "3.1"):
		return nil
	case swagger != "":
		return r.fail("swagger", "Swagger %.20q is not supported", swagger).WithHint("convert the document to OpenAPI 3 first")
	case v == "":
		return r.fail("openapi", "not an OpenAPI document: the key openapi is missing")
	}
	return r.fail("openapi", "OpenAPI %.20q is not supported; expected 3.0 or 3.1", v)
}

// onlyOwn refuses references to other documents, wherever they stand.
func (r *reader) onlyOwn() error {
	key := []byte(`"$ref"`)
	for at := 0; ; {
		i := bytes.Index(r.src[at:], key)
		if i < 0 {
			return nil
		}
		at += i + len(key)
		rest := bytes.TrimLeft(r.src[at:], " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		rest = bytes.TrimLeft(rest[1:], " \t\r\n")
		if len(rest) < 2 || rest[0] != '"' || rest[1] == '#' {
			continue
		}
		end := bytes.IndexByte(rest[1:], '"')
		return fault.New(fault.Usage, "the reference %.100q leads to another document, which is not fetched", rest[1:1+max(end, 0)]).
			At(r.lineAt(int64(at))).WithHint("bundle the document into one file first")
	}
}

// decodeInto decodes a part; an absent one leaves the value.
func (r *reader) decodeInto(field string, raw json.RawMessage, v any) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	err := json.Unmarshal(raw, v)
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		if te.Field != "" {
			field += "." + te.Field
		}
		return r.fail(field, "is a %s; expected %s", te.Value, kindOf(te))
	}
	if err != nil {
		return r.fail(field, "cannot be read: %v", err)
	}
	return nil
}

func kindOf(te *json.UnmarshalTypeError) string {
	switch te.Type.Kind().String() {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "slice":
		return "a list"
	case "map", "struct":
		return "an object"
	}
	return "something else"
}

// The bounds of a YAML document.
const (
	maxNodes   = 2_000_000
	maxLevels  = 500
	maxAliases = 10_000 // values that aliases repeat
)

// fromYAML writes a YAML document as JSON.
func (r *reader) fromYAML(src []byte) ([]byte, error) {
	d := document.NewReader(r.file, document.Options{Code: fault.Usage, MaxBytes: MaxDocument, MaxDepth: maxLevels, MaxNodes: maxNodes,
		Aliases: maxAliases, AnyText: true, CoreTags: true, Foreign: true})
	root := d.ReadYAML(src)
	if err := d.Err(); err != nil {
		return nil, err
	}
	if root.Kind != document.Mapping {
		return nil, r.fail("", "the document must be a mapping, not %s", root.Describe())
	}
	b, err := json.Marshal(root.Value())
	if err != nil {
		return nil, r.fail("", "the document cannot be written as JSON: %v", err)
	}
	return b, nil
}

// resolve follows a reference within the document to its target, and returns the pointer that it
// ends at.
func (r *reader) resolve(field, ref string) (json.RawMessage, string, error) {
	for range 32 {
		raw, err := r.valueAt(field, ref)
		if err != nil {
			return nil, "", err
		}
		next := refOf(raw)
		if next == "" {
			return raw, ref, nil
		}
		ref = next
	}
	return nil, "", r.fail(field, "the reference %.100q is circular", ref)
}

// refOf is the reference that an object consists of, or "".
func refOf(raw json.RawMessage) string {
	var o struct {
		Ref string `json:"$ref"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	return o.Ref
}

// valueAt returns the value at a pointer.
func (r *reader) valueAt(field, ref string) (json.RawMessage, error) {
	path, ok := strings.CutPrefix(ref, "#/")
	missing := func() error { return r.fail(field, "the reference %.100q was not found", ref) }
	if !ok {
		return nil, missing()
	}
	if kind, name, ok := strings.Cut(strings.TrimPrefix(path, "components/"), "/"); ok && strings.HasPrefix(path, "components/") && !strings.Contains(name, "/") {
		if raw, ok := r.components[kind][unescape(name)]; ok {
			return raw, nil
		}
		return nil, missing()
	}
	raw := json.RawMessage(nil)
	members := r.top
	for seg := range strings.SplitSeq(path, "/") {
		if members == nil {
			if json.Unmarshal(raw, &members) != nil {
				if raw = element(raw, seg); raw == nil {
					return nil, missing()
				}
				continue
			}
		}
		if raw, ok = members[unescape(seg)]; !ok {
			return nil, missing()
		}
		members = nil
	}
	return raw, nil
}

// element returns one element of a list.
func element(raw json.RawMessage, seg string) json.RawMessage {
	var list []json.RawMessage
	i := 0
	if _, err := fmt.Sscanf(seg, "%d", &i); err != nil || json.Unmarshal(raw, &list) != nil || i < 0 || i >= len(list) {
		return nil
	}
	return list[i]
}

// unescape reads a segment of a pointer, which may also be percent-encoded.
func unescape(seg string) string {
	if strings.Contains(seg, "%") {
		seg = percent(seg)
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(seg)
}
