package mcp

import (
	"bytes"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
)

// MaxMessage bounds one message of a server, in bytes.
const MaxMessage = 16 << 20

// writeTime is how long a server may take to read a message.
const writeTime = 10 * time.Second

// Stdio is the transport of a server with its standard output and input.
func Stdio(out io.ReadCloser, in io.WriteCloser) sdk.Transport {
	return &sdk.IOTransport{Reader: &lines{ReadCloser: out}, Writer: &punctual{in}, MaxLineLength: -1}
}

// Close reads on until the server ends, so that its last words do not end it
// first. Who closes the connection ends the server.
func (l *lines) Close() error {
	go func() {
		_, _ = io.Copy(io.Discard, l.ReadCloser) // its content is not needed
		_ = l.ReadCloser.Close()
	}()
	return nil
}

// lines refuses a line that is too long, before it is kept anywhere.
type lines struct {
	io.ReadCloser
	size int // of the line so far
}

var errTooLong = fault.New(fault.ToolFailed, "it sent a message of more than %d MiB", MaxMessage>>20)

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b)
	for rest := b[:n]; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			l.size += len(rest)
			break
		}
		if l.size+i > MaxMessage {
			return 0, errTooLong
		}
		l.size, rest = 0, rest[i+1:]
	}
	if l.size > MaxMessage {
		return 0, errTooLong
	}
	return n, err
}

// punctual gives a server that does not read only so much time, where the stream
// knows deadlines, as pipes do.
type punctual struct{ io.WriteCloser }

// Write implements io.Writer.
func (p *punctual) Write(b []byte) (int, error) {
	if d, ok := p.WriteCloser.(interface{ SetWriteDeadline(time.Time) error }); ok {
		if err := d.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return 0, err
		}
	}
	return p.WriteCloser.Write(b)
}
