package redact

import (
	"bytes"
	"errors"
	"io"
)

// maxLine is how much of a line is held back until its end comes.
const maxLine = 64 << 10

// Lines gives a writer that passes on whole lines without known values; of one
// longer than 64 KiB the parts are looked at one by one. Close passes on the rest
// and closes w. It is not safe for concurrent use.
func (m *Mask) Lines(w io.WriteCloser) io.WriteCloser { return &lines{mask: m, to: w} }

type lines struct {
	mask *Mask
	to   io.WriteCloser
	held []byte
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.held = append(l.held, b...)
	end := bytes.LastIndexByte(l.held, '\n') + 1
	if len(l.held)-end > maxLine {
		end = len(l.held)
	}
	if end == 0 {
		return len(b), nil
	}
	_, err := io.WriteString(l.to, l.mask.Text(string(l.held[:end])))
	l.held = append(l.held[:0], l.held[end:]...)
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close implements io.Closer.
func (l *lines) Close() error {
	_, err := io.WriteString(l.to, l.mask.Text(string(l.held)))
	l.held = nil
	return errors.Join(err, l.to.Close())
}
