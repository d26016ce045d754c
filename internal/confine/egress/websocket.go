package egress

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol's own, to tell a server that speaks it; nothing is protected by it
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
)

// acceptSuffix is what a server appends to a key (RFC 6455, section 4.2.2).
const acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// values returns the values of the header fields of a name.
func (h *head) values(name string) (list []string) {
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			list = append(list, f.value)
		}
	}
	return list
}

// webSocketKey returns the key of a request that asks for a WebSocket (RFC 6455, section 4.1); "": it does not.
func (h *head) webSocketKey() string {
	key, upgrades := h.values("Sec-WebSocket-Key"), h.values("Upgrade")
	if h.method != http.MethodGet || h.minor != 1 || h.hasBody() || !slices.Contains(h.listed(), "upgrade") || len(key) != 1 ||
		len(upgrades) != 1 || !strings.EqualFold(upgrades[0], "websocket") || !slices.Equal(h.values("Sec-WebSocket-Version"), []string{"13"}) {
		return ""
	}
	return key[0]
}

// webSocket adds the header fields of a WebSocket if a request asks for one. The proxy does not see the messages, so the policy
// must allow to send anything there, with the same secrets.
func (p *Proxy) webSocket(ctx context.Context, h *head, t tool.Target, fields []field) ([]field, error) {
	key := h.webSocketKey()
	if key == "" {
		return fields, nil
	}
	post := t
	post.Method = http.MethodPost
	if _, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: post}); err != nil {
		return nil, err
	}
	reads, err := p.chain.Secrets(t)
	if err != nil {
		return nil, err
	}
	sends, err := p.chain.Secrets(post)
	if err != nil {
		return nil, err
	}
	switch {
	case !slices.Equal(reads, sends):
		return nil, deny(ruleSecret, "a WebSocket needs the same secrets for GET and POST")
	case len(sends) > 0 && slices.ContainsFunc([]string{"key", "token", "bearer", "auth"}, func(word string) bool {
		return strings.Contains(strings.ToLower(strings.Join(h.values("Sec-WebSocket-Protocol"), ",")), word)
	}):
		return nil, deny(ruleSecret, "a key in Sec-WebSocket-Protocol is refused here: only your own logins are used at this host")
	}
	h.socketKey = key
	return append(fields, field{"Connection", "Upgrade"}, field{"Upgrade", "websocket"}), nil
}

// agrees reports whether a host has switched to the WebSocket that the request asks for.
func (h *head) agrees(resp *http.Response) bool {
	sum := sha1.Sum([]byte(h.socketKey + acceptSuffix)) //nolint:gosec // as above
	return resp.StatusCode == http.StatusSwitchingProtocols && h.socketKey != "" && strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") &&
		resp.Header.Get("Sec-WebSocket-Accept") == base64.StdEncoding.EncodeToString(sum[:])
}

// switchProtocols passes the host's agreement on, and then all bytes of both sides.
func (p *Proxy) switchProtocols(ctx context.Context, s *stream, rec *record, to tool.Target, resp *http.Response, out *outside) error {
	to.Method = http.MethodPost
	if _, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: to, Addrs: []netip.Addr{out.addr}}); err != nil {
		return err
	}
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
	up := out.untimed()
	stop := context.AfterFunc(ctx, func() { _ = up.Close() })
	defer stop()
	if err := up.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return p.tunnel(ctx, s, rec, nil, up)
}

// untimed is the connection without a time for each read and write: a tunnel has a time of its own.
func (o *outside) untimed() net.Conn {
	if c, ok := o.conn.(timed); ok {
		return c.Conn
	}
	return o.conn
}
