package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/confine/network"
)

// parameter is the part of a parameter object that is read.
type parameter struct {
	Ref         string                     `json:"$ref"`
	Name        string                     `json:"name"`
	In          string                     `json:"in"`
	Description string                     `json:"description"`
	Required    bool                       `json:"required"`
	Style       string                     `json:"style"`
	Explode     *bool                      `json:"explode"`
	Schema      json.RawMessage            `json:"schema"`
	Content     map[string]json.RawMessage `json:"content"`
	Segments    bool                       `json:"x-multi-segment"`
}

// params reads an operation's parameters; its own come before those of its path.
func (in *input) params(op *Operation, own, shared []json.RawMessage) error {
	seen := map[[2]string]bool{}
	var list []parameter
	for _, raw := range slices.Concat(own, shared) {
		var p parameter
		if err := in.r.decodeInto(in.field+".parameters", raw, &p); err != nil {
			return err
		}
		if p.Ref != "" {
			to, _, err := in.r.resolve(in.field+".parameters", p.Ref)
			if err == nil {
				p = parameter{}
				err = in.r.decodeInto(in.field+".parameters", to, &p)
			}
			if err != nil {
				return err
			}
		}
		key := [2]string{p.In, strings.ToLower(p.Name)}
		if p.In != "header" {
			key[1] = p.Name
		}
		if seen[key] || !in.sendable(&p) {
			continue
		}
		seen[key] = true
		list = append(list, p)
	}
	// Where two have one name, that of the path keeps it.
	first := func(p parameter) bool { return p.In == "path" }
	list = slices.Concat(filtered(list, first), filtered(list, func(p parameter) bool { return !first(p) }))
	for i := range list {
		if err := in.param(op, &list[i]); err != nil {
			return err
		}
	}
	return in.placeholders(op)
}

func filtered(list []parameter, keep func(parameter) bool) []parameter {
	return slices.DeleteFunc(slices.Clone(list), func(p parameter) bool { return !keep(p) })
}

// sendable leaves out parameters that are not the caller's to set.
func (in *input) sendable(p *parameter) bool {
	switch {
	case p.In != "header":
		return true
	case strings.EqualFold(p.Name, "Accept"), strings.EqualFold(p.Name, "Content-Type"), strings.EqualFold(p.Name, "Authorization"),
		strings.EqualFold(p.Name, "Cookie"), network.RefusedHeader(p.Name) != "":
		return false
	}
	return headerName(p.Name)
}

// headerName reports whether a text is a header field's name.
func headerName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func (in *input) param(op *Operation, p *parameter) error {
	styles := map[string][]string{"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
		"header": {"simple"}, "cookie": {"form"}}[p.In]
	field := in.field + ".parameters." + clip.Text(p.Name, 80)
	switch {
	case p.Name == "" || len(p.Name) > 200:
		return in.r.fail(field, "a parameter's name must be 1-200 bytes")
	case styles == nil:
		return in.r.fail(field, "a parameter must be in path, query, header or cookie, not in %.40q", p.In)
	case p.Style == "":
		p.Style = styles[0]
	case !slices.Contains(styles, p.Style):
		return in.r.fail(field, "a parameter in %s cannot have the style %.40q", p.In, p.Style)
	}
	q := Param{Name: p.Name, In: p.In, Style: p.Style, Explode: p.Style == "form" || p.Style == "deepObject", Required: p.Required || p.In == "path",
		Segments: p.Segments && p.In == "path"}
	if p.Explode != nil {
		q.Explode = *p.Explode
	}
	schema := p.Schema
	if len(p.Content) > 0 { // of which there is one
		var content struct{ Schema json.RawMessage }
		if err := in.r.decodeInto(field, p.Content[slices.Min(slices.Collect(maps.Keys(p.Content)))], &content); err != nil {
			return err
		}
		schema, q.JSON = content.Schema, true
	}
	if q.In == "path" && !strings.Contains(op.Path, "{"+q.Name+"}") {
		return nil // it stands nowhere
	}
	q.Arg = in.add(q.Name, q.In+"_"+q.Name, in.r.convert(schema), p.Description, q.Required)
	op.Params = append(op.Params, q)
	return nil
}

// placeholders makes parameters of placeholders in a path that nothing declares.
func (in *input) placeholders(op *Operation) error {
	rest := op.Path
	for {
		_, after, ok := strings.Cut(rest, "{")
		name, tail, closed := strings.Cut(after, "}")
		if !ok || !closed {
			return nil
		}
		rest = tail
		declared := slices.ContainsFunc(op.Params, func(p Param) bool { return p.In == "path" && p.Name == name })
		if declared {
			continue
		}
		if err := in.param(op, &parameter{Name: name, In: "path", Schema: json.RawMessage(`{"type":"string"}`)}); err != nil {
			return err
		}
	}
}
