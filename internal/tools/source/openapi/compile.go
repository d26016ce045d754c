package openapi

import (
	"encoding/json"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
)

// server is one of a document's, or an operation's, servers.
type server struct {
	URL       string `json:"url"`
	Variables map[string]struct {
		Default string `json:"default"`
	} `json:"variables"`
}

// pathItem and operation are the read parts of the document's objects of these names.
type pathItem struct {
	Ref        string            `json:"$ref"`
	Parameters []json.RawMessage `json:"parameters"`
	Servers    []server          `json:"servers"`
	Get        json.RawMessage   `json:"get"`
	Put        json.RawMessage   `json:"put"`
	Post       json.RawMessage   `json:"post"`
	Delete     json.RawMessage   `json:"delete"`
	Options    json.RawMessage   `json:"options"`
	Head       json.RawMessage   `json:"head"`
	Patch      json.RawMessage   `json:"patch"`
	Trace      json.RawMessage   `json:"trace"`
}

type operation struct {
	OperationID string                        `json:"operationId"`
	Summary     string                        `json:"summary"`
	Description string                        `json:"description"`
	Parameters  []json.RawMessage             `json:"parameters"`
	RequestBody json.RawMessage               `json:"requestBody"`
	Security    *[]map[string]json.RawMessage `json:"security"`
	Servers     []server                      `json:"servers"`
	Deprecated  bool                          `json:"deprecated"`
}

// Compile reads a document that messages call file. From is the URL that it came
// from, which relative servers are relative to, or "". Errors have the code Usage
// and name the place.
func Compile(file, from string, src []byte) (*Document, error) {
	r := &reader{file: file, schemas: map[string]*converted{}, keywords: keywordTable()}
	if err := r.open(src); err != nil {
		return nil, err
	}
	var info struct{ Title, Version string }
	var servers []server
	var security *[]map[string]json.RawMessage
	paths := map[string]json.RawMessage{}
	for field, into := range map[string]any{"info": &info, "servers": &servers, "paths": &paths, "security": &security} {
		if err := r.decodeInto(field, r.top[field], into); err != nil {
			return nil, err
		}
	}
	d := &Document{Title: clip.Text(info.Title, maxText), Version: clip.Text(info.Version, 100), Base: base(servers, from), Wants: r.credentialNames()}
	n := names{used: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		ops, err := r.path(path, paths[path], from, &n)
		if err != nil {
			return nil, err
		}
		for i := range ops {
			ops[i].Open = ops[i].Open || security != nil && len(*security) == 0
		}
		if d.Operations = append(d.Operations, ops...); len(d.Operations) > maxOperations {
			return nil, r.fail("paths", "the document has more than %d operations", maxOperations)
		}
	}
	if len(d.Operations) == 0 {
		return nil, r.fail("paths", "the document has no operationss")
	}
	return d, nil
}

// credentialNames says which credentials the document speaks of.
func (r *reader) credentialNames() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.components["securitySchemes"])) {
		var s struct {
			Type, Scheme, In, Name string
			Flows                  struct {
				ClientCredentials *struct{ TokenURL string }                   `json:"clientCredentials"`
				AuthorizationCode *struct{ TokenURL, AuthorizationURL string } `json:"authorizationCode"`
			}
		}
		if json.Unmarshal(r.components["securitySchemes"][name], &s) != nil {
			continue
		}
		text := ""
		switch {
		case s.Type == "http" && strings.EqualFold(s.Scheme, "basic"):
			text = "basic=USER:SECRET"
		case s.Type == "http" && strings.EqualFold(s.Scheme, "bearer"):
			text = "bearer=SECRET"
		case s.Type == "apiKey" && (s.In == Header || s.In == Query):
			text = s.In + "=" + clip.Text(s.Name, 80) + ":SECRET"
		case s.Type == "oauth2" && s.Flows.ClientCredentials != nil:
			text = "oauth=CLIENT:SECRET --token-url " + clip.Text(s.Flows.ClientCredentials.TokenURL, 200)
		case s.Type == "oauth2" && s.Flows.AuthorizationCode != nil:
			text = "login=CLIENT --authorize-url " + clip.Text(s.Flows.AuthorizationCode.AuthorizationURL, 200) + " --token-url " + clip.Text(s.Flows.AuthorizationCode.TokenURL, 200)
		}
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// base is the URL of the first server, with its variables' defaults; "" if there
// is none that can be reached.
func base(list []server, from string) string {
	if len(list) == 0 {
		list = []server{{URL: "/"}}
	}
	text := list[0].URL
	for name, v := range list[0].Variables {
		text = strings.ReplaceAll(text, "{"+name+"}", v.Default)
	}
	u, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, "{}") {
		return ""
	}
	if at, err := url.Parse(from); err == nil && at.Host != "" {
		u = at.ResolveReference(u)
	}
	if u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(u.String(), "/")
}

// path reads the operations of one path.
func (r *reader) path(path string, raw json.RawMessage, from string, n *names) ([]Operation, error) {
	field := "paths." + path
	var item pathItem
	if err := r.decodeInto(field, raw, &item); err != nil {
		return nil, err
	}
	if item.Ref != "" {
		to, _, err := r.resolve(field, item.Ref)
		if err == nil {
			item = pathItem{}
			err = r.decodeInto(field, to, &item)
		}
		if err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(path, "/") {
		return nil, r.fail(field, "a path must begin with a slash")
	}
	var out []Operation
	for _, m := range []struct {
		name string
		raw  json.RawMessage
	}{{"GET", item.Get}, {"PUT", item.Put}, {"POST", item.Post}, {"DELETE", item.Delete}, {"OPTIONS", item.Options},
		{"HEAD", item.Head}, {"PATCH", item.Patch}, {"TRACE", item.Trace}} {
		if len(m.raw) == 0 || string(m.raw) == "null" {
			continue
		}
		op, err := r.operation(path, m.name, m.raw, &item, from, n)
		if err != nil {
			return nil, err
		}
		out = append(out, op)
	}
	return out, nil
}

func (r *reader) operation(path, method string, raw json.RawMessage, item *pathItem, from string, n *names) (Operation, error) {
	field := "paths." + path + "." + strings.ToLower(method)
	var o operation
	if err := r.decodeInto(field, raw, &o); err != nil {
		return Operation{}, err
	}
	op := Operation{Name: n.take(o.OperationID, method, path), Method: method, Path: path, Deprecated: o.Deprecated,
		Title: clip.Text(strings.TrimSpace(o.Summary), 120), Description: clip.Text(strings.TrimSpace(o.Description), maxText)}
	if op.Title == "" {
		op.Title = clip.Text(method+" "+path, 120)
	}
	if list := slices.Concat(o.Servers, item.Servers); len(list) > 0 {
		op.Base = base(list, from)
	}
	if o.Security != nil {
		op.Open = !slices.ContainsFunc(*o.Security, func(s map[string]json.RawMessage) bool { return len(s) > 0 })
	}
	in := &input{r: r, field: field, props: map[string]json.RawMessage{}}
	if err := in.params(&op, o.Parameters, item.Parameters); err != nil {
		return op, err
	}
	if err := in.body(&op, o.RequestBody); err != nil {
		return op, err
	}
	var err error
	op.Input, err = in.schema()
	return op, err
}

// input is the schema of an operation's arguments as it comes together.
type input struct {
	r        *reader
	field    string
	props    map[string]json.RawMessage
	required []string
	refs     []string
}

// add gives an argument a unique name.
func (in *input) add(name, other string, c *converted, description string, required bool) string {
	arg := name
	for _, taken := in.props[arg]; taken; _, taken = in.props[arg] {
		arg = other
		other += "_"
	}
	in.props[arg] = described(c.text, description)
	in.refs = append(in.refs, c.refs...)
	if required {
		in.required = append(in.required, arg)
	}
	return arg
}

// described adds a description to a schema.
func described(text []byte, description string) json.RawMessage {
	if description = clip.Text(strings.TrimSpace(description), maxText); description == "" {
		return text
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	if _, ref := m["$ref"]; ref {
		m = map[string]json.RawMessage{"allOf": slices.Concat(json.RawMessage("["), text, json.RawMessage("]"))}
	}
	m["description"], _ = json.Marshal(description) // a text can always be written
	out, err := json.Marshal(m)
	if err != nil {
		return text
	}
	return out
}

func (in *input) schema() ([]byte, error) {
	size := 0
	for _, p := range in.props {
		size += len(p)
	}
	if size > 2*maxSchema {
		for name := range in.props {
			in.props[name] = json.RawMessage("true")
		}
		in.refs = nil
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": in.props}
	if len(in.required) > 0 {
		slices.Sort(in.required)
		s["required"] = in.required
	}
	if defs := in.r.bundle(in.refs, maxSchema-size); len(defs) > 0 {
		s["$defs"] = defs
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, in.r.fail(in.field, "the schema of its arguments cannot be written: %v", err)
	}
	return b, nil
}

// body reads an operation's request body.
func (in *input) body(op *Operation, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var b struct {
		Ref         string `json:"$ref"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
		Content     map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	}
	field := in.field + ".requestBody"
	err := in.r.decodeInto(field, raw, &b)
	if err == nil && b.Ref != "" {
		if raw, _, err = in.r.resolve(field, b.Ref); err == nil {
			err = in.r.decodeInto(field, raw, &b)
		}
	}
	if err != nil || len(b.Content) == 0 {
		return err
	}
	media := preferred(slices.Sorted(maps.Keys(b.Content)))
	op.Body = &Body{Media: media, Required: b.Required}
	schema := b.Content[media].Schema
	c := in.r.convert(schema)
	switch kindOfMedia(media) {
	case jsonKind:
	case formKind, multipartKind:
		op.Body.Binary = in.binary(schema)
	case textKind:
		c = &converted{text: []byte(`{"type":"string"}`)}
	case bytesKind:
		op.Body.Base64, c = true, &converted{text: []byte(`{"type":"string","contentEncoding":"base64"}`)}
	}
	op.Body.Arg = in.add("body", "request_body", c, b.Description, b.Required)
	return nil
}

// binary lists the fields of a form that hold bytes.
func (in *input) binary(raw json.RawMessage) []string {
	var s struct {
		Ref        string `json:"$ref"`
		Properties map[string]struct {
			Format string `json:"format"`
		} `json:"properties"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	if s.Ref != "" {
		if to, _, err := in.r.resolve(in.field, s.Ref); err != nil || json.Unmarshal(to, &s) != nil {
			return nil
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if f := s.Properties[name].Format; f == "binary" || f == "byte" {
			out = append(out, name)
		}
	}
	return out
}

type mediaKind int

const (
	jsonKind mediaKind = iota
	formKind
	multipartKind
	textKind
	bytesKind
)

func kindOfMedia(media string) mediaKind {
	kind, _, err := mime.ParseMediaType(media)
	switch {
	case err != nil:
		return bytesKind
	case kind == "application/json", strings.HasSuffix(kind, "+json"), kind == "*/*", kind == "application/*":
		return jsonKind
	case kind == "application/x-www-form-urlencoded":
		return formKind
	case kind == "multipart/form-data":
		return multipartKind
	case strings.HasPrefix(kind, "text/"), kind == "application/xml", strings.HasSuffix(kind, "+xml"):
		return textKind
	}
	return bytesKind
}

// preferred chooses one of several ways to send a body.
func preferred(media []string) string {
	best := media[0]
	for _, m := range media {
		if kindOfMedia(m) < kindOfMedia(best) {
			best = m
		}
	}
	return best
}
