package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// SyntaxError says why bytes are not the JSON that [Decode] takes, and where.
type SyntaxError struct {
	Offset int // of the byte concerned, from 0
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s (at byte %d)", e.Msg, e.Offset+1) }

// MaxValues is how many values a request from outside may hold.
const MaxValues = 10000

// WithoutMark returns a text without the byte order mark that some programs on Windows write before UTF-8.
func WithoutMark(src []byte) []byte { return bytes.TrimPrefix(src, []byte("\ufeff")) }

// Decode reads exactly one JSON value (RFC 8259): nil, bool, [json.Number], string,
// []any or map[string]any. It refuses, with a [*SyntaxError], text that readers
// interpret differently: duplicate keys, data after the value, bytes that are not
// UTF-8, escapes of half a surrogate pair, and nesting beyond [MaxDepth].
func Decode(b []byte) (any, error) {
	p := parser{src: b}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(b) {
		return nil, p.fail("data after the end of the value")
	}
	return v, nil
}

// DecodeLenient reads a JSON text that must not be refused, as far as it can. Half a surrogate pair and bytes that are not
// UTF-8 become U+FFFD. Of two equal keys the last one counts, but two equal keys of the outermost object are an error. An
// array or object that is nested too deep, or comes after limit values, becomes a string with its JSON text. whole is false
// if the text ends early or is not JSON: v is then the part before the error, and nil if there is none.
func DecodeLenient(b []byte, limit int) (v any, whole bool) {
	p := parser{src: b, lenient: true, left: limit}
	v, err := p.value(0)
	p.space()
	return v, err == nil && p.at == len(b)
}

// lenientDepth is how deep a value of DecodeLenient is nested at most, so that an answer with the value can be encoded.
const lenientDepth = MaxDepth / 2

// Values estimates the number of values in a JSON text without decoding it: decoding
// needs up to 400 bytes for each value, much more than the text.
func Values(b []byte) int {
	n, text := 1, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

type parser struct {
	src     []byte
	at      int
	lenient bool
	left    int // values until the others become text; if lenient
}

// asText reports whether the next array or object becomes a string.
func (p *parser) asText(depth int) bool {
	p.left--
	return p.lenient && (p.left < 0 || depth >= lenientDepth) && (p.src[p.at] == '[' || p.src[p.at] == '{')
}

// rest reads the JSON text up to the end of the array or object whose brackets are open, as a string.
func (p *parser) rest(open int) (string, error) {
	start, text := p.at, false
	for ; p.at < len(p.src); p.at++ {
		switch c := p.src[p.at]; {
		case text && c == '\\':
			p.at++
		case c == '"':
			text = !text
		case !text && (c == '[' || c == '{'):
			open++
		case !text && (c == ']' || c == '}'):
			if open--; open == 0 {
				p.at++
				return p.text(p.src[start:p.at]), nil
			}
		}
	}
	p.at = len(p.src)
	return p.text(p.src[start:]), p.fail("an array or object has no end")
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{Offset: p.at, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.src) {
		switch p.src[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.src) {
		return p.src[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (any, error) {
	p.space()
	if p.at >= len(p.src) {
		return nil, p.fail("a value is missing")
	}
	if p.asText(depth) {
		return p.rest(0)
	}
	if depth > MaxDepth {
		return nil, p.fail("nested deeper than %d", MaxDepth)
	}
	switch c := p.src[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		start := p.at
		if err := p.number(); err != nil {
			return nil, err
		}
		return json.Number(p.src[start:p.at]), nil
	}
	for word, v := range map[string]any{"null": nil, "true": true, "false": false} {
		if n := p.at + len(word); n <= len(p.src) && string(p.src[p.at:n]) == word {
			p.at = n
			return v, nil
		}
	}
	return nil, p.fail("no JSON value begins with %q", rune(p.src[p.at]))
}

func (p *parser) object(depth int) (any, error) {
	out := map[string]any{}
	p.at++
	if p.space(); p.peek() == '}' {
		p.at++
		return out, nil
	}
	for {
		if p.lenient && p.left <= 0 && depth > 0 {
			text, err := p.rest(1)
			out["…"] = text
			return out, err
		}
		p.space()
		if p.peek() != '"' {
			return out, p.fail("a key in double quotes is missing")
		}
		start := p.at
		key, err := p.string()
		if err != nil {
			return out, err
		}
		if _, twice := out[key]; twice && (!p.lenient || depth == 0) {
			return nil, &SyntaxError{Offset: start, Msg: fmt.Sprintf("the key %q occurs twice", key)}
		}
		if p.space(); p.peek() != ':' {
			return out, p.fail("a colon is missing")
		}
		p.at++
		if out[key], err = p.value(depth + 1); err != nil {
			return out, err
		}
		if done, err := p.next('}'); done || err != nil {
			return out, err
		}
	}
}

func (p *parser) array(depth int) (any, error) {
	out := []any{}
	p.at++
	if p.space(); p.peek() == ']' {
		p.at++
		return out, nil
	}
	for {
		if p.lenient && p.left <= 0 {
			text, err := p.rest(1)
			return append(out, text), err
		}
		v, err := p.value(depth + 1)
		if err != nil && v == nil {
			return out, err
		}
		if out = append(out, v); err != nil {
			return out, err
		}
		if done, err := p.next(']'); done || err != nil {
			return out, err
		}
	}
}

// next reads a comma, or the closing bracket, which ends the list.
func (p *parser) next(end byte) (bool, error) {
	p.space()
	switch p.peek() {
	case ',':
		p.at++
		return false, nil
	case end:
		p.at++
		return true, nil
	}
	return false, p.fail("a comma or %q is missing", rune(end))
}

func (p *parser) number() error {
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if p.digits() == 0 {
		return p.fail("a digit is missing")
	}
	if p.peek() == '.' {
		p.at++
		if p.digits() == 0 {
			return p.fail("a digit is missing")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if p.digits() == 0 {
			return p.fail("a digit is missing")
		}
	}
	return nil
}

func (p *parser) digits() int {
	start := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at - start
}

func (p *parser) string() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.src) && p.src[p.at] != '"' && p.src[p.at] != '\\' && p.src[p.at] >= 0x20 {
		p.at++
	}
	out := p.src[start:p.at:p.at] // appending copies
	for p.at < len(p.src) {
		switch c := p.src[p.at]; {
		case c == '"':
			if !utf8.Valid(out) && !p.lenient {
				return "", &SyntaxError{Offset: start, Msg: "a string is not UTF-8"}
			}
			p.at++
			return p.text(out), nil
		case c == '\\':
			more, err := p.escape(out)
			if err != nil {
				return p.text(out), err
			}
			out = more
		case c < 0x20 && !p.lenient:
			return "", p.fail("a control character inside a string")
		default:
			out = append(out, c)
			p.at++
		}
	}
	return p.text(out), p.fail("a string has no end")
}

// text is a string of the text, or the part of it that was read.
func (p *parser) text(b []byte) string {
	if p.lenient && !utf8.Valid(b) {
		return strings.ToValidUTF8(string(b), "\ufffd")
	}
	return string(b)
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (p *parser) escape(out []byte) ([]byte, error) {
	p.at++
	c := p.peek()
	if plain := escapes[c]; plain != 0 {
		p.at++
		return append(out, plain), nil
	}
	if c != 'u' {
		return nil, p.fail("an unknown escape")
	}
	r, err := p.unit()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(r) {
		if r, err = p.pair(r); err != nil {
			return nil, err
		}
	}
	return utf8.AppendRune(out, r), nil
}

// pair reads the second half of a surrogate pair.
func (p *parser) pair(high rune) (rune, error) {
	start := p.at
	if p.peek() == '\\' && p.at+1 < len(p.src) && p.src[p.at+1] == 'u' {
		p.at++
		low, err := p.unit()
		if err != nil {
			return 0, err
		}
		if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
			return r, nil
		}
	}
	if !p.lenient {
		return 0, p.fail("half a surrogate pair")
	}
	p.at = start
	return utf8.RuneError, nil
}

// unit reads "uXXXX".
func (p *parser) unit() (rune, error) {
	p.at++
	var r rune
	for range 4 {
		c := p.peek()
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.fail("four hexadecimal digits are missing")
		}
		r = r<<4 | rune(c)
		p.at++
	}
	return r, nil
}
