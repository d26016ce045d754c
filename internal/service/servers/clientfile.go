package servers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// maxMCPFile bounds another client's file, in bytes.
const maxMCPFile = 1 << 20

// serverKeys are the keys under which clients list their servers.
var serverKeys = []string{"mcpServers", "servers", "context_servers", "mcp_servers", "extensions", "mcp"}

// Imported is one server in another client's file.
type Imported struct {
	Label  string // its name in that file
	Server Server
	Inputs []Input // values that Fill needs
	Err    error   // why it cannot be added

	secret []string // variables that hold secret inputs
}

// ReadClientFile reads the servers of another client's file, by label. The file is TOML or YAML by the
// end of its name, or else JSON that may have comments.
func ReadClientFile(file string) ([]Imported, error) {
	top, err := readTree(file)
	if err != nil {
		return nil, err
	}
	var found []Imported
	for _, key := range serverKeys {
		if found = entriesOf(top[key]); len(found) > 0 {
			break
		}
	}
	if len(found) == 0 {
		return nil, fault.New(fault.Usage, "no MCP servers were found").At(fault.Pos{File: file}).
			WithHint("expected them under one of: %s", strings.Join(serverKeys, ", "))
	}
	slices.SortStableFunc(found, func(x, y Imported) int { return strings.Compare(x.Label, y.Label) })
	count, inputs := map[string]int{}, inputsOf(top["inputs"])
	for _, i := range found {
		count[i.Server.Name]++
	}
	for n := range found {
		if i := &found[n]; i.Err == nil && count[i.Server.Name] > 1 {
			i.Err = fault.New(fault.Usage, "more than one server of the file would be named %q", i.Server.Name)
		}
		if i := &found[n]; i.Err == nil {
			i.Err = i.needInputs(inputs)
		}
	}
	return found, nil
}

// readTree reads a file as decoded JSON.
func readTree(file string) (map[string]any, error) {
	src, err := wholefile.Read(file, maxMCPFile)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	var top any
	r := document.NewReader(file, document.Options{Code: fault.Usage, Noun: "MCP configuration", AnyText: true, Foreign: true})
	switch filepath.Ext(file) {
	case ".toml":
		return readTOML(file, src)
	case ".yaml", ".yml":
		if n := r.ReadYAML(src); n != nil {
			top = n.Value()
		}
	default:
		if n := r.ReadJSON(document.StripComments(src)); n != nil {
			top = n.Value()
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	tree, ok := top.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Usage, "not a valid MCP configuration; expected keys at its top").At(fault.Pos{File: file})
	}
	return tree, nil
}

// maxDots bounds the dots in a line of TOML: the time to read a dotted key grows with the square of its
// parts.
const maxDots = 256

// readTOML parses TOML.
func readTOML(file string, src []byte) (map[string]any, error) {
	line := 0
	for text := range bytes.SplitSeq(src, []byte("\n")) {
		if line++; bytes.Count(text, []byte(".")) > maxDots {
			return nil, fault.New(fault.Usage, "the line has more than %d dots", maxDots).At(fault.Pos{File: file, Line: line})
		}
	}
	var tree map[string]any
	err := toml.Unmarshal(src, &tree)
	if where := (toml.ParseError{}); errors.As(err, &where) {
		return nil, fault.New(fault.Usage, "not valid TOML: %s", document.Visible(where.Message)).At(fault.Pos{File: file, Line: where.Position.Line})
	}
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "not valid TOML").At(fault.Pos{File: file})
	}
	return tree, nil
}

// entriesOf reads the entries of a table by name, or of a list whose entries have a name.
func entriesOf(v any) []Imported {
	var out []Imported
	add := func(label string, v any) {
		f, ok := v.(map[string]any)
		i := Imported{Label: label, Err: fault.New(fault.Usage, "it is not a table of settings")}
		switch {
		case ok && label == "":
			i.Err = fault.New(fault.Usage, "it has no name")
		case ok:
			i.Server, i.Err = serverOf(f)
		}
		i.Server.Name = nameFrom(label)
		if i.Err == nil && i.Server.Name == "" {
			i.Err = fault.New(fault.Usage, "its name has no letter or digit, or more than 40")
		}
		out = append(out, i)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, label := range slices.Sorted(maps.Keys(v)) {
			add(label, v[label])
		}
	case []any:
		for n, one := range v {
			f, _ := one.(map[string]any)
			label, _ := f["name"].(string)
			add(label, one)
			if label == "" {
				out[n].Label = fmt.Sprintf("server[%d]", n)
			}
		}
	}
	return out
}

// leftOut are the settings without which a server would not work, or would do more than in that client.
var leftOut = []struct{ key, why string }{
	{"headers", headersWhy},
	{"http_headers", headersWhy},
	{"env_http_headers", headersWhy},
	{"requestOptions", headersWhy},
	{"bearer_token_env_var", headersWhy},
	{"env_vars", "it takes variables from the environment: name them with remit mcp add --env, or store them with remit secret set"},
	{"env_keys", "it takes variables from that client's keyring: store them with remit secret set and name them in a policy"},
	{"envFile", "it takes variables from a file: name them with remit mcp add --env"},
}

const headersWhy = "it sends headers, which may be secret: store them with remit secret set and name them in a policy"

// serverOf reads the settings of one server.
func serverOf(f fields) (Server, error) {
	if f["disabled"] == true || f["enabled"] == false {
		return Server{}, fault.New(fault.Usage, "it is switched off in that client")
	}
	for _, l := range leftOut {
		if !f.empty(l.key) {
			return Server{}, fault.New(fault.Usage, "%s", l.why)
		}
	}
	command, err1 := f.words("command", "cmd")
	args, err2 := f.words("args")
	url, err3 := f.text("url", "serverUrl", "httpUrl", "uri")
	env, err4 := f.variables("env", "envs", "environment")
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return Server{}, err
	}
	s := Server{URL: url, Env: env}
	if len(command) > 0 {
		s.Command = slices.Concat(command, args)
	}
	if len(command) == 0 && url == "" {
		return s, fault.New(fault.Usage, "it has neither a command nor a URL")
	}
	texts := append(slices.Concat(s.Command, []string{url}), slices.Sorted(maps.Values(env))...)
	for _, text := range texts {
		if p := placeholder.FindString(inputPlace.ReplaceAllString(text, "")); p != "" {
			return s, fault.New(fault.Usage, "it has the placeholder %s, which only that client fills in", clip.Text(p, 60))
		}
	}
	return s, nil
}

// placeholder is how clients write a value that they fill in.
var placeholder = regex.Lazy(`\$\{[^}]*\}|\{(env|file):[^}]*\}`)

// fields are the settings of one server as decoded JSON.
type fields map[string]any

// first returns the first of the settings that is given, with its key.
func (f fields) first(keys ...string) (key string, v any) {
	for _, key := range keys {
		if !f.empty(key) {
			return key, f[key]
		}
	}
	return "", nil
}

// empty reports whether a setting is missing or has nothing in it.
func (f fields) empty(key string) bool {
	switch v := f[key].(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// text is a setting that is text.
func (f fields) text(keys ...string) (string, error) {
	key, v := f.first(keys...)
	text, ok := v.(string)
	if v != nil && !ok {
		return "", fault.New(fault.Usage, "its %s is not text", key)
	}
	return text, nil
}

// words is a setting that is text or a list of texts.
func (f fields) words(keys ...string) ([]string, error) {
	key, v := f.first(keys...)
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, len(v))
		for i, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, fault.New(fault.Usage, "its %s[%d] is not text", key, i)
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, fault.New(fault.Usage, "its %s is not text or a list of texts", key)
}

// variables is a setting of variables and their values.
func (f fields) variables(keys ...string) (map[string]string, error) {
	key, v := f.first(keys...)
	if v == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	table, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Usage, "its %s is not a table of variables", key)
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if out[name], ok = table[name].(string); !ok {
			return nil, fault.New(fault.Usage, "the value of its variable %s is not text", clip.Text(name, 60))
		}
	}
	return out, nil
}

// nameFrom makes a name of another client's; "" if there is none in it.
func nameFrom(s string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r == ' ', r == '.', r == '/':
			return '-'
		}
		return -1
	}, s)
	out = strings.TrimLeft(out, "-_")
	if !mcpName.MatchString(out) {
		return ""
	}
	return out
}
