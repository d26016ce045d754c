package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/settings"
)

// webhook sends events by HTTP.
type webhook struct {
	*Sender

	format string
}

// Webhook returns the channel of a webhook. Its secrets are found when an event is sent.
func Webhook(w settings.Webhook, secret func(name string) (string, bool)) Channel {
	s := NewSender("notifications.webhooks."+w.Name, w, secret)
	s.public = !w.Private
	return &webhook{s, w.Format}
}

// Sender posts to the address of a webhook. Requests are signed as Standard Webhooks defines it:
// webhook-id, webhook-timestamp and webhook-signature, an HMAC-SHA256 of the ID, the time and the
// body.
type Sender struct {
	settings.Webhook
	field  string                           // of the settings, for messages
	secret func(name string) (string, bool) // finds a stored secret
	now    func() time.Time
	client *http.Client
	public bool // names must not lead to addresses of private networks
}

// publicOnly marks the context of a request that must not reach addresses of private networks.
type publicOnly struct{}

// literal reports whether a URL names an address, or this machine: then the person who wrote it
// chose where it leads. Other names lead wherever DNS says.
func literal(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// NewSender returns a sender for a webhook, which field of the settings describes. Its secrets are
// found when something is sent.
func NewSender(field string, w settings.Webhook, secret func(name string) (string, bool)) *Sender {
	return &Sender{Webhook: w, field: field, secret: secret, now: time.Now, client: Client()}
}

// Client returns a client that follows no redirects, and connects without TLS to this machine
// only. A redirect would carry a request to an address that nobody chose.
func Client() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: careful{&http.Transport{DialContext: dial, ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: 10 * time.Second,
			DisableKeepAlives: true, TLSHandshakeTimeout: oneAttempt}},
	}
}

// careful tells dial which requests are without TLS.
type careful struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" {
		r = r.WithContext(context.WithValue(r.Context(), plainHTTP{}, true))
	}
	return c.RoundTripper.RoundTrip(r)
}

// plainHTTP marks the context of a request without TLS.
type plainHTTP struct{}

// dial connects. Without TLS it connects to loopback addresses only, also where a name such as
// localhost leads elsewhere.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, addr string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(addr)
		if plain := ctx.Value(plainHTTP{}) != nil; err != nil || plain && !a.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%s is not a loopback address", addr)
		}
		if ctx.Value(publicOnly{}) != nil && !target.Public(a.Addr().Unmap()) {
			return fmt.Errorf("the name leads to %s, which is not a public address; if that is meant, set private: true", a.Addr())
		}
		return nil
	}}
	return d.DialContext(ctx, network, addr)
}

// Name implements Channel.
func (w *webhook) Name() string { return "webhook " + w.Webhook.Name }

// Deliver implements Channel.
func (w *webhook) Deliver(ctx context.Context, e Event) error {
	body, kind, err := payload(w.format, e)
	if err != nil {
		return errors.Join(errPermanent, err)
	}
	status, _, err := w.Post(ctx, e.Kind+"."+e.ID, kind, body, func(h http.Header) {
		if w.format == "ntfy" {
			ntfyHeaders(h, e)
		}
	})
	switch {
	case err != nil:
		return err
	case status < http.StatusMultipleChoices:
		return nil
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return fmt.Errorf("the receiver answered with status %d", status)
	}
	return fmt.Errorf("the receiver answered with status %d: %w", status, errPermanent)
}

// MaxAnswer is how many bytes of a receiver's answer are read.
const MaxAnswer = 64 << 10

// Post sends a body, and returns the status and the first bytes of the answer. The ID is the same
// for each attempt, so that a receiver can drop repetitions.
func (s *Sender) Post(ctx context.Context, id, kind string, body []byte, head func(http.Header)) (status int, answer []byte, err error) {
	req, err := s.request(ctx, id, kind, body, head)
	if err != nil {
		return 0, nil, errors.Join(errPermanent, err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(res.Body, MaxAnswer))
	if err != nil && res.StatusCode < http.StatusMultipleChoices {
		return res.StatusCode, nil, withoutURL(err)
	}
	return res.StatusCode, answer, nil
}

// withoutURL returns the cause of a failed request: the URL may be a secret.
func withoutURL(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

func (s *Sender) request(ctx context.Context, id, kind string, body []byte, head func(http.Header)) (*http.Request, error) {
	to, err := s.value("url", s.URL)
	if err != nil {
		return nil, err
	}
	if err := settings.CheckWebhookURL(to); err != nil {
		return nil, fault.New(fault.Usage, "the stored address of the webhook is not valid: expected https, or an address of this machine")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, withoutURL(err)
	}
	if s.public && !literal(req.URL.Hostname()) {
		req = req.WithContext(context.WithValue(ctx, publicOnly{}, true))
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "remit")
	if head != nil {
		head(req.Header)
	}
	if s.Token != "" {
		token, err := s.value("token", s.Token)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, s.sign(req.Header, id, body)
}

// value returns a setting, or the stored secret that it names.
func (s *Sender) value(field, text string) (string, error) {
	name, stored := settings.StoredSecret(text)
	if !stored {
		return text, nil
	}
	v, ok := s.secret(name)
	if !ok {
		return "", fault.New(fault.Usage, "%s.%s: no secret %q is stored", s.field, field, name).WithHint("store it with remit secret set %s", name)
	}
	return v, nil
}

// sign adds the headers of Standard Webhooks.
func (s *Sender) sign(h http.Header, id string, body []byte) error {
	at := strconv.FormatInt(s.now().Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	if s.Key == "" {
		return nil
	}
	text, err := s.value("key", s.Key)
	if err != nil {
		return err
	}
	h.Set("Webhook-Signature", Signature(text, id, at, body))
	return nil
}

// Signature returns the value of the header webhook-signature. A key that begins with whsec_ is
// Base64; another is taken as it is.
func Signature(key, id, at string, body []byte) string {
	raw := []byte(key)
	if coded, ok := strings.CutPrefix(key, "whsec_"); ok {
		if b, err := base64.StdEncoding.DecodeString(coded); err == nil {
			raw = b
		}
	}
	m := hmac.New(sha256.New, raw)
	m.Write([]byte(id + "." + at + "."))
	m.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// payload writes an event in a format, and returns its media type. No format interprets markup
// in the event's texts.
func payload(format string, e Event) ([]byte, string, error) {
	var v any
	switch format {
	case "slack":
		text := map[string]any{"type": "plain_text", "text": e.line()}
		v = map[string]any{"text": slackEscape.Replace(e.line()), "blocks": []any{map[string]any{"type": "section", "text": text}}}
	case "teams":
		v = teamsCard(e)
	case "ntfy":
		return []byte(e.line()), "text/plain; charset=utf-8", nil
	default:
		v = generic{Type: e.Kind, ID: e.ID, At: e.At.UTC(), Title: e.Title, Facts: e.Facts, Link: e.Link}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, "", fault.Wrap(fault.Internal, err, "a notification cannot be encoded")
	}
	return b, "application/json", nil
}

// generic is the format json.
type generic struct {
	Type  string            `json:"type"`
	ID    string            `json:"id"`
	At    time.Time         `json:"timestamp"`
	Title string            `json:"title"`
	Facts map[string]string `json:"data"`
	Link  string            `json:"link,omitempty"`
}

// slackEscape quotes the characters that begin links and mentions in Slack's texts.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// teamsCard is an adaptive card. The texts of a RichTextBlock are not read as Markdown.
func teamsCard(e Event) any {
	run := []any{map[string]any{"type": "TextRun", "text": e.line()}}
	card := map[string]any{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
		"body": []any{map[string]any{"type": "RichTextBlock", "inlines": run}},
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}}
}

// ntfyHeaders adds what ntfy takes from headers. Its title is fixed: the event's text stands in
// the body.
func ntfyHeaders(h http.Header, e Event) {
	h.Set("Title", "Remit: "+e.Kind)
	h.Set("Tags", "warning")
	if e.Link != "" {
		h.Set("Click", e.Link)
	}
}
