package capability

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/schema"
)

// RenameKey is a key that every configuration may have: a map of the capability's tool
// names to the names that the model gets instead.
const RenameKey = "rename"

// maxConfig is the largest configuration, in bytes.
const maxConfig = 64 << 10

// configSchema compiles the schema of a capability's configuration; nil: there is nothing
// to configure.
func configSchema(i Info) (*schema.Schema, error) {
	if len(i.Config) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to configure
	}
	doc, err := canon.Decode(i.Config)
	if err != nil {
		return nil, err
	}
	m, ok := doc.(map[string]any)
	if !ok || m["type"] != "object" || m["additionalProperties"] != false {
		return nil, fmt.Errorf("it is not the schema of an object with additionalProperties: false")
	}
	if props, _ := m["properties"].(map[string]any); props[RenameKey] != nil {
		return nil, fmt.Errorf("the property %q is reserved in every configuration", RenameKey)
	}
	return schema.Compile(i.ID, i.Config)
}

// settings is a configuration that is valid.
type settings struct {
	own    json.RawMessage // for the capability itself; nil: none
	rename map[string]string
}

// readConfig checks a configuration; field is its place, for errors.
func readConfig(i Info, raw json.RawMessage, field string) (settings, fault.List) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return settings{}, nil
	}
	if len(raw) > maxConfig {
		return settings{}, fault.List{invalidConfig(field, "the configuration has %d bytes; the limit is %d", len(raw), maxConfig)}
	}
	doc, err := canon.Decode(raw)
	if err != nil {
		return settings{}, fault.List{invalidConfig(field, "the configuration is not valid JSON: %v", err)}
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return settings{}, fault.List{invalidConfig(field, "the configuration is not a JSON object")}
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
		errs = append(errs, invalidConfig(field, "the configuration cannot be written as JSON: %v", err))
	}
	return out, errs
}

func invalidConfig(field, format string, args ...any) *fault.Error {
	return fault.New(fault.CapabilityInvalid, format, args...).In(field)
}

func readRename(v any, field string) (map[string]string, fault.List) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fault.List{invalidConfig(field, "must be a map of tool names to new names")}
	}
	out := map[string]string{}
	var errs fault.List
	for _, old := range sortedKeys(m) {
		name, ok := m[old].(string)
		if !ok || !ValidName(name) {
			errs = append(errs, invalidConfig(field+"."+old, "%.100q is not a valid tool name; expected a letter, then letters, digits, _ and -, at most 64 in all", fmt.Sprint(m[old])))
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

// checkConfig reports all violations of the schema, each with its field.
func checkConfig(i Info, m map[string]any, field string) fault.List {
	compiled, err := configSchema(i)
	if err != nil {
		return fault.List{invalidConfig(field, "the configuration schema of %q cannot be used: %v", i.ID, err)}
	}
	if compiled == nil {
		return fault.List{invalidConfig(field, "the capability %q has no configuration except %s", i.ID, RenameKey)}
	}
	err = compiled.Validate(m)
	if err == nil {
		return nil
	}
	var invalid *schema.Invalid
	if !errors.As(err, &invalid) {
		return fault.List{invalidConfig(field, "the configuration is not valid: %v", err)}
	}
	known := properties(i.Config)
	var out fault.List
	for _, p := range invalid.Problems {
		e := invalidConfig(field+pathOf(p.At), "%s", p.Text)
		if len(p.At) == 0 {
			e = withSuggestion(e, m, known)
		}
		out = append(out, e)
	}
	return out
}

// properties returns the names of a schema's properties.
func properties(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	return sortedKeys(s.Properties)
}

// withSuggestion adds the known name that is nearest to an unknown one.
func withSuggestion(e *fault.Error, m map[string]any, known []string) *fault.Error {
	for _, name := range sortedKeys(m) {
		if slices.Contains(known, name) {
			continue
		}
		if meant := near.Word(name, known); meant != "" {
			return e.WithHint("did you mean %q?", meant)
		}
		return e.WithHint("known names: %s", strings.Join(append(slices.Clone(known), RenameKey), ", "))
	}
	return e
}

// pathOf prints a place in a configuration, as ".servers[0].name".
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
