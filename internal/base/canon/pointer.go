package canon

import (
	"strconv"
	"strings"
)

// At finds the value of a decoded document that a JSON pointer (RFC 6901) names.
func At(doc any, pointer string) (any, bool) {
	if pointer == "" {
		return doc, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for key := range strings.SplitSeq(pointer[1:], "/") {
		key = unescape.Replace(key)
		switch v := doc.(type) {
		case map[string]any:
			next, there := v[key]
			if !there {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != key {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// Below returns the pointer to a member of the value at a pointer.
func Below(pointer, key string) string {
	return pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
