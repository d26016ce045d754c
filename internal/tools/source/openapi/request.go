package openapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// request is the HTTP request that an operation's arguments make.
type request struct {
	method string
	url    string
	header http.Header
	body   []byte // nil: none
}

// build makes the request of a call. Errors have the code ArgsInvalid.
func (op *Operation) build(base string, args tool.Args) (request, error) {
	r := request{method: op.Method, header: http.Header{}}
	path, _, _ := strings.Cut(op.Path, "#") // which tells operations of one path apart, and is not sent
	var query, cookies []string
	for i := range op.Params {
		p := &op.Params[i]
		v, given := args[p.Arg]
		if !given || v == nil && p.In != "path" {
			if p.Required {
				return r, fault.New(fault.ArgsInvalid, "is missing").In(p.Arg)
			}
			continue
		}
		if p.JSON {
			v = asJSON(v)
		}
		var err error
		switch p.In {
		case "path":
			var text string
			if text, err = p.inPath(v); err == nil {
				path = strings.ReplaceAll(path, "{"+p.Name+"}", text)
			}
		case "query":
			query = append(query, p.inQuery(v)...)
		case "header":
			err = p.inHeader(r.header, v)
		case "cookie":
			cookies = append(cookies, p.inQuery(v)...)
		}
		if err != nil {
			return r, err
		}
	}
	r.url = base + path
	if len(query) > 0 {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		r.url += sep + strings.Join(query, "&")
	}
	if len(cookies) > 0 {
		r.header.Set("Cookie", strings.Join(cookies, "; "))
	}
	return r, op.setBody(&r, args)
}

// text writes a value that is neither a list nor an object.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return string(v)
	case bool:
		return fmt.Sprint(v)
	case nil:
		return ""
	}
	return asJSON(v)
}

func asJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "" // decoded JSON can always be written
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pairs returns what a list or an object consists of; keys are empty for a list.
func pairs(v any) (keys, values []string, many bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			keys, values = append(keys, ""), append(values, text(e))
		}
		return keys, values, true
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			keys, values = append(keys, k), append(values, text(v[k]))
		}
		return keys, values, true
	}
	return []string{""}, []string{text(v)}, false
}

// inPath writes a parameter of the path. A value that would be read as another path is refused: an
// empty value, dots alone, and a slash where there is to be one part.
func (p *Param) inPath(v any) (string, error) {
	keys, values, _ := pairs(v)
	prefix, sep := "", ","
	switch p.Style {
	case "label":
		prefix, sep = ".", "."
	case "matrix":
		prefix, sep = ";"+url.PathEscape(p.Name)+"=", ","
		if p.Explode {
			prefix, sep = ";", ";"
		}
	}
	if !p.Explode && p.Style == "label" {
		sep = ","
	}
	var out []string
	for i, val := range values {
		esc, err := p.segment(val)
		if err != nil {
			return "", err
		}
		switch k := keys[i]; {
		case k != "" && p.Explode:
			esc = url.PathEscape(k) + "=" + esc
		case k != "":
			esc = url.PathEscape(k) + "," + esc
		case p.Style == "matrix" && p.Explode:
			esc = url.PathEscape(p.Name) + "=" + esc
		}
		out = append(out, esc)
	}
	if len(out) == 0 {
		return "", fault.New(fault.ArgsInvalid, "must not be empty: it is part of the path").In(p.Arg)
	}
	return prefix + strings.Join(out, sep), nil
}

func (p *Param) segment(s string) (string, error) {
	parts := []string{s}
	if p.Segments {
		parts = strings.Split(s, "/")
	}
	for i, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\\x00") {
			return "", fault.New(fault.ArgsInvalid, "%.80q is not allowed in a path: it would change the path", s).In(p.Arg)
		}
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/"), nil
}

// inQuery writes a parameter of the query, or a cookie, as name=value pairs.
func (p *Param) inQuery(v any) []string {
	keys, values, many := pairs(v)
	name := url.QueryEscape(p.Name)
	var out []string
	switch {
	case !many:
		return []string{name + "=" + url.QueryEscape(values[0])}
	case p.Style == "deepObject":
		for i, k := range keys {
			out = append(out, name+url.QueryEscape("["+k+"]")+"="+url.QueryEscape(values[i]))
		}
		return out
	case p.Explode:
		for i, k := range keys {
			if k == "" {
				k = p.Name
			}
			out = append(out, url.QueryEscape(k)+"="+url.QueryEscape(values[i]))
		}
		return out
	}
	for i, k := range keys {
		if k != "" {
			out = append(out, url.QueryEscape(k))
		}
		out = append(out, url.QueryEscape(values[i]))
	}
	sep := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.Style]
	if sep == "" {
		sep = ","
	}
	return []string{name + "=" + strings.Join(out, sep)}
}

func (p *Param) inHeader(h http.Header, v any) error {
	keys, values, _ := pairs(v)
	var out []string
	for i, k := range keys {
		switch {
		case k != "" && p.Explode:
			out = append(out, k+"="+values[i])
		case k != "":
			out = append(out, k, values[i])
		default:
			out = append(out, values[i])
		}
	}
	value := strings.Join(out, ",")
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return fault.New(fault.ArgsInvalid, "a header must not contain line breaks or control characters").In(p.Arg)
	}
	h.Set(p.Name, value)
	return nil
}

// setBody writes the body as its media type has it.
func (op *Operation) setBody(r *request, args tool.Args) error {
	b := op.Body
	if b == nil {
		return nil
	}
	v, given := args[b.Arg]
	if !given {
		if b.Required {
			return fault.New(fault.ArgsInvalid, "is missing").In(b.Arg)
		}
		return nil
	}
	r.header.Set("Content-Type", b.Media)
	switch kindOfMedia(b.Media) {
	case jsonKind:
		if strings.Contains(b.Media, "*") {
			r.header.Set("Content-Type", "application/json")
		}
		r.body = []byte(asJSON(v))
	case formKind:
		p := Param{Style: "form", Explode: true}
		m, ok := v.(map[string]any)
		if !ok {
			return fault.New(fault.ArgsInvalid, "a form must be an object").In(b.Arg)
		}
		var fields []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			p.Name = k
			fields = append(fields, p.inQuery(m[k])...)
		}
		r.body = []byte(strings.Join(fields, "&"))
	case multipartKind:
		return b.multipart(r, v)
	default:
		s, ok := v.(string)
		if !ok {
			return fault.New(fault.ArgsInvalid, "must be a string").In(b.Arg)
		}
		if r.body = []byte(s); b.Base64 {
			return b.decode(s, b.Arg, &r.body)
		}
	}
	return nil
}

func (b *Body) decode(s, arg string, into *[]byte) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return fault.New(fault.ArgsInvalid, "the text is not Base64").In(arg)
	}
	*into = raw
	return nil
}

// multipart writes a form whose fields may be files.
func (b *Body) multipart(r *request, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return fault.New(fault.ArgsInvalid, "a form must be an object").In(b.Arg)
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	// The same arguments give the same request, also when they are replayed.
	if err := w.SetBoundary("remit-" + hash(asJSON(v)) + hash("form "+asJSON(v))); err != nil {
		return fault.Wrap(fault.Internal, err, "the form cannot be written")
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values := []any{m[k]}
		if list, ok := m[k].([]any); ok {
			values = list
		}
		for _, v := range values {
			if err := b.field(w, k, v); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return fault.Wrap(fault.Internal, err, "the form cannot be written")
	}
	r.body = out.Bytes()
	r.header.Set("Content-Type", w.FormDataContentType())
	return nil
}

func (b *Body) field(w *multipart.Writer, name string, v any) error {
	content := []byte(text(v))
	if slices.Contains(b.Binary, name) {
		if err := b.decode(text(v), b.Arg+"."+name, &content); err != nil {
			return err
		}
		part, err := w.CreateFormFile(name, name)
		if err == nil {
			_, err = part.Write(content)
		}
		return err
	}
	return w.WriteField(name, string(content))
}
