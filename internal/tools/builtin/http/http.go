// Package httptool holds the built-in tools http.get and http.request. They send requests
// only through package confine/network, under a permit that decides every request and
// every redirect. Start at [Tools].
package httptool

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the schemas
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/tools/typed"
)

// DefaultMaxBytes is how much of a body a call gives back unless it asks for
// another number; the policies' network.max_bytes bounds both.
const DefaultMaxBytes = 1 << 20

var (
	//go:embed get.schema.json
	getSchema []byte
	//go:embed request.schema.json
	requestSchema []byte
	//go:embed output.schema.json
	outputSchema []byte
)

// Tools returns the package's tools. Secret finds a value by its policy.Secret.Key, for
// policy entries that add one to requests; nil means that there are none.
func Tools(secret func(name string) (string, bool)) []permit.Tool {
	effects := tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS)
	s := sender{secret}
	return []permit.Tool{
		typed.New(tool.Spec{ID: "http.get", Title: "Fetch a URL", Version: "1", Source: "builtin",
			Description: "Sends an HTTP GET request. A status of 400 or more is an answer, not a failure. A body that is not text is in content_base64; " +
				"a cut one has truncated.",
			Input: getSchema, Output: outputSchema, Risk: tool.Medium, Effects: effects}, s.get),
		typed.New(tool.Spec{ID: "http.request", Title: "Send an HTTP request", Version: "1", Source: "builtin",
			Description: "Sends an HTTP request. A status of 400 or more is an answer, not a failure. Redirects do not carry the body to another origin.",
			Input:       requestSchema, Output: outputSchema, Risk: tool.High, Effects: effects}, s.request),
	}
}

type getArgs struct {
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	MaxBytes *int64            `json:"max_bytes"`
}

type requestArgs struct {
	getArgs

	Method string  `json:"method"`
	Body   *string `json:"body"`
	Base64 *string `json:"body_base64"`
	JSON   *any    `json:"json"`
}

// sender sends the requests of the tools.
type sender struct {
	secret func(name string) (string, bool)
}

func (s sender) get(_ tool.Env, a getArgs) (permit.Prepared, error) {
	h, err := headers(a.Headers)
	if err != nil {
		return permit.Prepared{}, err
	}
	return s.prepare(network.Request{Method: http.MethodGet, URL: a.URL, Header: h}, a.MaxBytes)
}

func (s sender) request(_ tool.Env, a requestArgs) (permit.Prepared, error) {
	if a.Method == "" {
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "must not be empty").In("method")
	}
	h, err := headers(a.Headers)
	if err != nil {
		return permit.Prepared{}, err
	}
	body, err := a.body(h)
	if err != nil {
		return permit.Prepared{}, err
	}
	return s.prepare(network.Request{Method: a.Method, URL: a.URL, Header: h, Body: body}, a.MaxBytes)
}

// prepare returns the one request of a call. Redirects are decided when they come.
func (s sender) prepare(r network.Request, maxBytes *int64) (permit.Prepared, error) {
	switch {
	case r.URL == "":
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "must not be empty").In("url")
	case maxBytes != nil && *maxBytes < 0:
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "must not be negative").In("max_bytes")
	}
	return permit.Prepared{
		Actions: []tool.Action{action(r)},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			return s.send(ctx, p, r, maxBytes)
		},
	}, nil
}

// action is the request in policy terms. An unknown target is denied by every policy.
func action(r network.Request) tool.Action {
	to, err := target.Parse(r.Method, r.URL)
	switch {
	case err != nil:
		return tool.Action{Kind: tool.Network, Unknown: fault.Message(err)}
	case to.Scheme == "tcp":
		return tool.Action{Kind: tool.Network, Unknown: "only http and https URLs can be requested"}
	}
	return tool.Action{Kind: tool.Network, Target: to}
}

// send sends the request and reads the answer.
func (s sender) send(ctx context.Context, p permit.Permit, r network.Request, maxBytes *int64) (tool.Result, error) {
	most := cmp.Or(max(p.Limits().ResponseBytes, 0), network.DefaultResponseBytes)
	if maxBytes != nil {
		most = min(*maxBytes, most)
	} else {
		most = min(DefaultMaxBytes, most)
	}
	client := network.NewClient(p)
	client.Transport.Secret = s.secret
	resp, err := client.Do(ctx, r)
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = resp.Body.Close() }() // the answer is read or given up; closing cannot change it
	out, err := output(resp, most)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: out}, nil
}

func headers(given map[string]string) (http.Header, error) {
	h := http.Header{}
	for name, value := range given {
		field := "headers." + name
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fault.New(fault.ArgsInvalid, "%q is not a valid header name", name).In("headers")
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, fault.New(fault.ArgsInvalid, "a header value must not contain line breaks or control characters").In(field)
		case network.RefusedHeader(name) != "":
			return nil, fault.New(fault.ArgsInvalid, "the header is refused: %s", network.RefusedHeader(name)).In(field)
		case h.Values(name) != nil:
			return nil, fault.New(fault.ArgsInvalid, "the header is given twice in different letter case").In(field)
		}
		h.Set(name, value)
	}
	return h, nil
}

// body returns the request's body; for JSON it sets the content type.
func (a requestArgs) body(h http.Header) ([]byte, error) {
	var given []string
	for _, arg := range []struct {
		name  string
		there bool
	}{{"body", a.Body != nil}, {"body_base64", a.Base64 != nil}, {"json", a.JSON != nil}} {
		if arg.there {
			given = append(given, arg.name)
		}
	}
	switch {
	case len(given) > 1:
		return nil, fault.New(fault.ArgsInvalid, "%s exclude each other", strings.Join(given, " and "))
	case a.Body != nil:
		return []byte(*a.Body), nil
	case a.Base64 != nil:
		b, err := base64.StdEncoding.Strict().DecodeString(*a.Base64)
		if err != nil {
			return nil, fault.New(fault.ArgsInvalid, "the text is not Base64").In("body_base64")
		}
		return b, nil
	case a.JSON == nil:
		return nil, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(*a.JSON); err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the value cannot be written as JSON").In("json")
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
