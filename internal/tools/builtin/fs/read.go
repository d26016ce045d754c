package fs

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func read() *Tool {
	return &Tool{
		spec: tool.Spec{ID: "fs.read", Title: "Read a file", Version: "1", Source: "builtin", Risk: tool.Low,
			Effects: tool.EffectSet(tool.FSRead), Input: schemaOf("read.in"), Output: schemaOf("read.out"),
			Description: "Reads a regular file as UTF-8 text or as base64. Long files come in parts: while truncated is true, call again with offset = next_offset."},
		order: []string{"path"}, paths: map[string][]tool.ActionKind{"path": {tool.FileRead}},
		run: runRead,
	}
}

func runRead(_ context.Context, f *files.Files, a args) (map[string]any, error) {
	asked, offset := a.str("path", ""), a.num("offset", 0)
	file, err := f.Open(asked)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	limit := min(a.num("limit", f.ReadCap()), f.ReadCap())
	if offset > 0 {
		if err := file.Skip(offset); err != nil {
			return nil, err
		}
	}
	b, more, err := readUpTo(file, limit, file.Size-offset)
	if err != nil {
		return nil, err
	}
	text := a.str("encoding", "text") == "text"
	if text {
		if b, err = wholeChars(b, more, offset, f.Show(asked)); err != nil {
			return nil, err
		}
	}
	return readOutput(f.Show(asked), b, text, offset, more, file), nil
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

// wholeChars leaves out a character that the cut went through, and refuses
// what is not text.
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
