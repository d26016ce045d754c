package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/canon"
	"github.com/remitrun/remit/internal/fault"
)

// place is where in the source something stands.
type place struct{ line, col int }

// node is a value of the source in the JSON model, with its place.
type node struct {
	place
	list bool    // a list
	dict bool    // an object
	val  any     // a scalar: nil, bool, json.Number, string
	keys []entry // of an object
	kids []*node // of a list or an object
}

type entry struct {
	name string
	place
}

func (n *node) kind() string {
	switch n.val.(type) {
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	}
	switch {
	case n.list:
		return "a list"
	case n.dict:
		return "an object"
	}
	return "nothing"
}

// value is the node in the JSON model.
func (n *node) value() any {
	switch {
	case n.list:
		out := make([]any, len(n.kids))
		for i, k := range n.kids {
			out[i] = k.value()
		}
		return out
	case n.dict:
		out := make(map[string]any, len(n.kids))
		for i, k := range n.kids {
			out[n.keys[i].name] = k.value()
		}
		return out
	}
	return n.val
}

// reader collects problems while a plan is read.
type reader struct {
	file     string
	problems fault.List
	more     int // problems beyond maxProblems
	aliased  int // nodes that aliases repeated

	pending [][]*ref  // the references of each step
	needPos [][]place // where each step's needs stand, by its index
}

// problem reports one problem with the way out.
func (r *reader) problem(code fault.Code, at place, field, hint, format string, args ...any) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	e := fault.New(code, format, args...)
	e.Pos, e.Field = fault.Pos{File: r.file, Line: at.line, Column: at.col}, field
	e.Msg, e.Hint = visible(e.Msg), visible(hint)
	r.problems = append(r.problems, e)
}

func (r *reader) bad(at place, field, hint, format string, args ...any) {
	r.problem(fault.PlanInvalid, at, field, hint, format, args...)
}

func (r *reader) err() error {
	if r.more > 0 {
		e := fault.New(fault.PlanInvalid, "%d more problems", r.more)
		e.Pos = fault.Pos{File: r.file}
		r.problems = append(r.problems, e)
		r.more = 0
	}
	return r.problems.Err()
}

// source reads bytes into nodes, or reports why it cannot.
func (r *reader) source(src []byte) *node {
	switch {
	case len(src) > MaxSize:
		r.bad(place{}, "", "split the plan", "a plan has at most %d bytes, this one %d", MaxSize, len(src))
		return nil
	case !utf8.Valid(src):
		r.bad(lineOf(src, invalidAt(src)), "", "save the file as UTF-8", "the plan is not UTF-8")
		return nil
	}
	if t := bytes.TrimLeft(src, " \t\r\n"); strings.HasSuffix(r.file, ".json") || len(t) > 0 && t[0] == '{' && json.Valid(src) {
		return r.fromJSON(src)
	}
	return r.fromYAML(src)
}

func invalidAt(src []byte) int {
	for i := 0; i < len(src); {
		c, n := utf8.DecodeRune(src[i:])
		if c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(src)
}

func lineOf(src []byte, offset int) place {
	offset = min(offset, len(src))
	before := src[:offset]
	return place{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])}
}

// fromJSON checks with the strict reader, then walks the tokens for the places.
func (r *reader) fromJSON(src []byte) *node {
	if _, err := canon.Decode(src); err != nil {
		at := place{}
		var s *canon.SyntaxError
		if errors.As(err, &s) {
			at = lineOf(src, s.Offset)
			err = errors.New(s.Msg)
		}
		r.bad(at, "", "correct the JSON", "%v", err)
		return nil
	}
	w := jsonWalk{r: r, src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1}
	w.dec.UseNumber()
	return w.value(0)
}

type jsonWalk struct {
	r         *reader
	src       []byte
	dec       *json.Decoder
	at        int // how far line and lineStart are up to date
	line      int
	lineStart int
}

// token reads the next token and tells where it begins.
func (w *jsonWalk) token() (json.Token, place) {
	off := int(w.dec.InputOffset())
	for off < len(w.src) && strings.IndexByte(" \t\r\n,:", w.src[off]) >= 0 {
		off++
	}
	for ; w.at < off; w.at++ {
		if w.src[w.at] == '\n' {
			w.line, w.lineStart = w.line+1, w.at+1
		}
	}
	t, err := w.dec.Token()
	if err != nil { // canon.Decode has accepted it, so only a bug leads here
		w.r.bad(place{}, "", "", "unreadable JSON: %v", err)
	}
	return t, place{w.line, 1 + off - w.lineStart}
}

func (w *jsonWalk) value(depth int) *node {
	t, at := w.token()
	n := &node{place: at}
	switch t := t.(type) {
	case json.Delim:
		if depth > maxDepth {
			w.r.bad(at, "", "flatten the value", "nested deeper than %d", maxDepth)
		}
		n.dict, n.list = t == '{', t == '['
		for w.dec.More() {
			if n.dict {
				k, at := w.token()
				name, _ := k.(string)
				n.keys = append(n.keys, entry{name, at})
			}
			n.kids = append(n.kids, w.value(depth+1))
		}
		w.token()
	case json.Number:
		n.val = w.r.number(string(t), at)
	default:
		n.val = t
	}
	return n
}

// number refuses what canonical JSON cannot hold.
func (r *reader) number(s string, at place) any {
	v := json.Number(s)
	if _, err := canon.Marshal(v); err != nil {
		r.bad(at, "", "write it as a string in quotes", "%v", err)
	}
	return v
}

func (r *reader) fromYAML(src []byte) *node {
	loader, err := yaml.NewLoader(bytes.NewReader(src))
	var doc, second yaml.Node
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) {
		r.bad(place{1, 1}, "", `a plan holds at least "steps"`, "the plan is empty")
		return nil
	}
	if err != nil {
		r.yamlError(err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		r.bad(place{second.Line, second.Column}, "", "put the second plan into a file of its own", "a second document")
		return nil
	case !errors.Is(err, io.EOF):
		r.yamlError(err)
		return nil
	}
	top := &doc
	if top.Kind == yaml.DocumentNode && len(top.Content) == 1 {
		top = top.Content[0]
	}
	return r.node(top, "", 0, 0)
}

func (r *reader) yamlError(err error) {
	var le *yaml.LoadError
	if errors.As(err, &le) {
		at := place{le.Mark.Line, le.Mark.Column}
		msg := le.Message
		if le.ContextMsg != "" {
			msg = le.ContextMsg + ": " + msg
		}
		r.bad(at, "", "correct the YAML", "%s", msg)
		return
	}
	r.bad(place{}, "", "correct the YAML", "%v", err)
}

// maxAliased bounds how many nodes aliases may repeat in all: a plan of some
// bytes must not unfold into gigabytes.
const maxAliased = 10_000

// node turns YAML into the JSON model. Aliases is how many it is inside of.
func (r *reader) node(y *yaml.Node, field string, depth, aliases int) *node {
	at := place{y.Line, y.Column}
	n := &node{place: at}
	if depth > maxDepth {
		r.bad(at, field, "flatten the value", "nested deeper than %d", maxDepth)
		return n
	}
	if aliases > 0 {
		if r.aliased++; r.aliased > maxAliased {
			if r.aliased == maxAliased+1 {
				r.bad(at, field, "write the values out", "aliases repeat more than %d values", maxAliased)
			}
			return n
		}
	}
	switch y.Kind {
	case yaml.AliasNode:
		if y.Alias == nil {
			r.bad(at, field, "", "the alias %q stands for nothing", y.Value)
			return n
		}
		kid := r.node(y.Alias, field, depth+1, aliases+1)
		kid.place = at
		return kid
	case yaml.ScalarNode:
		n.val = r.scalar(y, field)
	case yaml.SequenceNode:
		r.tag(y, field, "!!seq")
		n.list, n.kids = true, make([]*node, len(y.Content))
		for i, c := range y.Content {
			n.kids[i] = r.node(c, field+"["+strconv.Itoa(i)+"]", depth+1, aliases)
		}
	case yaml.MappingNode:
		r.tag(y, field, "!!map")
		r.mapping(n, y, field, depth, aliases)
	default:
		r.bad(at, field, "", "unexpected YAML")
	}
	return n
}

func (r *reader) mapping(n *node, y *yaml.Node, field string, depth, aliases int) {
	n.dict = true
	seen := make(map[string]place, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		at := place{k.Line, k.Column}
		if k.Kind == yaml.AliasNode && k.Alias != nil {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			r.bad(at, field, "", "a key must be a string")
			continue
		}
		if k.Value == "<<" && k.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
			r.bad(at, field, "write the values out, or quote the key", "merge keys (<<) are not allowed")
			continue
		}
		name, ok := r.scalar(k, field).(string)
		if !ok {
			r.bad(at, field, "put it into quotes", "the key %q is no string", k.Value)
			continue
		}
		r.key(name, at, field)
		if first, twice := seen[name]; twice {
			r.bad(at, join(field, name), "remove one", "the key %q occurs twice, first in line %d", name, first.line)
			continue
		}
		seen[name] = at
		n.keys = append(n.keys, entry{name, at})
		n.kids = append(n.kids, r.node(y.Content[i+1], join(field, name), depth+1, aliases))
	}
}

func (r *reader) key(name string, at place, field string) {
	if len(name) > MaxKey {
		r.bad(at, field, "shorten it", "a key has at most %d bytes, this one %d", MaxKey, len(name))
	}
}

// tag refuses explicit tags other than the core one that fits.
func (r *reader) tag(y *yaml.Node, field, want string) {
	if y.Style&yaml.TaggedStyle != 0 && y.ShortTag() != want {
		r.bad(place{y.Line, y.Column}, field, "remove it", "the tag %q is not allowed", y.Tag)
	}
}

var (
	intPattern   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatPattern = regexp.MustCompile(`^([-+]?)([0-9]*)(\.([0-9]*))?([eE][-+]?[0-9]+)?$`)
	basePattern  = regexp.MustCompile(`^([-+]?)0([xo])([0-9a-fA-F]+)$`)
	notFinite    = regexp.MustCompile(`^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

// scalar reads a scalar by YAML 1.2's core schema, except that infinities,
// NaN, and so timestamps, stay strings, as JSON knows none of them.
func (r *reader) scalar(y *yaml.Node, field string) any {
	at := place{y.Line, y.Column}
	if y.Style&yaml.TaggedStyle != 0 {
		switch y.ShortTag() {
		case "!!str":
			return y.Value
		case "!!int", "!!float", "!!bool", "!!null":
			v := r.plain(y.Value, at, field)
			if ok := map[string]bool{"!!int": isInt(v), "!!float": isNumber(v), "!!bool": isBool(v), "!!null": v == nil}[y.ShortTag()]; !ok {
				r.bad(at, field, "remove the tag", "%q is no %s", y.Value, y.ShortTag())
			}
			return v
		}
		r.bad(at, field, "remove it", "the tag %q is not allowed", y.Tag)
		return y.Value
	}
	if y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return y.Value
	}
	return r.plain(y.Value, at, field)
}

func isInt(v any) bool    { n, ok := v.(json.Number); return ok && intPattern.MatchString(string(n)) }
func isNumber(v any) bool { _, ok := v.(json.Number); return ok }
func isBool(v any) bool   { _, ok := v.(bool); return ok }

func (r *reader) plain(s string, at place, field string) any {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') || notFinite.MatchString(s) {
		return s
	}
	if m := basePattern.FindStringSubmatch(s); m != nil {
		base := map[string]int{"x": 16, "o": 8}[m[2]]
		u, err := strconv.ParseUint(m[3], base, 64)
		if err != nil {
			r.bad(at, field, "put it into quotes if it is text", "%s is no number that fits 64 bits", s)
			return s
		}
		return json.Number(strings.TrimPrefix(m[1], "+") + strconv.FormatUint(u, 10))
	}
	m := floatPattern.FindStringSubmatch(s)
	if m == nil || m[2] == "" && m[4] == "" {
		return s
	}
	return r.decimal(s, m, at, field)
}

// decimal keeps a number as it is written where JSON can hold it.
func (r *reader) decimal(s string, m []string, at place, field string) any {
	whole := m[2]
	if len(whole) > 1 && whole[0] == '0' {
		r.bad(at, field, "put it into quotes if it is text, write 0o for octal, or leave the zeros out", "%s begins with zeros, which programs read in different ways", s)
		return s
	}
	if whole == "" {
		whole = "0"
	}
	out := strings.TrimPrefix(m[1], "+") + whole
	if m[3] != "" {
		if m[4] == "" {
			m[4] = "0"
		}
		out += "." + m[4]
	}
	n := json.Number(out + m[5])
	if f, err := n.Float64(); len(s) > 15 && (m[3] != "" || m[5] != "") && (err != nil || math.IsInf(f, 0)) || m[5] != "" && err != nil {
		r.bad(at, field, "put it into quotes if it is text", "%s is beyond the range of numbers", s)
	}
	return n
}

func join(field, key string) string {
	if !plainKey(key) {
		return fmt.Sprintf("%s[%q]", field, key)
	}
	if field == "" {
		return key
	}
	return field + "." + key
}

func plainKey(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isIdent(s[i]) {
			return false
		}
	}
	return s != ""
}
