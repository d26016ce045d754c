package openapi

import (
	"bytes"
	"context"
	_ "embed" // the schema of outputs
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/tools/infer"
)

// DefaultMaxBytes is how much of an answer's body a call gives back; the
// policies' network.max_bytes bounds it further.
const DefaultMaxBytes = 1 << 20

//go:embed output.schema.json
var outputSchema []byte

// Tool is one operation of a document.
type Tool struct {
	s    *Source
	op   *Operation
	spec tool.Spec
}

func (s *Source) tool(doc *Document, op *Operation) *Tool {
	op = s.withoutCredentials(op)
	description := op.Description
	if description == "" {
		description = op.Title
	}
	description += "\n\n" + op.Method + " " + op.Path
	if doc.Title != "" {
		description += " of " + doc.Title
	}
	if op.Deprecated {
		description += " (deprecated)"
	}
	return &Tool{s: s, op: op, spec: tool.Spec{
		ID: tool.ID(s.Name() + ":" + op.Name), Title: op.Title, Description: description, Version: doc.Version, Source: "api",
		Input: op.Input, Output: outputSchema, Risk: risk(op.Method), Effects: tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS),
	}}
}

// withoutCredentials leaves out parameters that are Remit's to set.
func (s *Source) withoutCredentials(op *Operation) *Operation {
	if op.Open {
		return op
	}
	ours := func(p Param) bool {
		return slices.ContainsFunc(s.conf.Auth, func(a Auth) bool {
			return a.Kind == p.In && (a.Name == p.Name || a.Kind == Header && network.SameHeader(a.Name, p.Name))
		})
	}
	if !slices.ContainsFunc(op.Params, ours) {
		return op
	}
	out := *op
	var schema struct {
		Type       string                     `json:"type"`
		Additional bool                       `json:"additionalProperties"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required,omitempty"`
		Defs       map[string]json.RawMessage `json:"$defs,omitempty"`
	}
	if err := json.Unmarshal(op.Input, &schema); err != nil {
		return op // its own schema can be read; the transport refuses Remit's own parameters
	}
	out.Params = nil
	for _, p := range op.Params {
		if !ours(p) {
			out.Params = append(out.Params, p)
			continue
		}
		delete(schema.Properties, p.Arg)
		schema.Required = slices.DeleteFunc(schema.Required, func(arg string) bool { return arg == p.Arg })
	}
	input, err := json.Marshal(schema)
	if err != nil {
		return op
	}
	out.Input = input
	return &out
}

// risk is the risk that a method implies for an operation: some only read, by the rules of HTTP
// (RFC 9110).
func risk(method string) tool.Risk {
	if safe(method) {
		return tool.Medium
	}
	return tool.High
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}

// Spec describes the tool.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Hints returns the evidence about the tool besides its specification.
func (t *Tool) Hints() infer.Hints { return infer.Hints{Method: t.op.Method} }

func (t *Tool) base() string {
	if t.op.Base != "" && t.s.conf.Base == "" {
		return t.op.Base
	}
	return t.s.base
}

// Prepare builds the request. Its actions are the request itself, and the requests for
// access tokens that it may need.
func (t *Tool) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	r, err := t.op.build(t.base(), args)
	if err != nil {
		return permit.Prepared{}, err
	}
	actions := []tool.Action{action(r.method, r.url)}
	if !t.op.Open {
		for _, a := range t.s.conf.Auth {
			if a.Kind == OAuth || a.Kind == Login {
				actions = append(actions, action(http.MethodPost, a.TokenURL))
			}
		}
	}
	return permit.Prepared{Actions: actions, Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
		return t.send(ctx, p, args, r)
	}}, nil
}

func action(method, url string) tool.Action {
	to, err := target.Parse(method, url)
	if err != nil { // where it would lead cannot be told: every policy denies that
		return tool.Action{Kind: tool.Network, Unknown: fault.Message(err)}
	}
	return tool.Action{Kind: tool.Network, Target: to}
}

// send sends the request and returns the answer. A status of 400 or more is an answer too.
func (t *Tool) send(ctx context.Context, p permit.Permit, args tool.Args, r request) (tool.Result, error) {
	a, how, tries, err := t.exchange(ctx, p, r)
	if err != nil {
		return tool.Result{}, err
	}
	out := map[string]any{"status": a.status, "status_text": http.StatusText(a.status), "headers": shown(a.header),
		"truncated": a.truncated, "bytes_returned": len(a.body), "cache": how, "attempts": tries}
	body(out, a)
	if next := t.next(args, r, a, out["body"]); next != nil {
		out["next"] = next
	}
	return tool.Result{Output: out}, nil
}

// shownHeaders are those that say something to the caller.
var shownHeaders = []string{"Content-Type", "Etag", "Last-Modified", "Link", "Location", "Retry-After", "X-Request-Id", "X-Total-Count",
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy", "Deprecation", "Sunset", "Warning"}

func shown(h http.Header) map[string]any {
	out := map[string]any{}
	for _, name := range shownHeaders {
		if v := h.Values(name); len(v) > 0 {
			out[strings.ToLower(name)] = strings.ToValidUTF8(clip.Text(strings.Join(v, ", "), 4096), "\uFFFD")
		}
	}
	return out
}

// body adds the answer's body: decoded if it is JSON, else as text, else as Base64.
func body(out map[string]any, a *answer) {
	if len(a.body) == 0 {
		return
	}
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err == nil && !a.truncated && (kind == "application/json" || strings.HasSuffix(kind, "+json")) {
		if v, ok := decoded(a.body); ok {
			out["body"] = v
			return
		}
	}
	content := a.body
	if a.truncated {
		content = wholeRunes(content)
	}
	if utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 {
		out["text"], out["bytes_returned"] = string(content), len(content)
		return
	}
	out["body_base64"] = base64.StdEncoding.EncodeToString(a.body)
}

// maxNesting is how deep an answer's JSON may be nested to be given as such.
const maxNesting = 100

func decoded(b []byte) (any, bool) {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	if deepest > maxNesting || !utf8.Valid(b) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return nil, false
	}
	return v, true
}

// wholeRunes drops the bytes of a character that was cut in two.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if utf8.RuneStart(b[len(b)-i]) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
