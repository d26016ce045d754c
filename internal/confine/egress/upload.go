package egress

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// upload is a request's body on its way out, beside the response's way in. Nil
// is the upload of a request without a body.
type upload struct {
	done chan struct{}
	err  error                 // set before done is closed
	why  atomic.Pointer[error] // what went wrong on the sandbox's side, set before the host is let go
}

// errHostGone ends an upload that the host no longer reads. It is not a failure:
// the host's response, which may say why, is still to come.
var errHostGone = errors.New("the host no longer reads")

func (p *Proxy) upload(ctx context.Context, s *stream, h *head, rec *record, to net.Conn) *upload {
	if !h.hasBody() {
		return nil
	}
	if h.expects {
		_ = s.conn.SetWriteDeadline(time.Now().Add(p.limits.Idle))
		_, _ = io.WriteString(s.conn, "HTTP/1.1 100 Continue\r\n\r\n") // a dead connection fails at its next use
	}
	up := &upload{done: make(chan struct{})}
	go func() {
		defer close(up.done)
		up.err = p.copyUp(ctx, s, newBody(s.br, h), rec, to)
		if up.err != nil && !errors.Is(up.err, errHostGone) {
			up.why.Store(&up.err)
			_ = to.Close() // half a request must not look like one
		}
	}()
	return up
}

// copyUp sends a body.
func (p *Proxy) copyUp(ctx context.Context, s *stream, from *body, rec *record, to net.Conn) error {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(p.limits.Idle))
		n, err := from.Read(buf[:p.meter.step()])
		if n > 0 {
			if err := rec.flow.send(ctx, n); err != nil {
				return err
			}
			if writePiece(to, buf[:n], from.chunked) != nil {
				return errHostGone
			}
		}
		switch {
		case err == io.EOF && from.chunked:
			_, _ = io.WriteString(to, "0\r\n\r\n")
			return nil
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func writePiece(to net.Conn, p []byte, chunked bool) error {
	if !chunked {
		_, err := to.Write(p)
		return err
	}
	b := make([]byte, 0, len(p)+16)
	b = strconv.AppendInt(b, int64(len(p)), 16)
	b = append(append(append(b, "\r\n"...), p...), "\r\n"...)
	_, err := to.Write(b)
	return err
}

// finished reports whether the whole body was sent.
func (u *upload) finished() bool {
	if u == nil {
		return true
	}
	select {
	case <-u.done:
		return u.err == nil
	default:
		return false
	}
}

// failure is what went wrong on the sandbox's side, if anything has.
func (u *upload) failure() error {
	if u == nil || u.why.Load() == nil {
		return nil
	}
	return *u.why.Load()
}

// abandon ends an upload and waits for it.
func (u *upload) abandon(s *stream) {
	if u == nil {
		return
	}
	for {
		select {
		case <-u.done:
			return
		default:
		}
		_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // the copier may set its own once more
		select {
		case <-u.done:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// writeFields writes a response's fields but those of its connection, and those
// that point around the proxy or speak in its name.
func writeFields(b *strings.Builder, fields http.Header) error {
	var listed []string
	for _, v := range fields["Connection"] {
		for name := range strings.SplitSeq(strings.ToLower(v), ",") {
			listed = append(listed, strings.Trim(name, " \t"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		low := strings.ToLower(name)
		if strings.HasPrefix(low, "proxy-") || low == "alt-svc" || low == "remit-denied" || slices.Contains(hopByHop, low) || slices.Contains(listed, low) {
			continue
		}
		for _, v := range fields[name] {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
				return failed("the host's answer has a header that is not one")
			}
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	return nil
}
