package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// percent decodes percent-encoding where it is valid.
func percent(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}

// names gives each operation a name of its own.
type names struct{ used map[string]bool }

// maxName bounds a tool's name, so that its ID has room for the document's.
const maxName = 120

// take returns a name for an operation: its operationId, else its method and path
// made into one. Names that differ in letter case alone count as the same.
func (n *names) take(id, method, path string) string {
	own := slug(strings.ToLower(method) + "_" + path)
	name := slug(id)
	if name == "" {
		name = own
	}
	for _, try := range []string{name, name + "." + own} {
		if try = shortName(try); !n.used[strings.ToLower(try)] {
			n.used[strings.ToLower(try)] = true
			return try
		}
	}
	name = shortName(name + "." + hash(method+" "+path))
	for n.used[strings.ToLower(name)] {
		name = shortName(name + "." + hash(name))
	}
	n.used[strings.ToLower(name)] = true
	return name
}

// slug keeps the characters of a text that a tool's ID may contain.
func slug(s string) string {
	var b strings.Builder
	gap := false
	for _, c := range s {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._/-", c)
		switch {
		case ok && gap && b.Len() > 0:
			b.WriteByte('_')
			fallthrough
		case ok:
			b.WriteRune(c)
			gap = false
		default:
			gap = true
		}
	}
	out := strings.ReplaceAll(strings.ReplaceAll(b.String(), "_/", "_"), "/_", "_")
	return strings.Trim(out, "._/-")
}

func shortName(s string) string {
	if len(s) <= maxName {
		return s
	}
	return s[:maxName-9] + "." + hash(s)
}

// hash tells texts apart that look alike once they are cut.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
