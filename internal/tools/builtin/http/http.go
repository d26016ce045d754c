// Package httptool holds the tools http.get and http.request. They reach the
// network only through package network, under a permit, which decides every
// request and every redirect. Start at [Tools].
package httptool

import (
	"bytes"
	"context"
	_ "embed" // the schemas
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
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

// Tool is one of the package's tools.
type Tool struct {
	spec   *tool.Spec
	secret func(name string) (string, bool)
}

// Tools gives the package's tools. Secret finds a value by its policy.Secret.Key,
// for entries of the policies that add one to requests; nil means that there are
// none.
func Tools(secret func(name string) (string, bool)) []Tool {
	effects := tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS)
	return []Tool{
		{secret: secret, spec: &tool.Spec{ID: "http.get", Title: "Fetch a URL", Version: "1", Source: "builtin",
			Description: "Sends an HTTP GET request and gives the answer's status, headers and body. Redirects are followed where " +
				"the policy allows them. A status of 400 or more is an answer, not a failure. A body that is not text comes as Base64; " +
				"one that is longer than max_bytes is cut and says so.",
			Input: getSchema, Output: outputSchema, Risk: tool.Medium, Effects: effects}},
		{secret: secret, spec: &tool.Spec{ID: "http.request", Title: "Send an HTTP request", Version: "1", Source: "builtin",
			Description: "Sends an HTTP request with any method, headers and a body (text, Base64 or JSON) and gives the answer's " +
				"status, headers and body. Redirects are followed where the policy allows them, but a body is not sent on to another " +
				"origin. A status of 400 or more is an answer, not a failure.",
			Input: requestSchema, Output: outputSchema, Risk: tool.High, Effects: effects}},
	}
}

// Spec describes the tool.
func (t Tool) Spec() *tool.Spec { return t.spec }

// Actions gives the one request that the arguments ask for. What redirects lead
// to is decided when they come.
func (t Tool) Actions(_ tool.Env, args tool.Args) ([]tool.Action, error) {
	r, err := t.request(args)
	if err != nil {
		return nil, err
	}
	to, err := target.Parse(r.Method, r.URL)
	switch {
	case err != nil: // where it would lead cannot be told: every policy denies that
		return []tool.Action{{Kind: tool.Network, Unknown: fault.Message(err)}}, nil
	case to.Scheme == "tcp":
		return []tool.Action{{Kind: tool.Network, Unknown: "only http and https URLs can be requested"}}, nil
	}
	return []tool.Action{{Kind: tool.Network, Target: to}}, nil
}

// Run sends the request and reads the answer.
func (t Tool) Run(ctx context.Context, p permit.Permit, args tool.Args) (res tool.Result, err error) {
	r, err := t.request(args)
	if err != nil {
		return tool.Result{}, err
	}
	most, err := maxBytes(args, p.Limits().ResponseBytes)
	if err != nil {
		return tool.Result{}, err
	}
	client := network.NewClient(p)
	client.Transport.Secret = t.secret
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

func (t Tool) request(args tool.Args) (network.Request, error) {
	r := network.Request{Method: "GET"}
	var err error
	if r.URL, err = text(args, "url"); err != nil {
		return r, err
	}
	if r.Header, err = headers(args); err != nil {
		return r, err
	}
	if t.spec.ID == "http.get" {
		return r, nil
	}
	if r.Method, err = text(args, "method"); err != nil {
		return r, err
	}
	err = setBody(&r, args)
	return r, err
}

func text(args tool.Args, name string) (string, error) {
	s, ok := args[name].(string)
	if !ok || s == "" {
		return "", fault.New(fault.ArgsInvalid, "a text is needed").In(name)
	}
	return s, nil
}

func headers(args tool.Args) (http.Header, error) {
	h := http.Header{}
	if args["headers"] == nil {
		return h, nil
	}
	given, ok := args["headers"].(map[string]any)
	if !ok {
		return nil, fault.New(fault.ArgsInvalid, "headers are a map of names to texts").In("headers")
	}
	for name, v := range given {
		value, ok := v.(string)
		field := "headers." + name
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fault.New(fault.ArgsInvalid, "%q is no header name", name).In("headers")
		case !ok || !httpguts.ValidHeaderFieldValue(value):
			return nil, fault.New(fault.ArgsInvalid, "the value is no text without line breaks and control characters").In(field)
		case network.RefusedHeader(name) != "":
			return nil, fault.New(fault.ArgsInvalid, "the header is refused: %s", network.RefusedHeader(name)).In(field)
		case h.Values(name) != nil:
			return nil, fault.New(fault.ArgsInvalid, "the header is given twice in different letter case").In(field)
		}
		h.Set(name, value)
	}
	return h, nil
}

func setBody(r *network.Request, args tool.Args) error {
	given := slices.DeleteFunc([]string{"body", "body_base64", "json"}, func(name string) bool {
		_, ok := args[name]
		return !ok
	})
	if len(given) > 1 {
		return fault.New(fault.ArgsInvalid, "%s exclude each other", strings.Join(given, " and "))
	}
	if len(given) == 0 {
		return nil
	}
	v := args[given[0]]
	s, isText := v.(string)
	switch given[0] {
	case "json":
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return fault.Wrap(fault.ArgsInvalid, err, "the value cannot be written as JSON").In("json")
		}
		r.Body = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		if r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
		return nil
	case "body_base64":
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if err != nil || !isText {
			return fault.New(fault.ArgsInvalid, "the text is not Base64").In("body_base64")
		}
		r.Body = b
		return nil
	}
	if !isText {
		return fault.New(fault.ArgsInvalid, "a text is needed").In("body")
	}
	r.Body = []byte(s)
	return nil
}

func maxBytes(args tool.Args, limit int64) (int64, error) {
	if limit <= 0 {
		limit = network.DefaultResponseBytes
	}
	if args["max_bytes"] == nil {
		return min(DefaultMaxBytes, limit), nil
	}
	n, ok := args["max_bytes"].(json.Number)
	if !ok {
		return 0, fault.New(fault.ArgsInvalid, "a whole number is needed").In("max_bytes")
	}
	v, err := n.Int64()
	if err != nil || v < 0 {
		return 0, fault.New(fault.ArgsInvalid, "%q is not a whole number from 0", n).In("max_bytes")
	}
	return min(v, limit), nil
}
