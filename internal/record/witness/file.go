package witness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
)

// File is a witness that is a file on other storage. Checkpoints are appended to it, of one
// or several ledgers. Everything else in it is skipped, such as a note that was cut off.
type File struct{ Path string }

var _ Witness = File{}

// maxFile bounds how much of a file is read: ten years of a checkpoint each minute.
const maxFile = 2 << 30

// Check implements Witness.
func (f File) Check(ctx context.Context, l Log) error {
	has, _, err := f.newest(l)
	if err != nil || has == nil {
		return err
	}
	return Compare(ctx, l, has)
}

// Send implements Witness.
func (f File) Send(ctx context.Context, l Log, _ []byte) ([]byte, error) {
	unlock, err := wholefile.Lock(f.Path + ".lock")
	if err != nil {
		return nil, f.fault(err, "cannot be locked")
	}
	defer unlock()
	has, c, err := f.newest(l)
	if err != nil {
		return nil, err
	}
	if has != nil {
		if err := Compare(ctx, l, has); err != nil {
			return nil, err
		}
	}
	signed, err := l.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	now, err := l.OpenCheckpoint(signed)
	if err != nil || now.Size <= c.Size {
		return has, err
	}
	return signed, f.append(signed)
}

// append adds a note and a blank line, and syncs the file.
func (f File) append(signed []byte) error {
	w, err := os.OpenFile(f.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // checkpoints are public
	if err != nil {
		return f.fault(err, "cannot be opened")
	}
	_, err = w.Write(append(append([]byte("\n"), signed...), '\n'))
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return f.fault(err, "cannot be written")
	}
	return nil
}

func (f File) fault(err error, what string) error {
	return fault.Wrap(fault.StoreFailed, err, "the witness's file %q %s: %v", f.Path, what, wholefile.Cause(err))
}

// newest finds the checkpoint of the largest size that the ledger signed. Only checkpoints larger
// than all later ones are verified: of a file that only grows, one.
func (f File) newest(l Log) ([]byte, ledger.Checkpoint, error) {
	var best ledger.Checkpoint
	r, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, best, nil
	}
	if err != nil {
		return nil, best, f.fault(err, "cannot be read")
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, best, f.fault(err, "cannot be read")
	}
	var found []byte
	head := []byte("\n" + l.Origin() + "\n")
	for end := len(b); ; {
		at := bytes.LastIndex(b[:end], head)
		if at < 0 {
			return found, best, nil
		}
		one := noteAt(b[at+1:])
		end = at + 1
		if size, ok := sizeOf(one); !ok || found != nil && size <= best.Size {
			continue
		}
		if c, err := l.OpenCheckpoint(one); err == nil && (found == nil || c.Size > best.Size) {
			found, best = one, c
		}
	}
}

// noteAt returns the note at the beginning of b: its text, an empty line and its signatures.
func noteAt(b []byte) []byte {
	text, _, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok {
		return nil
	}
	end := len(text) + 2
	for bytes.HasPrefix(b[end:], []byte("— ")) {
		line := bytes.IndexByte(b[end:], '\n')
		if line < 0 {
			return nil
		}
		end += line + 1
	}
	return b[:end]
}

// sizeOf reads the second line of a checkpoint.
func sizeOf(signed []byte) (int64, bool) {
	_, rest, _ := bytes.Cut(signed, []byte("\n"))
	size, _, ok := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseInt(string(size), 10, 64)
	return n, ok && err == nil
}
