package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
)

// Bounds of what a service sends.
const (
	maxTrouble = 1 << 20  // of an answer that tells an error, in bytes
	maxStream  = 64 << 20 // of an answer, with what carries it
)

// bounded sends requests, and bounds the answers.
type bounded struct{ rt http.RoundTripper }

// RoundTrip sends a request. An answer that is neither a stream nor an error is
// an error.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.rt == nil {
		return nil, fault.New(fault.HandleRefused, "the model's service cannot be reached here")
	}
	resp, err := b.rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close() // nothing in it matters
		return nil, fault.New(fault.ModelFailed, "the service redirects to %.200q; redirects are not followed", resp.Header.Get("Location")).
			WithHint("set base_url to the service's address")
	}
	most := int64(maxStream)
	if resp.StatusCode >= 400 {
		most = maxTrouble
	}
	resp.Body = &capped{resp.Body, most}
	return resp, nil
}

// Client leads to the provider's service, as r.HTTP does. Redirects are not followed.
func (r Reach) Client() *http.Client { return &http.Client{Transport: bounded{r.HTTP}} }

// capped fails once more was read than may be.
type capped struct {
	io.ReadCloser
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, fault.New(fault.ModelFailed, "the service's answer is too large").
			WithHint("ask for a shorter answer with max_tokens")
	}
	return n, err
}

// Refusal makes an error of a service's error: its status (0: it came within an answer), the kind
// and the text of its message, and the name of the provider and of the key, for hints. Errors after
// which the same may be asked again are marked.
func Refusal(s Said, provider Provider) error {
	text := s.text()
	switch {
	case s.tooLong():
		return fault.New(fault.ModelContext, "the conversation is too long for the model: %s", text).
			WithHint("shorten it, or start a new one")
	case s.Kind == "insufficient_quota" || s.Kind == "billing_error" || s.Status == http.StatusPaymentRequired:
		return fault.New(fault.ModelBusy, "the service refuses for billing reasons: %s", text).WithHint("check the account of this key at %s", provider.Name())
	case s.Status == http.StatusUnauthorized, s.Kind == "authentication_error", s.Kind == "invalid_api_key":
		return keyRefused(text, provider)
	case s.Status == http.StatusForbidden, s.Kind == "permission_error":
		return keyRefused(text, provider)
	case s.Status == http.StatusNotFound, s.Kind == "not_found_error", s.Kind == "model_not_found":
		return fault.New(fault.ModelUnknown, "the service does not know the model or path: %s", text).
			WithHint("check the model's name, and models.providers.%s.base_url in config.yaml", provider.Name())
	case s.Status == http.StatusTooManyRequests, s.Kind == "rate_limit_error", s.Kind == "rate_limit_exceeded":
		return Again(fault.New(fault.ModelBusy, "the service's rate limit is reached: %s", text).WithHint("ask again later"), s.After)
	case s.Status == http.StatusServiceUnavailable, s.Status == 529, s.Kind == "overloaded_error", s.Kind == "server_overloaded":
		return Again(fault.New(fault.ModelBusy, "the service is overloaded: %s", text).WithHint("ask again later"), s.After)
	case s.Status >= 500, s.Status == http.StatusRequestTimeout, s.Status == http.StatusConflict,
		s.Kind == "api_error", s.Kind == "server_error", s.Kind == "timeout_error":
		return Again(fault.New(fault.ModelFailed, "the service failed: %s", text).WithHint("ask again later"), s.After)
	}
	return fault.New(fault.ModelFailed, "the service refuses the request: %s", text).
		WithHint("the model may not support this request")
}

func keyRefused(text string, provider Provider) error {
	key := provider.Endpoint().Key
	err := fault.New(fault.ModelKey, "the service refuses the key: %s", text)
	if key == "" {
		return err.WithHint("set models.providers.%s.key in config.yaml to the name of its key", provider.Name())
	}
	return err.ForOperator("check %s: remit secret set %s, or the environment variable", key, strings.ToLower(key))
}

// Said is a service's report of an error.
type Said struct {
	Status int           // of HTTP; 0: none
	Kind   string        // as "overloaded_error"
	Text   string        // for people; it is not trusted
	After  time.Duration // that it wants to be left alone
}

// text is the service's message, quoted.
func (s Said) text() string {
	const most = 500
	t := strings.ToValidUTF8(s.Text, "\uFFFD")
	if len(t) > most {
		t = strings.ToValidUTF8(t[:most], "") + "…"
	}
	if t == "" {
		t = s.Kind
	}
	if s.Status == 0 {
		return strconv.Quote(t)
	}
	return "status " + strconv.Itoa(s.Status) + ", " + strconv.Quote(t)
}

// tooLong reports whether a request was too long. Some services say that in the
// words of their message alone.
func (s Said) tooLong() bool {
	if s.Status == http.StatusRequestEntityTooLarge || s.Kind == "context_length_exceeded" || s.Kind == "request_too_large" ||
		s.Kind == "exceed_context_size_error" {
		return true
	}
	if s.Status != http.StatusBadRequest && s.Status != 0 {
		return false
	}
	t := strings.ToLower(s.Text)
	for _, words := range []string{"prompt is too long", "maximum context length", "context window", "context length", "context size"} {
		if strings.Contains(t, words) {
			return true
		}
	}
	return false
}

// Hear reads a service's report of an error: its status, headers, and the JSON of its body, as far
// as its form is known.
func Hear(status int, h http.Header, body string) Said {
	after, _ := pause.RetryAfter(h, time.Now())
	s := Said{Status: status, After: after}
	var doc struct {
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(body), &doc) != nil {
		s.Text = body
		return s
	}
	inner := doc
	if len(doc.Error) > 0 {
		inner.Type, inner.Message, inner.Code = "", "", nil
		if json.Unmarshal(doc.Error, &inner) != nil && json.Unmarshal(doc.Error, &inner.Message) != nil {
			inner.Message = string(doc.Error)
		}
	}
	var code string
	if json.Unmarshal(inner.Code, &code) != nil {
		code = "" // a number says no more than the status
	}
	s.Kind, s.Text = inner.Type, inner.Message
	if code != "" {
		s.Kind = code
	}
	if s.Text == "" {
		s.Text = body
	}
	return s
}

// Failure makes an error of one of the way to a service. begun says that a part of the
// answer came in.
func Failure(ctx context.Context, err error, begun bool) error {
	var coded *fault.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &coded):
		return wayFailed(coded, err, begun)
	}
	out := fault.Wrap(fault.ModelFailed, err, "the service cannot be reached, or the answer broke off").WithHint("is it running, and is base_url right?")
	if begun {
		return out
	}
	return Again(out, 0)
}

// wayFailed makes an error of one of the way to the service.
func wayFailed(coded *fault.Error, err error, begun bool) error {
	switch {
	case coded.Code == fault.ToolFailed:
		coded = fault.Wrap(fault.ModelFailed, err, "the service cannot be reached, or the answer broke off: %s", fault.Message(err)).
			WithHint("is it running, and is base_url right?")
	case coded.Code != fault.ModelFailed || !errors.Is(err, ErrUnreached):
		return coded
	}
	if begun {
		return coded
	}
	return Again(coded, 0)
}

// Cut is the error of an answer that broke off, or was none at all.
func Cut(begun bool) error {
	err := fault.New(fault.ModelFailed, "the answer broke off").WithHint("ask again")
	if begun {
		return err
	}
	return Again(err, 0)
}
