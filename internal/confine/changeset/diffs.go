package changeset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/diff"
)

// maxText is up to how many bytes a file is compared line by line.
const maxText = 1 << 20

// Shown is how a change of a file is shown. Its text is untrusted.
type Shown struct {
	Diff diff.Diff // of text
	// Omitted says why there is none although the content changes, or is empty.
	Omitted string
}

// Text shows a change: files of text and links line by line.
func (s *Set) Text(c Change) (Shown, error) {
	if c.From.Type == Folder || c.To.Type == Folder || c.Refused != "" || c.From.content() == c.To.content() {
		return Shown{}, nil
	}
	upper, base, err := s.open()
	if err != nil {
		return Shown{}, err
	}
	defer func() { shut(upper); shut(base) }()
	old, why := side(base, c.Path, c.From)
	now, whyNot := side(upper, c.Path, c.To)
	if why = cmp.Or(whyNot, why); why != "" {
		return Shown{Omitted: why}, nil
	}
	return Shown{Diff: diff.New("a/"+c.Path, old, "b/"+c.Path, now)}, nil
}

// side reads one side of a change, or says why it is not shown.
func side(root int, p string, n Node) (b []byte, omitted string) {
	switch n.Type {
	case Nothing:
		return nil, ""
	case Link:
		return []byte("-> " + n.Target + "\n"), ""
	case File:
		if n.Size > maxText {
			return nil, fmt.Sprintf("over %d MiB, not shown", maxText>>20)
		}
		b, err := read(root, p)
		switch {
		case err != nil:
			return nil, "it cannot be read any more: " + plain(err)
		case !utf8.Valid(b) || bytes.ContainsRune(b, 0):
			return nil, "binary, not shown"
		}
		return b, ""
	}
	return nil, "not shown"
}

func read(root int, p string) ([]byte, error) {
	from := newSources(root)
	defer from.close()
	fd, err := from.open(Step{Path: p})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p)
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(b) > maxText {
		err = errors.New("it has grown")
	}
	return b, err
}
