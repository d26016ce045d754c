package egress

import (
	"bufio"
	"io"
	"strconv"

	"golang.org/x/net/http/httpguts"
)

// body reads a request's body to its exact end. A chunked one is read without
// leniency: no extensions, no bare line feeds; trailers are read and dropped.
type body struct {
	br      *bufio.Reader
	chunked bool
	left    int64 // of the body, or of the chunk
	begun   bool  // a chunk was read, so the next one begins with its end
	err     error // io.EOF at the end
}

func newBody(br *bufio.Reader, h *head) *body {
	return &body{br: br, chunked: h.chunked, left: max(h.length, 0)}
}

// Read gives bytes of the body. The error at the end is io.EOF; a body that
// breaks off gives io.ErrUnexpectedEOF.
func (b *body) Read(p []byte) (int, error) {
	if b.err == nil && b.left == 0 {
		b.err = io.EOF
		if b.chunked {
			b.err = b.nextChunk()
		}
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil {
		b.err = noEOF(err)
	}
	return n, b.err
}

// nextChunk reads a chunk's size, and after the last one the trailers.
func (b *body) nextChunk() error {
	left := maxHead
	if b.begun {
		if line, err := readLine(b.br, &left); err != nil {
			return noEOF(err)
		} else if line != "" {
			return malformed("a chunk of the body is longer than it says")
		}
	}
	b.begun = true
	line, err := readLine(b.br, &left)
	if err != nil {
		return noEOF(err)
	}
	size, err := strconv.ParseUint(line, 16, 62)
	if err != nil || len(line) > 16 || !httpguts.ValidHeaderFieldName(line) || line[0] == '+' {
		return malformed("the size of a chunk of the body is not a plain hexadecimal number")
	}
	if size > 0 {
		b.left = int64(size)
		return nil
	}
	for {
		line, err := readLine(b.br, &left)
		if err != nil {
			return noEOF(err)
		}
		if line == "" {
			return io.EOF
		}
		if _, err := parseField(line); err != nil {
			return err
		}
	}
}

// capped limits how much is read for a response's head.
type capped struct {
	r    io.Reader
	left int64 // negative: any
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, failed("the response's head is too large")
	}
	if c.left > 0 && int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	if c.left > 0 {
		c.left -= int64(n)
	}
	return n, err
}
