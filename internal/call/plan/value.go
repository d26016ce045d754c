package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/near"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// truth is what a value counts as in a condition.
func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		return !isZero(string(v))
	}
	return true
}

// isZero looks at the digits before any exponent, so that no number is too
// small or large for it.
func isZero(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 'e' || c == 'E':
			return true
		case c >= '1' && c <= '9':
			return false
		}
	}
	return true
}

// equal compares two values of the JSON model; numbers by their value.
func equal(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false
		}
		c, ok := orderNumbers(string(x), string(y))
		return ok && c == 0 || x == y
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// order compares two numbers or two strings (by their bytes).
func order(a, b any) (int, bool) {
	switch x := a.(type) {
	case json.Number:
		if y, ok := b.(json.Number); ok {
			return orderNumbers(string(x), string(y))
		}
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y), true
		}
	}
	return 0, false
}

// orderNumbers is exact for integers of any size; others compare as doubles.
func orderNumbers(a, b string) (int, bool) {
	if intPattern.MatchString(a) && intPattern.MatchString(b) {
		return orderInts(a, b), true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return cmp.Compare(x, y), errX == nil && errY == nil
}

func orderInts(a, b string) int {
	if isZero(a) && isZero(b) {
		return 0
	}
	x, negX := strings.CutPrefix(a, "-")
	y, negY := strings.CutPrefix(b, "-")
	if negX != negY {
		if negX {
			return -1
		}
		return 1
	}
	c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	if negX {
		return -c
	}
	return c
}

// nearest returns a hint that names the candidate most like a misspelt word, or
// "" if none is close.
func nearest(word string, candidates []string) string {
	found := near.Word(word, candidates)
	if found == "" {
		return ""
	}
	return "did you mean " + strconv.Quote(found) + "?"
}

func orHint(hints ...string) string { return cmp.Or(hints...) }
