package egress

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// arm gives the next reads and writes on the sandbox's side a time.
func (s *stream) arm(d time.Duration) { _ = s.conn.SetDeadline(time.Now().Add(d)) } // a dead connection fails at its next use

// serveHTTP serves requests to the proxy, one after the other.
func (p *Proxy) serveHTTP(ctx context.Context, s *stream) {
	var out outside
	defer out.close()
	var stranger *record // of a client that has not yet shown the credentials
	defer func() {
		if stranger != nil {
			p.end(stranger, errCredentials)
		}
	}()
	for tries := 0; tries < 3; {
		h := p.nextHead(s, "http")
		if h == nil {
			return
		}
		if !p.open && !p.mine(h.auth) {
			tries++
			if stranger == nil {
				stranger = p.begin("http")
			}
			over := h.hasBody() || h.ends
			if !p.say(s, stranger, errCredentials, over) || over {
				return
			}
			continue
		}
		stranger = nil
		if h.method == "CONNECT" {
			out.close()
			p.serveConnect(ctx, s, h)
			return
		}
		rec := p.begin("http")
		if !p.proxied(ctx, s, h, rec, &out) {
			return
		}
		p.idle(s)
	}
}

// idle gives a kept connection the time until its next request.
func (p *Proxy) idle(s *stream) { s.arm(p.limits.Idle) }

// nextHead reads the next request's head; nil means that the connection is over.
func (p *Proxy) nextHead(s *stream, via string) *head {
	if _, err := s.br.Peek(1); err != nil {
		return nil
	}
	s.arm(p.limits.Header)
	h, err := readHead(s.br)
	if err == nil {
		return h
	}
	rec := p.begin(via)
	no := asRefusal(err)
	if !no.failure {
		p.say(s, rec, no, true)
	}
	p.end(rec, err)
	return nil
}

// mine reports whether a Proxy-Authorization is this sandbox's.
func (p *Proxy) mine(auth string) bool {
	scheme, code, _ := strings.Cut(auth, " ")
	plain, err := base64.StdEncoding.DecodeString(strings.Trim(code, " "))
	return err == nil && strings.EqualFold(scheme, "Basic") && p.knows(string(plain))
}

// knows compares user:password in a time that does not depend on either.
func (p *Proxy) knows(got string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(user+":"+p.password))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// errCredentials asks for the credentials, so that a program that waits to be
// asked can send them; it is a refusal for one that never does.
var errCredentials = &refusal{status: http.StatusProxyAuthRequired, rule: ruleCredentials, reason: "the credentials are not this sandbox's"}

// say answers with a refusal and reports whether that was sent.
func (p *Proxy) say(s *stream, rec *record, no *refusal, over bool) bool {
	s.arm(p.limits.Header)
	rec.Status = no.status
	text := "remit: " + no.reason + "\n"
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + strconv.Itoa(no.status) + " " + http.StatusText(no.status) + "\r\n")
	if !no.failure {
		b.WriteString("Remit-Denied: " + headerText(no.rule) + "\r\n")
	}
	if no.status == http.StatusProxyAuthRequired {
		b.WriteString("Proxy-Authenticate: Basic realm=\"remit\"\r\n")
	}
	b.WriteString("Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n")
	if over {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n")
	if rec.Method != http.MethodHead {
		b.WriteString(text)
	}
	_, err := io.WriteString(s.conn, b.String())
	return err == nil
}

// headerText makes text safe to stand in a header field.
func headerText(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// proxied serves one absolute-form request and reports whether the connection
// goes on.
func (p *Proxy) proxied(ctx context.Context, s *stream, h *head, rec *record, out *outside) bool {
	u, t, err := absolute(h)
	if t.Host != "" {
		rec.to(t)
	}
	if err != nil {
		return p.refuse(s, h, rec, err)
	}
	return p.exchange(ctx, s, h, rec, request{u, t}, out)
}

// refuse answers a request with why it is not done, and reports whether the
// connection goes on.
func (p *Proxy) refuse(s *stream, h *head, rec *record, err error) bool {
	no := asRefusal(err)
	over := h.hasBody() || h.ends || no.rule == ruleProtocol
	rec.Status = no.status
	p.end(rec, err)
	return p.say(s, rec, no, over) && !over
}

// request is a request in the form that was decided and is sent.
type request struct {
	url *url.URL
	to  tool.Target
}

// absolute reads the target of a request to the proxy.
func absolute(h *head) (*url.URL, tool.Target, error) {
	if len(h.uri) < 7 || !strings.EqualFold(h.uri[:7], "http://") {
		return nil, tool.Target{}, malformed("the proxy takes CONNECT, or requests for an absolute http:// address")
	}
	return canonical(h, h.uri)
}

// inside reads the target of a request within a tunnel to a host and port.
func inside(h *head, scheme string, to tool.Target) (*url.URL, tool.Target, error) {
	if h.uri == "" || h.uri[0] != '/' {
		return nil, tool.Target{}, malformed("the request's target is not a path")
	}
	if t, err := target.Parse("", scheme+"://"+h.host); h.hosts == 1 && err == nil && t.Port == to.Port && isLoopback(t.Host) && isLoopback(to.Host) && !strings.ContainsAny(h.host, "/?#") {
		h.host = to.HostPort() // names of one interface; a connection shows only the address
	}
	return canonical(h, scheme+"://"+to.HostPort()+h.uri)
}

// isLoopback reports whether a host is this one.
func isLoopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (at.IsLoopback() || at.IsUnspecified())
}

func canonical(h *head, raw string) (*url.URL, tool.Target, error) {
	u, t, err := target.URL(h.method, raw)
	if err != nil {
		return nil, tool.Target{}, malformed(fault.Message(err))
	}
	if h.hosts == 1 && !sameHost(h.host, t) {
		return nil, t, malformed("the Host is not the one that the request is for")
	}
	return u, t, nil
}

// sameHost reports whether a Host field names a target's host and port.
func sameHost(host string, t tool.Target) bool {
	if strings.ContainsAny(host, "/?#") {
		return false
	}
	got, err := target.Parse("", t.Scheme+"://"+host)
	return err == nil && got.Host == t.Host && got.Port == t.Port
}

// serveOrigin serves requests within a tunnel to a host and port, one after the
// other.
func (p *Proxy) serveOrigin(ctx context.Context, s *stream, via, scheme string, to tool.Target) {
	var out outside
	defer out.close()
	for {
		h := p.nextHead(s, via)
		if h == nil {
			return
		}
		rec := p.begin(via)
		u, t, err := inside(h, scheme, to)
		rec.to(to)
		rec.Protocol = scheme
		if t.Host != "" {
			rec.to(t)
		}
		if err != nil {
			if !p.refuse(s, h, rec, err) {
				return
			}
			continue
		}
		if !p.exchange(ctx, s, h, rec, request{u, t}, &out) {
			return
		}
		p.idle(s)
	}
}

// secrets adds the header fields that are Remit's to the fields of a request, and refuses a request that brings such a field
// itself.
func (p *Proxy) secrets(h *head, t tool.Target, fields []field) ([]field, error) {
	list, err := network.Credentials(p.permit, t, p.secret, func(header string) (values []string) {
		for _, f := range h.fields {
			if network.SameHeader(f.name, header) {
				values = append(values, f.value)
			}
		}
		return values
	})
	if err != nil {
		return nil, deny(ruleSecret, fault.Message(err))
	}
	for _, c := range list {
		p.log.hide(c.Secret)
		if c.Replaces {
			fields = slices.DeleteFunc(fields, func(f field) bool { return network.SameHeader(f.name, c.Header) })
		}
		fields = append(fields, field{c.Header, c.Value})
	}
	return fields, nil
}
