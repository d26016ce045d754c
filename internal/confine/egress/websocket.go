package egress

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
)

// opensWebSocket reports whether a request asks for a WebSocket (RFC 6455, section 4.1).
func (h *head) opensWebSocket() bool {
	var upgrades []string
	for _, f := range h.fields {
		if strings.EqualFold(f.name, "Upgrade") {
			upgrades = append(upgrades, strings.ToLower(f.value))
		}
	}
	return h.method == http.MethodGet && h.minor == 1 && !h.hasBody() && slices.Contains(h.listed(), "upgrade") && slices.Equal(upgrades, []string{"websocket"})
}

// webSocket adds the header fields of a WebSocket if a request asks for one. The proxy does not see the messages, so the program
// must be allowed to send anything there; else the host gets an ordinary GET.
func (p *Proxy) webSocket(h *head, t tool.Target, fields []field) []field {
	t.Method = http.MethodPost
	if !h.opensWebSocket() || p.permit.Check(tool.Action{Kind: tool.Network, Target: t}) != nil {
		return fields
	}
	h.socket = true
	return append(fields, field{"Connection", "Upgrade"}, field{"Upgrade", "websocket"})
}

// switchProtocols passes the host's agreement on, and then all bytes of both sides.
func (p *Proxy) switchProtocols(ctx context.Context, s *stream, rec *record, resp *http.Response, out *outside) error {
	rec.Status = resp.StatusCode
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := writeFields(&b, resp.Header); err != nil {
		return err
	}
	b.WriteString("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	early, err := out.br.Peek(out.br.Buffered())
	if err != nil {
		return err
	}
	if err := rec.flow.pass(ctx, &rec.flow.in, b.Len()); err != nil {
		return err
	}
	if err := rec.flow.receive(ctx, len(early)); err != nil {
		return err
	}
	s.arm(p.limits.Idle)
	if _, err := io.WriteString(s.conn, b.String()+string(early)); err != nil {
		return err
	}
	up := out.conn
	stop := context.AfterFunc(ctx, func() { _ = up.Close() })
	defer stop()
	if c, ok := up.(timed); ok {
		up = c.Conn // the tunnel has a time of its own
	}
	if err := up.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return p.tunnel(ctx, s, rec, nil, up)
}
