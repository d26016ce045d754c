// Package canon writes and reads canonical JSON, so that equal values have equal
// bytes wherever they are hashed, compared or recorded. Start at [Marshal] and
// [Decode].
//
// The form is that of RFC 8785 (JSON Canonicalization Scheme) with one
// deviation: an integer of magnitude over 2^53, written without fraction or
// exponent, keeps its digits, where the RFC would round it to the nearest
// double. Two different 64-bit identifiers must never become one.
package canon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested, for both directions.
const MaxDepth = 200

// Marshal writes v canonically. It takes nil, bool, string, [json.Number],
// float64, int, int64, uint64, []any and map[string]any; anything else goes
// through [json.Marshal] first. Numbers that no double can hold (other than
// plain integers), NaN, infinities, strings that are not UTF-8 and nesting
// beyond [MaxDepth] are errors.
func Marshal(v any) ([]byte, error) { return appendValue(nil, v, 0) }

func appendValue(b []byte, v any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v)
	case json.Number:
		return appendNumber(b, string(v))
	case float64:
		return appendFloat(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case []any:
		return appendArray(b, v, depth)
	case map[string]any:
		return appendObject(b, v, depth)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	plain, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	return appendValue(b, plain, depth)
}

func appendArray(b []byte, list []any, depth int) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, e, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, object map[string]any, depth int) ([]byte, error) {
	keys := make([]string, 0, len(object))
	for k := range object {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareUTF16)
	var err error
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(b, k); err != nil {
			return nil, err
		}
		if b, err = appendValue(append(b, ':'), object[k], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// compareUTF16 orders strings by their UTF-16 code units. That differs from
// the order of their bytes only where a character beyond U+FFFF (a surrogate
// pair, D800 to DFFF) meets one of U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			if (ra > 0xFFFF) != (rb > 0xFFFF) {
				return cmp.Compare(firstUnit(ra), firstUnit(rb))
			}
			return cmp.Compare(ra, rb)
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

func firstUnit(r rune) rune {
	if r > 0xFFFF {
		return 0xD800 + (r-0x10000)>>10
	}
	return r
}

const hexDigits = "0123456789abcdef"

func appendString(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string is not UTF-8")
	}
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\t':
			b = append(b, '\\', 't')
		case '\n':
			b = append(b, '\\', 'n')
		case '\f':
			b = append(b, '\\', 'f')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(b, s[start:]...), '"'), nil
}

func appendNumber(b []byte, s string) ([]byte, error) {
	p := parser{src: []byte(s)}
	if err := p.number(); err != nil || p.at != len(s) {
		return nil, fmt.Errorf("%q is not a JSON number", s)
	}
	integer := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == '.' || c == 'e' || c == 'E' {
			integer = false
			break
		}
	}
	if integer && len(s) > 15 { // shorter ones are exact in a double
		return append(b, s...), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is beyond the range of numbers", s)
	}
	return appendFloat(b, f)
}

// appendFloat prints as ECMAScript's Number.prototype.toString does.
func appendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("NaN and infinities are not JSON numbers")
	}
	if f == 0 {
		return append(b, '0'), nil // also for -0
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64), nil
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); b[n-2] == '0' && (b[n-3] == '-' || b[n-3] == '+') {
		b = append(b[:n-2], b[n-1]) // e-07 is written e-7
	}
	return b, nil
}
