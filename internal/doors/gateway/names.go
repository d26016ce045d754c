package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// MaxName is how long the names are that clients are shown. Models' interfaces
// take 64 characters, and clients put the server's name before the tool's.
const MaxName = 64

// NameOf gives the name by which clients know a tool. Many take letters, digits,
// _ and - alone, so
//
//	fs.read                is  fs_read
//	mcp:github:get_issue   is  mcp__github__get_issue
//
// and whatever this would make ambiguous is written as _x and two hexadecimal
// digits and _: the ID can be read back from the name by [IDOf]. A name that
// would be longer than [MaxName] is cut and ends in a hash of the ID; such names
// belong to their connection, which knows what they stand for.
func NameOf(id tool.ID) string {
	name := plainName(string(id))
	if got, ok := IDOf(name); !ok || got != id {
		name = escape(string(id), "_.:/@")
	}
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	end := "_h" + hex.EncodeToString(sum[:8])
	return name[:MaxName-len(end)] + end
}

// plainName is the readable form: "_" for a dot where there is no colon, "__" for
// a colon.
func plainName(id string) string {
	if !strings.Contains(id, ":") {
		return strings.ReplaceAll(escape(id, "/@"), ".", "_")
	}
	return strings.ReplaceAll(escape(id, "./@"), ":", "__")
}

// escape writes some bytes in hexadecimal.
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

// IDOf reads the ID back from a name that [NameOf] gave and did not cut.
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
