package policy

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// truth is the result of a constraint. The zero truth is unknown: a constraint that
// cannot be evaluated neither matches nor rules out.
type truth uint8

const (
	unknown truth = iota
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// and is yes if both are, no if one is.
func (t truth) and(o truth) truth {
	switch {
	case t == no || o == no:
		return no
	case t == unknown || o == unknown:
		return unknown
	}
	return yes
}

// sameValue compares two JSON values. Values of different types cannot be
// compared: a tool might take "5" for 5.
func sameValue(a, b any) truth {
	switch a := a.(type) {
	case nil:
		if b == nil {
			return yes
		}
	case bool:
		if b, ok := b.(bool); ok {
			return truthOf(a == b)
		}
	case string:
		if b, ok := b.(string); ok {
			return truthOf(a == b)
		}
	case json.Number:
		if b, ok := b.(json.Number); ok {
			c, ok := compareNumbers(a, b)
			if !ok {
				return unknown
			}
			return truthOf(c == 0)
		}
	case []any:
		if b, ok := b.([]any); ok {
			return sameList(a, b)
		}
	case map[string]any:
		if b, ok := asMap(b); ok {
			return sameMap(a, b)
		}
	}
	return unknown
}

func sameList(a, b []any) truth {
	if len(a) != len(b) {
		return no
	}
	t := yes
	for i := range a {
		t = t.and(sameValue(a[i], b[i]))
	}
	return t
}

func sameMap(a, b map[string]any) truth {
	if len(a) != len(b) {
		return no
	}
	t := yes
	for k, v := range a {
		w, ok := b[k]
		if !ok {
			return no
		}
		t = t.and(sameValue(v, w))
	}
	return t
}

func asMap(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case tool.Args:
		return v, true
	}
	return nil, false
}

// compareNumbers compares two JSON numbers exactly: 1 is 1.0, and no digit of a
// large one is lost. Numbers that are absurdly long are not compared.
func compareNumbers(a, b json.Number) (int, bool) {
	x, errX := strconv.ParseInt(string(a), 10, 64)
	y, errY := strconv.ParseInt(string(b), 10, 64)
	if errX == nil && errY == nil {
		switch {
		case x < y:
			return -1, true
		case x > y:
			return 1, true
		}
		return 0, true
	}
	p, okP := exact(a)
	q, okQ := exact(b)
	if !okP || !okQ {
		return 0, false
	}
	return p.Cmp(q), true
}

func exact(n json.Number) (*big.Rat, bool) {
	s := string(n)
	if len(s) > 1000 || !json.Valid([]byte(s)) {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > 1000 || e < -1000 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}
