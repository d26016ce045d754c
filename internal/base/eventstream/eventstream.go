// Package eventstream reads server-sent events, as models' services and MCP servers send them.
// It follows the HTML standard: lines end with CR LF, LF or CR, a byte order mark at the
// beginning is skipped, and unknown fields are ignored. Start at [NewReader].
package eventstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong means that an event exceeds the limit of its reader.
var ErrTooLong = errors.New("the event is too long")

// Event is one server-sent event.
type Event struct {
	Name  string // of the field "event"
	ID    string
	Retry string // the time until a reconnection, in milliseconds; digits only
	Data  []byte // lines are joined with LF; valid until the next call of Next
	// Unfinished: the stream ended before the blank line that ends the event. Its data may be cut.
	Unfinished bool
}

// empty reports whether an event has no field that a caller could use.
func (e *Event) empty() bool {
	return e.Name == "" && e.ID == "" && e.Retry == "" && e.Data == nil
}

// Reader reads the events of a stream.
type Reader struct {
	in      *bufio.Reader
	most    int    // bytes of one event
	line    []byte // the current line
	begun   bool   // the first line was read
	afterCR bool   // an LF that follows belongs to the last line end
}

// NewReader makes a reader of events that have at most the given number of bytes.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{in: bufio.NewReader(r), most: most}
}

// Opening returns the first byte of the stream that is neither white space nor part of a byte order
// mark. It consumes nothing. An event stream never begins with a brace or a bracket.
func (r *Reader) Opening() (byte, error) {
	for n := 1; ; n++ {
		head, err := r.in.Peek(n)
		rest := bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
		if len(rest) > 0 && !bytes.HasPrefix(byteOrderMark, head) {
			return rest[0], nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// Rest returns the part of the stream that was not read yet.
func (r *Reader) Rest() io.Reader { return r.in }

var byteOrderMark = []byte("\xef\xbb\xbf")

// Next returns the next event that has at least one known field, or io.EOF.
func (r *Reader) Next() (Event, error) {
	var e Event
	for size := 0; ; {
		err := r.readLine(r.most - size)
		if err != nil && !errors.Is(err, io.EOF) {
			return Event{}, err
		}
		size += len(r.line)
		switch {
		case len(r.line) > 0:
			e.take(r.line)
		case err == nil && !e.empty():
			return e, nil
		case err == nil:
			size = 0
		}
		if err != nil && e.empty() {
			return Event{}, io.EOF
		}
		if err != nil {
			e.Unfinished = true
			return e, nil //nolint:nilerr // the end of the stream also ends its last event
		}
	}
}

// take takes one line of an event.
func (e *Event) take(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.Name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.ID = string(value)
		}
	case "retry":
		if len(value) > 0 && len(bytes.Trim(value, "0123456789")) == 0 {
			e.Retry = string(value)
		}
	case "data":
		if e.Data == nil {
			e.Data = make([]byte, 0, len(value))
		} else {
			e.Data = append(e.Data, '\n')
		}
		e.Data = append(e.Data, value...)
	}
}

// readLine reads a line of at most the given number of bytes, without its end. At the end of the
// stream it returns io.EOF with the last line. It never waits for the byte after a CR.
func (r *Reader) readLine(most int) error {
	r.line = r.line[:0]
	for {
		if _, err := r.in.Peek(1); err != nil {
			r.trimMark()
			return err
		}
		chunk, _ := r.in.Peek(r.in.Buffered()) // these bytes are there
		if r.afterCR && chunk[0] == '\n' {
			chunk = chunk[:1]
		}
		end := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if len(r.line)+len(part) > most {
			return ErrTooLong
		}
		r.line = append(r.line, part...)
		skip, ended := r.afterCR && end == 0 && chunk[0] == '\n', end >= 0
		r.afterCR = ended && chunk[end] == '\r'
		if _, err := r.in.Discard(len(part) + min(end+1, 1)); err != nil {
			return err
		}
		if ended && !skip {
			r.trimMark()
			return nil
		}
	}
}

// trimMark removes the byte order mark from the first line.
func (r *Reader) trimMark() {
	if !r.begun {
		r.line = bytes.TrimPrefix(r.line, byteOrderMark)
	}
	r.begun = true
}
