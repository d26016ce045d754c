package eventlog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Raw opens a log for the output of another program, as its standard error. Control
// characters are made visible, and the file is rotated at 1 MiB with one old file.
// After most bytes the log ends with a notice.
func Raw(name string, most int64) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("the log folder: %w", err)
	}
	f, err := openFile(name, Options{MaxSizeMB: 1, MaxBackups: 1})
	if err != nil {
		return nil, err
	}
	return &raw{WriteCloser: f, left: most}, nil
}

type raw struct {
	io.WriteCloser
	left int64
	full bool
}

// Write implements io.Writer. It takes all it is given, so that the program is
// never held up.
func (r *raw) Write(b []byte) (int, error) {
	if r.full {
		return len(b), nil
	}
	text := plainText(b)
	if r.left -= int64(len(b)); r.left < 0 {
		r.full = true
		text = "\n(it wrote too much: the rest is not kept)\n"
	}
	if _, err := io.WriteString(r.WriteCloser, text); err != nil {
		r.full = true // nothing is lost but this log
	}
	return len(b), nil
}

// plainText shows control characters instead of obeying them.
func plainText(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		switch {
		case c == '\n' || c == '\t' || c >= ' ' && c < 0x7f:
			out.WriteRune(c)
		case c == '\r':
		case c == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, b[0])
		case c < ' ' || c >= 0x7f && c < 0xa0 || c >= 0x200b && c <= 0x200f || c >= 0x2028 && c <= 0x202e || c >= 0x2066 && c <= 0x2069:
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			out.WriteRune(c)
		}
		b = b[n:]
	}
	return out.String()
}
