package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// MaxMessage bounds one message of a server, in bytes.
const MaxMessage = 16 << 20

// writeTime is how long a server may take to read a message.
const writeTime = 10 * time.Second

// Stdio is the transport of a server with its standard output and input. Lines of its output that are
// not messages go to noise, which may be nil.
func Stdio(out io.ReadCloser, in io.WriteCloser, noise io.Writer) sdk.Transport {
	if noise == nil {
		noise = io.Discard
	}
	l := &lines{ReadCloser: out, noise: noise, left: noiseBurst, at: time.Now()}
	return &stdio{&sdk.IOTransport{Reader: l, Writer: &punctual{in}, MaxLineLength: -1}, l}
}

// stdio is a transport that knows which output was not a message.
type stdio struct {
	sdk.Transport
	lines *lines
}

// lines passes on the lines of a server's output that are messages. Others, as a banner or a log,
// are counted and go to noise. A line that looks like a message and is broken is an error, which ends
// the connection.
type lines struct {
	io.ReadCloser
	noise io.Writer

	ready []byte // messages that were not read yet
	line  []byte // the line so far
	block []byte // lines since one that is "{": a message may be written over several lines
	err   error  // the end of the output

	mu    sync.Mutex
	count int64  // of noise
	first string // the first line of it
	left  float64
	at    time.Time
}

// Limits of noise: lines at once, lines a second, and bytes of a message over several lines.
const (
	noiseBurst     = 5000
	noisePerSecond = 1000
	maxBlock       = 1 << 20
	maxEarly       = 1 << 20 // a message of at most so many bytes is passed on before the end of its line
)

var errTooLong = fault.New(fault.ToolFailed, "it sent a message of more than %d MiB", MaxMessage>>20)

// Close reads on until the server ends, so that its last words do not end it
// first. Who closes the connection ends the server.
func (l *lines) Close() error {
	go func() {
		_, _ = io.Copy(io.Discard, l.ReadCloser) // its content is not needed
		_ = l.ReadCloser.Close()
	}()
	return nil
}

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	for len(l.ready) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		n, err := l.ReadCloser.Read(b)
		if terr := l.take(b[:n]); terr != nil {
			l.err = terr
		} else if err != nil {
			l.err = err
			l.end()
		}
	}
	n := copy(b, l.ready)
	if l.ready = l.ready[n:]; len(l.ready) == 0 {
		l.ready = nil
	}
	return n, nil
}

// take takes a piece of the output.
func (l *lines) take(b []byte) error {
	for {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if len(l.line)+len(part) > MaxMessage {
			return errTooLong
		}
		l.line = append(l.line, part...)
		if i < 0 {
			if len(l.line) <= maxEarly && bytes.HasSuffix(l.line, []byte("}")) && json.Valid(l.line) && isMessage(l.line) {
				l.pass(l.line)
			}
			return nil
		}
		if err := l.sort(); err != nil {
			return err
		}
		b = b[i+1:]
	}
}

// end sorts the last line, which has no end.
func (l *lines) end() {
	if err := l.sort(); err != nil {
		l.err = err
	}
	if err := l.dropBlock(); err != nil {
		l.err = err
	}
}

func (l *lines) pass(line []byte) {
	l.ready = append(append(l.ready, line...), '\n')
	l.line = l.line[:0]
	if cap(l.line) > maxEarly {
		l.line = nil
	}
}

// sort passes a whole line on, or counts it as noise.
func (l *lines) sort() error {
	line := bytes.TrimPrefix(bytes.TrimSpace(l.line), []byte("\xef\xbb\xbf"))
	opens := len(line) > 0 && (line[0] == '{' || line[0] == '[')
	switch {
	case len(line) == 0:
		l.line = l.line[:0]
		return nil
	case opens && !json.Valid(line) && bytes.Contains(line, []byte(`"jsonrpc"`)):
		return fault.New(fault.ToolFailed, "its standard output is not MCP: a message is not valid JSON: %s", quoted(string(line), 200))
	case opens && isMessage(line):
		err := l.dropBlock()
		l.pass(line)
		return err
	case l.passTail(line):
		return l.skip(line[:bytes.Index(line, messageHead)])
	case l.block != nil || string(line) == "{":
		l.block = append(append(l.block, line...), '\n')
		closes := l.line[0] == '}' && len(line) == 1
		l.line = l.line[:0]
		if closes && isMessage(l.block) {
			l.pass(bytes.TrimSpace(l.block))
			l.block = nil
		} else if closes || len(l.block) > maxBlock {
			return l.dropBlock()
		}
		return nil
	}
	defer func() { l.line = l.line[:0] }()
	return l.skip(line)
}

var messageHead = []byte(`{"jsonrpc"`)

// passTail passes on a message that follows other text on its line.
func (l *lines) passTail(line []byte) bool {
	i := bytes.Index(line, messageHead)
	if i <= 0 || !isMessage(line[i:]) {
		return false
	}
	l.pass(line[i:])
	return true
}

// dropBlock counts lines that were no message as noise.
func (l *lines) dropBlock() error {
	block := l.block
	l.block = nil
	for line := range bytes.Lines(block) {
		if err := l.skip(bytes.TrimSpace(line)); err != nil {
			return err
		}
	}
	return nil
}

// skip counts a line that is not a message.
func (l *lines) skip(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.left = min(noiseBurst, l.left+now.Sub(l.at).Seconds()*noisePerSecond)
	l.at = now
	l.count++
	if l.left--; l.left < 0 {
		return fault.New(fault.ToolFailed, "its standard output has too many lines that are not messages, the first: %s", l.first)
	}
	text := clip.Text(string(line), 500)
	if l.first == "" {
		l.first = quoted(text, 200)
	}
	_, _ = io.WriteString(l.noise, "stdout: "+text+"\n") // nothing depends on it
	return nil
}

// noiseSoFar describes the lines that were not messages; "" if there were none.
func (l *lines) noiseSoFar() (n int64, first string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.first
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
