package capability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
)

// RenameKey is what the configuration of every capability may hold: a map of its
// tools' names to those that the model is to be told instead.
const RenameKey = "rename"

// maxConfig bounds a configuration, in bytes.
const maxConfig = 64 << 10

// configSchema compiles the schema of a capability's configuration; nil if there
// is nothing to configure.
func configSchema(i Info) (*jsonschema.Schema, error) {
	if len(i.Config) == 0 {
		return nil, nil //nolint:nilnil // no schema is an answer
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(i.Config))
	if err != nil {
		return nil, err
	}
	m, ok := doc.(map[string]any)
	if !ok || m["type"] != "object" || m["additionalProperties"] != false {
		return nil, fmt.Errorf("it is no closed schema of an object")
	}
	if props, _ := m["properties"].(map[string]any); props[RenameKey] != nil {
		return nil, fmt.Errorf("%q has its own meaning in every configuration", RenameKey)
	}
	comp := jsonschema.NewCompiler()
	comp.DefaultDraft(jsonschema.Draft2020)
	comp.UseLoader(jsonschema.SchemeURLLoader{})
	url := "remit:" + i.ID
	if err := comp.AddResource(url, doc); err != nil {
		return nil, err
	}
	return comp.Compile(url)
}

// settings is a configuration that was read.
type settings struct {
	own    json.RawMessage // for the capability; nil: nothing
	rename map[string]string
}

// readConfig checks a configuration; field is where it stands.
func readConfig(i Info, raw json.RawMessage, field string) (settings, fault.List) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return settings{}, nil
	}
	if len(raw) > maxConfig {
		return settings{}, fault.List{invalidConfig(field, "the configuration has %d bytes, at most %d are read", len(raw), maxConfig)}
	}
	doc, err := canon.Decode(raw)
	if err != nil {
		return settings{}, fault.List{invalidConfig(field, "the configuration is no JSON: %v", err)}
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return settings{}, fault.List{invalidConfig(field, "the configuration is no object")}
	}
	var out settings
	var errs fault.List
	if v, ok := m[RenameKey]; ok {
		out.rename, errs = readRename(v, field+"."+RenameKey)
		delete(m, RenameKey)
	}
	if len(m) == 0 {
		return out, errs
	}
	errs = append(errs, checkConfig(i, m, field)...)
	if out.own, err = canon.Marshal(m); err != nil {
		errs = append(errs, invalidConfig(field, "the configuration cannot be kept: %v", err))
	}
	return out, errs
}

func invalidConfig(field, format string, args ...any) *fault.Error {
	return fault.New(fault.CapabilityInvalid, format, args...).In(field)
}

func readRename(v any, field string) (map[string]string, fault.List) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fault.List{invalidConfig(field, "a map of tools' names to new ones is needed")}
	}
	out := map[string]string{}
	var errs fault.List
	for _, old := range sortedKeys(m) {
		name, ok := m[old].(string)
		if !ok || !ValidName(name) {
			errs = append(errs, invalidConfig(field+"."+old, "a tool's name is a letter, then letters, digits, _ and -, at most 64 in all"))
			continue
		}
		out[old] = name
	}
	return out, errs
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// checkConfig finds all that does not fit the schema, by its field.
func checkConfig(i Info, m map[string]any, field string) fault.List {
	schema, err := configSchema(i)
	if err != nil {
		return fault.List{invalidConfig(field, "the configuration schema of %q cannot be used: %v", i.ID, err)}
	}
	if schema == nil {
		return fault.List{invalidConfig(field, "the capability %q has nothing to configure but %s", i.ID, RenameKey)}
	}
	err = schema.Validate(m)
	if err == nil {
		return nil
	}
	ve, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return fault.List{invalidConfig(field, "the configuration does not fit: %v", err)}
	}
	known := properties(i.Config)
	var out fault.List
	english := message.NewPrinter(language.English)
	for _, leaf := range leaves(ve) {
		e := invalidConfig(field+pathOf(leaf.InstanceLocation), "%s", leaf.ErrorKind.LocalizedString(english))
		if len(leaf.InstanceLocation) == 0 {
			e = withMeant(e, m, known)
		}
		out = append(out, e)
	}
	return out
}

// properties are the names of what a schema lets be configured.
func properties(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	return sortedKeys(s.Properties)
}

// withMeant adds which field an unknown one was meant to be.
func withMeant(e *fault.Error, m map[string]any, known []string) *fault.Error {
	for _, name := range sortedKeys(m) {
		if slices.Contains(known, name) {
			continue
		}
		if meant := near.Word(name, known); meant != "" {
			return e.WithHint("did you mean %q?", meant)
		}
		return e.WithHint("it can have: %s", strings.Join(append(slices.Clone(known), RenameKey), ", "))
	}
	return e
}

func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

// pathOf prints where in a configuration something is, as ".servers[0].name".
func pathOf(at []string) string {
	var b strings.Builder
	for _, p := range at {
		if _, err := strconv.Atoi(p); err == nil {
			b.WriteString("[" + p + "]")
		} else {
			b.WriteString("." + p)
		}
	}
	return b.String()
}
