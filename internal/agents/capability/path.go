package capability

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of a session file's path, in bytes.
const (
	maxPath = 1024
	maxPart = 255
)

// CleanPath returns the one spelling of a path in a session's files: absolute, with slashes,
// without "." and "..", which do not leave "/". A relative path starts at "/". Paths that
// are too long, or that could mislead a reader (control and format characters, bytes that
// are not UTF-8), are fault.ArgsInvalid.
func CleanPath(p string) (string, error) {
	switch {
	case p == "":
		return "", fault.New(fault.ArgsInvalid, "the path is empty").In("path")
	case !utf8.ValidString(p):
		return "", fault.New(fault.ArgsInvalid, "the path %q is not valid UTF-8", p).In("path")
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }):
		return "", fault.New(fault.ArgsInvalid, "the path %q contains an invisible character", p).In("path")
	}
	clean := path.Clean("/" + p)
	if len(clean) > maxPath {
		return "", fault.New(fault.ArgsInvalid, "the path has %d bytes; the limit is %d", len(clean), maxPath).In("path")
	}
	for part := range strings.SplitSeq(clean, "/") {
		if len(part) > maxPart {
			return "", fault.New(fault.ArgsInvalid, "a name in the path has %d bytes; the limit is %d", len(part), maxPart).In("path")
		}
	}
	return clean, nil
}

// Need returns a session's files, or an error if it has none.
func (s Session) Need() (Files, error) {
	if s.Files == nil {
		return nil, fault.New(fault.ToolFailed, "the session has no files").WithHint("use the tool in a session of an agent")
	}
	return s.Files, nil
}
