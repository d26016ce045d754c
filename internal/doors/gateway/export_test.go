package gateway

import "github.com/remitrun/remit/internal/base/tool"

// MaskKeys is exported for tests.
var MaskKeys = maskKeys

// NamesOf gives names to tools for a client that has seen these names.
func NamesOf(listed map[string]tool.ID, ids []tool.ID) []string {
	n, out := newNamer(listed), make([]string, len(ids))
	for i, id := range ids {
		out[i] = n.name(NameOf(id), id)
	}
	return out
}
