package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// number gives the exact value of a number, nil for another value and for exponents
// beyond reason.
func number(v any) *big.Rat {
	switch v := v.(type) {
	case json.Number:
		if x, ok := new(big.Rat).SetString(string(v)); ok {
			return x
		}
	case float64:
		return new(big.Rat).SetFloat64(v)
	case int:
		return new(big.Rat).SetInt64(int64(v))
	case int64:
		return new(big.Rat).SetInt64(v)
	case uint64:
		return new(big.Rat).SetUint64(v)
	}
	return nil
}

// typeOf names the JSON type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number, float32, float64, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return "number"
	}
	return fmt.Sprintf("the Go type %T", v)
}

func isOf(v any, name string) bool {
	got := typeOf(v)
	if name != "integer" || got != "number" {
		return got == name
	}
	x := number(v)
	return x != nil && x.IsInt()
}

// holds reports whether a list has a value. Numbers are compared by value.
func holds(list []any, v any) bool {
	want := key(v)
	return slices.ContainsFunc(list, func(one any) bool { return key(one) == want })
}

// key is the same text for equal values alone.
func key(v any) string {
	switch v := v.(type) {
	case nil:
		return "n"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return strconv.Quote(v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = key(v[i])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(name)+":"+key(v[name]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	if x := number(v); x != nil {
		return x.RatString()
	}
	return fmt.Sprintf("%T %v", v, v)
}

func duplicates(list []any) (i, j int, twice bool) {
	first := make(map[string]int, len(list))
	for j, v := range list {
		k := key(v)
		if i, twice := first[k]; twice {
			return i, j, true
		}
		first[k] = j
	}
	return 0, 0, false
}

// choices lists the values that an enum allows.
func choices(enum []any) string {
	texts := make([]string, len(enum))
	for i, v := range enum {
		switch v := v.(type) {
		case string:
			texts[i] = quoted([]string{v})
		default:
			b, err := json.Marshal(v)
			if err != nil {
				b = []byte(typeOf(v))
			}
			texts[i] = string(b)
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "one of " + strings.Join(texts, ", ")
}

// quoted writes names in single quotes.
func quoted(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		q := strconv.Quote(name)
		q = strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), `'`, `\'`)
		texts[i] = "'" + q + "'"
	}
	return strings.Join(texts, ", ")
}
