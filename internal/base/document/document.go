// Package document reads the YAML and JSON files that people write: policies, plans,
// manifests, capabilities and settings. Reading is strict, and every problem is
// reported at once with line, column and field, so that a typing mistake never
// becomes an unintended rule.
//
// A document has one root, each key once, and no anchors, tags or merge keys
// (a format may allow aliases, up to a bound). Scalars follow YAML 1.2's core
// schema; a value that other programs read in another way is refused.
//
// Start at [NewReader]: [Reader.Read] gives the root, and the reader's typed
// fields ([Reader.String], [Reader.Size], …) bind its values.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// Kind is the kind of a value, in the terms of JSON.
type Kind uint8

// The kinds of values. The zero value is null.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Mapping
)

var kindNames = [...]string{"nothing", "a boolean", "a number", "a string", "a list", "a mapping"}

// String names the kind with its article, as messages use it.
func (k Kind) String() string { return kindNames[k] }

// Node is one value of a document with its position.
type Node struct {
	Kind  Kind
	Text  string  // a scalar: the string, the number as JSON writes it, "true" or "false"
	Items []*Node // the elements of a list
	Pairs []Pair  // the keys of a mapping, in the order of the document

	Line, Column int // from 1
}

// Pair is one key of a mapping with its value. The key is a string.
type Pair struct{ Key, Value *Node }

// Value is the node as decoded JSON: nil, bool, [json.Number], string, []any or
// map[string]any.
func (n *Node) Value() any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Number:
		return json.Number(n.Text)
	case String:
		return n.Text
	case List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = item.Value()
		}
		return out
	case Mapping:
		out := make(map[string]any, len(n.Pairs))
		for _, p := range n.Pairs {
			out[p.Key.Text] = p.Value.Value()
		}
		return out
	}
	return nil
}

// Lookup is the value of a key of a mapping, or nil.
func (n *Node) Lookup(key string) *Node {
	for _, p := range n.Pairs {
		if p.Key.Text == key {
			return p.Value
		}
	}
	return nil
}

// Is reports whether the node is the string s.
func (n *Node) Is(s string) bool { return n.Kind == String && n.Text == s }

// Describe describes the node for a message: `the string "x"`, `a list`.
func (n *Node) Describe() string {
	switch n.Kind {
	case String:
		return fmt.Sprintf("the string %q", clip.Text(n.Text, 60))
	case Number, Bool:
		return clip.Text(n.Text, 60)
	}
	return n.Kind.String()
}

// Options are the rules of a document format. The zero value of a bound is the
// default named beside it.
type Options struct {
	Code     fault.Code // of every problem
	Noun     string     // names the document in messages, as "policy"
	MaxBytes int        // 1 MiB
	MaxDepth int        // levels of nesting: 32
	MaxNodes int        // values in all: 1,000,000
	MaxKey   int        // bytes of a key: unbounded
	Aliases  int        // values that aliases may repeat; 0 refuses anchors and aliases
	AnyText  bool       // text may contain invisible characters and line breaks that editors do not show
	CoreTags bool       // explicit tags of the core schema (!!str, !!int, …) are allowed
	Foreign  bool       // other programs write the document: a key may be any scalar, and a number that JSON cannot hold is text
	Private  bool       // messages do not quote the document
}

func (o Options) withDefaults() Options {
	if o.Noun == "" {
		o.Noun = "document"
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = 32
	}
	if o.MaxNodes == 0 {
		o.MaxNodes = 1_000_000
	}
	return o
}

// MaxProblems bounds how many problems of one document are listed; the rest is
// counted.
const MaxProblems = 100

// Reader reads one document and collects its problems.
type Reader struct {
	file     string
	o        Options
	problems fault.List
	omitted  int // problems beyond MaxProblems
	nodes    int // values read
	repeated int // values that aliases repeated
	anchored int // anchored values around the one that is read, which aliases may repeat
}

// NewReader makes a reader for one file. The name is only for messages.
func NewReader(file string, o Options) *Reader {
	return &Reader{file: file, o: o.withDefaults()}
}

// Read parses YAML, or JSON if the text is a JSON object. It returns nil if the
// document cannot be read; Err says why.
func (r *Reader) Read(src []byte) *Node {
	src = canon.WithoutMark(src)
	if !r.readable(src) {
		return nil
	}
	t := bytes.TrimLeft(src, " \t\r\n")
	if strings.HasSuffix(r.file, ".json") || len(t) > 0 && t[0] == '{' && json.Valid(src) {
		return r.dropInvalid(r.parseJSON(src))
	}
	return r.dropInvalid(r.parseYAML(src))
}

// ReadYAML parses YAML only.
func (r *Reader) ReadYAML(src []byte) *Node {
	src = canon.WithoutMark(src)
	if !r.readable(src) {
		return nil
	}
	return r.dropInvalid(r.parseYAML(src))
}

// ReadJSON parses JSON only.
func (r *Reader) ReadJSON(src []byte) *Node {
	src = canon.WithoutMark(src)
	if !r.readable(src) {
		return nil
	}
	return r.dropInvalid(r.parseJSON(src))
}

// dropInvalid drops a tree with problems: nothing may be taken from half a document.
func (r *Reader) dropInvalid(n *Node) *Node {
	if len(r.problems) > 0 {
		return nil
	}
	return n
}

// Err lists every problem found, or is nil.
func (r *Reader) Err() error {
	if r.omitted > 0 {
		e := fault.New(r.o.Code, "%d more problems", r.omitted).At(fault.Pos{File: r.file})
		return append(r.problems[:len(r.problems):len(r.problems)], e)
	}
	return r.problems.Err()
}

// Failed reports whether a problem was found.
func (r *Reader) Failed() bool { return len(r.problems) > 0 }

// Problems is the number of problems found so far.
func (r *Reader) Problems() int { return len(r.problems) + r.omitted }

// Pos is a node's position for an error or a rule.
func (r *Reader) Pos(n *Node) fault.Pos {
	return fault.Pos{File: r.file, Line: n.Line, Column: n.Column}
}

// Fail records a problem of a node. The caller may set the hint of the error
// that it returns.
func (r *Reader) Fail(n *Node, field, format string, args ...any) *fault.Error {
	return r.fail(n.Line, n.Column, field, format, args...)
}

func (r *Reader) fail(line, column int, field, format string, args ...any) *fault.Error {
	if r.o.Private {
		args = withoutQuotes(args)
	}
	e := fault.New(r.o.Code, "%s", Visible(fmt.Sprintf(format, args...))).At(fault.Pos{File: r.file, Line: line, Column: column}).In(field)
	if len(r.problems) == MaxProblems {
		r.omitted++
	} else {
		r.problems = append(r.problems, e)
	}
	return e
}

// words is an argument of a message that is not quoted from the document.
type words string

// withoutQuotes replaces the arguments that may be quoted from the document.
func withoutQuotes(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range args {
		switch arg.(type) {
		case string, error:
			out[i] = "…"
		}
	}
	return out
}

// describe is [Node.Describe] as far as the document may be quoted.
func (r *Reader) describe(n *Node) words {
	if r.o.Private {
		return words(n.Kind.String())
	}
	return words(n.Describe())
}

// join is [Join] as far as the document may be quoted.
func (r *Reader) join(field, key string) string {
	if r.o.Private && (len(key) > 32 || !plainKey(key)) {
		return field + "[…]"
	}
	return Join(field, key)
}

// readable refuses bytes that no format has, and characters by which a document
// looks like another one where it is reviewed.
func (r *Reader) readable(src []byte) bool {
	switch {
	case len(src) > r.o.MaxBytes:
		r.fail(1, 1, "", "the %s has %d bytes; the maximum is %d", words(r.o.Noun), len(src), r.o.MaxBytes)
	case !utf8.Valid(src):
		r.failAt(src, invalidAt(src), "the %s is not UTF-8", words(r.o.Noun)).Hint = "save the file as UTF-8"
	case bytes.IndexByte(src, 0) >= 0:
		r.failAt(src, bytes.IndexByte(src, 0), "the %s contains a NUL byte", words(r.o.Noun))
	case !r.o.AnyText:
		r.visible(src)
	}
	return len(r.problems) == 0
}

// visible refuses line breaks of YAML that editors do not show, and characters
// that change the direction of text.
func (r *Reader) visible(src []byte) {
	for i, c := range string(src) {
		switch {
		case c == 0x85, c == 0x2028, c == 0x2029, c == '\r' && !bytes.HasPrefix(src[i+1:], []byte("\n")):
			r.failAt(src, i, "the %s contains the line break %+q, which many editors do not show", words(r.o.Noun), c).Hint = `end lines with \n or \r\n`
		case c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069, c == 0x200e, c == 0x200f, c == 0x61c:
			r.failAt(src, i, "the %s contains the character %+q, which changes how the text around it is shown", words(r.o.Noun), c)
		}
	}
}

func (r *Reader) failAt(src []byte, offset int, format string, args ...any) *fault.Error {
	line, column := position(src, offset)
	return r.fail(line, column, "", format, args...)
}

// position is the line and column, both from 1, of a byte.
func position(src []byte, offset int) (line, column int) {
	before := src[:min(max(offset, 0), len(src))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
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

// enter counts a value and reports whether it is within the bounds.
func (r *Reader) enter(n *Node, field string, depth int) bool {
	r.nodes++
	switch {
	case depth > r.o.MaxDepth:
		r.Fail(n, field, "nested more than %d levels deep", r.o.MaxDepth).Hint = "flatten the value"
	case r.nodes == r.o.MaxNodes+1:
		r.Fail(n, field, "the %s has more than %d values", words(r.o.Noun), r.o.MaxNodes)
	}
	return depth <= r.o.MaxDepth && r.nodes <= r.o.MaxNodes
}

// addPair adds a key to a mapping, each key once. It reports whether the value
// was read.
func (r *Reader) addPair(n *Node, seen map[string]int, key *Node, field string, value func(field string) *Node) bool {
	if r.o.MaxKey > 0 && len(key.Text) > r.o.MaxKey {
		r.Fail(key, field, "a key has %d bytes; the maximum is %d", len(key.Text), r.o.MaxKey).Hint = "shorten it"
		return false
	}
	path := r.join(field, key.Text)
	if first, twice := seen[key.Text]; twice {
		r.Fail(key, path, "the key %q is given twice, first on line %d", clip.Text(key.Text, 60), first).Hint = "remove one"
		return false
	}
	seen[key.Text] = key.Line
	n.Pairs = append(n.Pairs, Pair{key, value(path)})
	return true
}

// Join appends a key to a field's path: files.read, or roles["agent:x"].
func Join(field, key string) string {
	switch {
	case !plainKey(key):
		return fmt.Sprintf("%s[%q]", field, clip.Text(key, 60))
	case field == "":
		return key
	}
	return field + "." + key
}

// Index appends the number of an element to a field's path: steps[2].
func Index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

func plainKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return key != ""
}

// Visible writes characters that a terminal could obey, or not show, as Go
// escapes.
func Visible(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}
