package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/base/tool"
)

// MaxName is the longest name of a tool for clients. Model providers accept 64 characters,
// and clients put the server's name before the tool's.
const MaxName = 64

// NameOf gives the name of a tool for clients. Many clients accept only letters, digits, _
// and -, so
//
//	fs.read                is  fs_read
//	mcp:github:get_issue   is  mcp__github__get_issue
//
// and bytes that would make a name ambiguous are written as _x, two hexadecimal digits and
// _: [IDOf] gives the ID of a name. A name that would be longer than [MaxName] is cut and
// ends with a hash of the ID; only its connection knows the ID of such a name.
func NameOf(id tool.ID) string {
	name := plainName(string(id))
	if got, ok := IDOf(name); !ok || got != id {
		name = escape(string(id), "_.:/@")
	}
	if len(name) <= MaxName {
		return name
	}
	return hashedName(name, id)
}

// hashedName gives a name a suffix that no other ID has, and cuts it to fit.
func hashedName(name string, id tool.ID) string {
	sum := sha256.Sum256([]byte(id))
	end := "_h" + hex.EncodeToString(sum[:8])
	return name[:min(len(name), MaxName-len(end))] + end
}

// spelling is the part of a name that is left without case and signs. Some clients and models take
// names with the same spelling for one.
func spelling(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// namer gives tools names of different spellings.
type namer struct{ taken map[string]tool.ID }

// newNamer makes a namer that keeps the names that a client has seen.
func newNamer(listed map[string]tool.ID) *namer {
	n := &namer{map[string]tool.ID{}}
	for name, id := range listed {
		n.taken[spelling(name)] = id
	}
	return n
}

// name returns the name itself, or the name with a suffix if another tool has its spelling.
func (n *namer) name(name string, id tool.ID) string {
	if was, ok := n.taken[spelling(name)]; ok && was != id {
		name = hashedName(name, id)
	}
	n.taken[spelling(name)] = id
	return name
}

// plainName is the readable form: "_" for a dot in an ID without a colon, "__" for a colon.
func plainName(id string) string {
	if !strings.Contains(id, ":") {
		return strings.ReplaceAll(escape(id, "/@"), ".", "_")
	}
	return strings.ReplaceAll(escape(id, "./@"), ":", "__")
}

// escape writes certain bytes in hexadecimal.
func escape(s, which string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(which, s[i]) >= 0 {
			b.WriteString("_x" + hex.EncodeToString([]byte{s[i]}) + "_")
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// IDOf gives the ID for a name from [NameOf] that was not cut.
func IDOf(name string) (tool.ID, bool) {
	single := "."
	if strings.Contains(name, "__") {
		single = "_"
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c, n := name[i], 1
		switch rest := name[i:]; {
		case c != '_':
			b.WriteByte(c)
		case len(rest) >= 5 && rest[1] == 'x' && rest[4] == '_' && unhex(rest[2:4]) != "":
			b.WriteString(unhex(rest[2:4]))
			n = 5
		case strings.HasPrefix(rest, "__"):
			b.WriteByte(':')
			n = 2
		default:
			b.WriteString(single)
		}
		i += n - 1
	}
	id, err := tool.ParseID(b.String())
	return id, err == nil
}

func unhex(two string) string {
	raw, err := hex.DecodeString(two)
	if err != nil || two != strings.ToLower(two) {
		return ""
	}
	return string(raw)
}
