package fs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func read() permit.Tool {
	return newTool(tool.Spec{ID: "fs.read", Title: "Read a file", Risk: tool.Low,
		Effects: tool.EffectSet(tool.FSRead), Input: schemaOf("read.in"), Output: schemaOf("read.out"),
		Description: "Reads a file. While truncated is true, call again with offset = next_offset."}, func(a readArgs) []access { return one(a.Path, tool.FileRead) }, runRead)
}

type readArgs struct {
	Path     string `json:"path"`
	Encoding string `json:"encoding"`
	Offset   int64  `json:"offset"`
	Limit    *int64 `json:"limit"`
}

func runRead(_ context.Context, f *files.Files, a readArgs) (map[string]any, error) {
	file, err := f.Open(a.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	limit := f.ReadCap()
	if a.Limit != nil {
		limit = min(*a.Limit, limit)
	}
	if a.Offset > 0 {
		if err := file.Skip(a.Offset); err != nil {
			return nil, err
		}
	}
	b, more, err := readUpTo(file, limit, file.Size-a.Offset)
	if err != nil {
		return nil, err
	}
	text := cmp.Or(a.Encoding, "text") == "text"
	if text {
		if b, err = wholeChars(b, more, a.Offset, f.Show(a.Path)); err != nil {
			return nil, err
		}
	}
	return readOutput(f.Show(a.Path), b, text, a.Offset, more, file), nil
}

// readUpTo reads at most limit bytes and says whether there is more. hint is
// how much is expected.
func readUpTo(r io.Reader, limit, hint int64) ([]byte, bool, error) {
	var buf bytes.Buffer
	buf.Grow(int(max(0, min(limit+1, hint+1))))
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	if err != nil {
		return nil, false, err
	}
	if n > limit {
		return buf.Bytes()[:limit], true, nil
	}
	return buf.Bytes(), false, nil
}

// wholeChars leaves out a character that the cut went through, and refuses data that is not text.
func wholeChars(b []byte, more bool, offset int64, shown string) ([]byte, error) {
	if more {
		for cut := 1; cut < utf8.UTFMax && cut < len(b); cut++ {
			if i := len(b) - cut; utf8.RuneStart(b[i]) {
				if !utf8.FullRune(b[i:]) {
					b = b[:i]
				}
				break
			}
		}
	}
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, fault.New(fault.ToolFailed, "%q is not UTF-8 text at byte %d", shown, offset+int64(i)).
				WithHint("read it with encoding base64")
		}
		i += n
	}
	return b, nil
}

func readOutput(shown string, b []byte, text bool, offset int64, more bool, file *files.File) map[string]any {
	end := offset + int64(len(b))
	out := map[string]any{
		"path": shown, "encoding": "text", "bytes_returned": int64(len(b)), "truncated": more,
		"bytes_total": max(file.Size, end), "mode": file.Mode.Perm().String(),
	}
	if offset > file.Size && len(b) == 0 {
		out["bytes_total"] = file.Size
	}
	if text {
		out["content"] = string(b)
	} else {
		out["encoding"], out["content"] = "base64", base64.StdEncoding.EncodeToString(b)
	}
	if more {
		out["next_offset"] = end
	} else if offset == 0 {
		out["sha256"] = hash(b)
	}
	return out
}
