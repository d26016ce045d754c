package webui

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// The kinds of fields of a configuration. A field of any other kind is JSON.
const (
	textField   = "text"
	numberField = "number"
	choiceField = "choice" // one of Options, or none
	linesField  = "lines"  // a list of texts, one in each line
	jsonField   = "json"
	renameField = "rename" // new names of tools, one in each line
)

// configField is a field of a form that is made of a JSON Schema.
type configField struct {
	Name     string
	Kind     string
	About    string
	Options  []string
	Required bool
	Value    string // as it is, or as it was typed
	integer  bool
	truth    bool // its options are the JSON words true and false
}

// fieldSchema is the part of a JSON Schema that a form can show.
type fieldSchema struct {
	Type        any               `json:"type"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Items       struct {
		Type any `json:"type"`
	} `json:"items"`
}

// fieldsOf makes the fields of a configuration, with the values that it has.
func fieldsOf(schema, config json.RawMessage) []configField {
	var s struct {
		Properties map[string]fieldSchema `json:"properties"`
		Required   []string               `json:"required"`
	}
	_ = json.Unmarshal(schema, &s) // without a schema there is nothing to configure but names of tools
	values := map[string]json.RawMessage{}
	_ = json.Unmarshal(config, &values) // the API checked it
	var out []configField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		f := newField(name, s.Properties[name])
		f.Required = slices.Contains(s.Required, name)
		f.Value = f.shown(values[name])
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b configField) int { // required ones first
		switch {
		case a.Required && !b.Required:
			return -1
		case b.Required && !a.Required:
			return 1
		}
		return 0
	})
	rename := configField{Name: capability.RenameKey, Kind: renameField, About: "New names of tools, one in a line: old = new."}
	rename.Value = rename.shown(values[rename.Name])
	return append(out, rename)
}

func newField(name string, p fieldSchema) configField {
	f := configField{Name: name, Kind: jsonField, About: p.Description}
	var options []string
	for _, raw := range p.Enum {
		var text string
		if json.Unmarshal(raw, &text) != nil || text == "" {
			return f
		}
		options = append(options, text)
	}
	switch {
	case len(options) > 0:
		f.Kind, f.Options = choiceField, options
	case p.Type == "boolean":
		f.Kind, f.Options, f.truth = choiceField, []string{"true", "false"}, true
	case p.Type == "string":
		f.Kind = textField
	case p.Type == "integer", p.Type == "number":
		f.Kind, f.integer = numberField, p.Type == "integer"
	case p.Type == "array" && p.Items.Type == "string":
		f.Kind = linesField
	}
	return f
}

// shown is a value as the field shows it. A value of another kind than the field's is JSON.
func (f *configField) shown(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var text string
	var list []string
	var names map[string]string
	switch {
	case (f.Kind == textField || f.Kind == choiceField && !f.truth) && json.Unmarshal(raw, &text) == nil:
		return text
	case f.Kind == linesField && json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, "\n")
	case f.Kind == renameField && json.Unmarshal(raw, &names) == nil:
		for _, old := range slices.Sorted(maps.Keys(names)) {
			list = append(list, old+" = "+names[old])
		}
		return strings.Join(list, "\n")
	}
	return compactJSON(raw)
}

// read reads the typed text as JSON; nil: it is empty.
func (f *configField) read(typed string) (json.RawMessage, error) {
	typed = strings.TrimSpace(strings.ReplaceAll(typed, "\r\n", "\n"))
	if typed == "" {
		return nil, nil
	}
	bad := func(expected string) error {
		return fault.New(fault.ArgsInvalid, "%.60q is not valid; expected %s", typed, expected).In(f.Name)
	}
	switch {
	case f.Kind == numberField:
		if _, err := strconv.ParseFloat(typed, 64); err != nil || f.integer && strings.Trim(typed, "-0123456789") != "" || !json.Valid([]byte(typed)) {
			return nil, bad("a number")
		}
		return json.RawMessage(typed), nil
	case f.truth && slices.Contains(f.Options, typed):
		return json.RawMessage(typed), nil
	case f.Kind == linesField:
		return json.Marshal(linesOf(typed))
	case f.Kind == renameField:
		names := map[string]string{}
		for _, line := range linesOf(typed) {
			old, name, ok := strings.Cut(line, "=")
			if !ok {
				return nil, bad("lines as old = new")
			}
			names[strings.TrimSpace(old)] = strings.TrimSpace(name)
		}
		return json.Marshal(names)
	case f.Kind == jsonField:
		var b bytes.Buffer
		if json.Compact(&b, []byte(typed)) != nil {
			return nil, bad("JSON")
		}
		return b.Bytes(), nil
	}
	return json.Marshal(typed)
}

// linesOf gives the lines of a text that are not empty.
func linesOf(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// configView is the form for the configuration of an agent's capability.
type configView struct {
	Agent      agent.Agent
	Capability httpapi.CapabilityDetail
	Fields     []configField
	Version    string
	Alert      *httpapi.Problem
}

func (s *Server) config(x *exchange) (*page, error) { return x.configPage(nil) }

// configPage makes the form. Alert explains why the typed values could not be saved.
func (x *exchange) configPage(alert *httpapi.Problem) (*page, error) {
	v := configView{Alert: alert}
	ref := x.r.PathValue("ref")
	if err := x.api.get("/v1/agents/"+url.PathEscape(x.r.PathValue("id")), nil, &v.Agent); err != nil {
		return nil, err
	}
	if err := x.api.get("/v1/capabilities/"+url.PathEscape(ref), nil, &v.Capability); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Agent.Capabilities, func(r agent.CapabilityRef) bool { return r.Ref == ref })
	if i < 0 && x.r.URL.Query().Get("add") == "" && alert == nil {
		return nil, fault.New(fault.NotFound, "the agent does not have the capability %.100q", ref)
	}
	var config json.RawMessage
	if i >= 0 {
		config = v.Agent.Capabilities[i].Config
	}
	v.Version, v.Fields = strconv.Itoa(v.Agent.Version), fieldsOf(v.Capability.Config, config)
	p := &page{Title: "Configure " + v.Capability.Name, Nav: "Agents", Still: true, Body: v}
	if alert != nil {
		p.Status = alert.Status
		for k := range v.Fields {
			v.Fields[k].Value = x.r.PostForm.Get("config." + v.Fields[k].Name)
		}
	}
	return p, nil
}

// setConfig configures a capability of an agent, and adds it where the agent does not have it.
func (s *Server) setConfig(x *exchange) (string, *page, error) {
	id, ref, form := x.r.PathValue("id"), x.r.PathValue("ref"), x.r.PostForm
	err := x.saveConfig(id, ref, form)
	switch {
	case err == nil:
		return "/ui/agents/" + url.PathEscape(id) + "#capabilities", nil, nil
	case signedOut(err):
		return "", nil, err
	}
	p := problemOf(err)
	if p.Status == http.StatusPreconditionFailed {
		p.Hint = "the agent was changed meanwhile; look at it, and save again to set this configuration in its newest version"
	}
	next, perr := x.configPage(p)
	return "", next, perr
}

func (x *exchange) saveConfig(id, ref string, form url.Values) error {
	var a agent.Agent
	if err := x.api.get("/v1/agents/"+url.PathEscape(id), nil, &a); err != nil {
		return err
	}
	var c httpapi.CapabilityDetail
	if err := x.api.get("/v1/capabilities/"+url.PathEscape(ref), nil, &c); err != nil {
		return err
	}
	config := map[string]json.RawMessage{}
	for _, f := range fieldsOf(c.Config, nil) {
		raw, err := f.read(form.Get("config." + f.Name))
		if err != nil {
			return err
		}
		if raw != nil {
			config[f.Name] = raw
		}
	}
	set := agent.CapabilityRef{Ref: ref}
	if len(config) > 0 {
		var err error
		if set.Config, err = json.Marshal(config); err != nil {
			return fault.Wrap(fault.Internal, err, "the configuration cannot be encoded")
		}
	}
	if i := slices.IndexFunc(a.Capabilities, func(r agent.CapabilityRef) bool { return r.Ref == ref }); i >= 0 {
		a.Capabilities[i] = set
	} else {
		a.Capabilities = append(a.Capabilities, set)
	}
	return x.patchAgent(id, form.Get("version"), map[string]any{"capabilities": a.Capabilities})
}
