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
	"github.com/remitrun/remit/internal/service/home"
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
	Folder string  // where it starts in that client; it is not used unless UseFolder is called

	// Headers of its requests. Each value goes to the secret store.
	Headers map[string]string
	// Dropped are the settings that are not imported, each with the reason.
	Dropped []string

	bundle    *bundle  // that has the server; nil: none
	variables []Input  // of the person's environment, which it needs
	secret    []string // variables that hold secret inputs
}

// UseFolder has the server start in its folder of that client, which it may then read and
// write.
func (i *Imported) UseFolder() error {
	switch {
	case i.Folder == "" || i.Server.URL != "":
		return nil
	case !filepath.IsAbs(i.Folder):
		return fault.New(fault.Usage, "its folder %q is not absolute", clip.Text(i.Folder, 200))
	}
	dir, err := home.Workspace(i.Folder)
	i.Server.Folder = dir
	return err
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
		return nil, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file}).
			WithHint("%s", home.NearFile(file, "name the configuration of an MCP client, as .mcp.json or ~/.claude.json"))
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
			i.Err = i.read(f)
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

// used are the settings that are read. All other settings of an entry are named as dropped.
var used = []string{
	"command", "cmd", "args", "url", "serverUrl", "httpUrl", "uri", "env", "envs", "environment", "cwd", "headers", "http_headers", "env_http_headers",
	"requestOptions", "bearer_token_env_var", "env_vars", "disabled", "enabled", "name", "type", "transport",
}

// filters are the settings by which clients choose the tools of a server.
var filters = []string{
	"enabled_tools", "disabled_tools", "includeTools", "excludeTools", "tools", "alwaysAllow", "autoApprove", "trust", "default_tools_approval_mode", "available_tools",
}

// read reads the settings of one server.
func (i *Imported) read(f fields) error {
	switch {
	case f["disabled"] == true || f["enabled"] == false:
		return fault.New(fault.Usage, "it is switched off in that client")
	case !f.empty("env_keys"):
		return fault.New(fault.Usage, "it takes variables from that client's keyring: store them with remit secret set and name them in a policy")
	case !f.empty("envFile"):
		return fault.New(fault.Usage, "it takes variables from a file: name them with remit mcp add --env")
	}
	command, err1 := f.words("command", "cmd")
	args, err2 := f.words("args")
	url, err3 := f.text("url", "serverUrl", "httpUrl", "uri")
	env, err4 := f.variables("env", "envs", "environment")
	folder, err5 := f.text("cwd")
	if err := cmp.Or(err1, err2, err3, err4, err5, i.readHeaders(f)); err != nil {
		return err
	}
	i.Server, i.Folder = Server{URL: url, Env: env}, folder
	if len(command) > 0 {
		i.Server.Command = slices.Concat(command, args)
	}
	if err := i.readVariables(f); err != nil {
		return err
	}
	if len(command) == 0 && url == "" {
		return fault.New(fault.Usage, "it has neither a command nor a URL")
	}
	if len(i.Headers) > 0 && !strings.HasPrefix(url, "https://") {
		return fault.New(fault.Usage, "it sends headers, which may be secret, and its URL is not https")
	}
	i.drop(f)
	texts := slices.Concat(i.Server.Command, []string{url}, slices.Sorted(maps.Values(i.Server.Env)), slices.Sorted(maps.Values(i.Headers)))
	for _, text := range texts {
		if p := placeholder.FindString(inputPlace.ReplaceAllString(text, "")); p != "" {
			return fault.New(fault.Usage, "it has the placeholder %s, which only that client fills in", clip.Text(p, 60))
		}
	}
	return nil
}

// drop records the settings that are not imported.
func (i *Imported) drop(f fields) {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		switch {
		case f.empty(key) || slices.Contains(used, key):
		case slices.Contains(filters, key):
			i.Dropped = append(i.Dropped, clip.Text(key, 60)+": a policy says which tools callers may use")
		default:
			i.Dropped = append(i.Dropped, clip.Text(key, 60)+": not used")
		}
	}
	if i.Folder != "" && i.Server.URL == "" {
		i.Dropped = append(i.Dropped, "cwd: the server starts in a folder of its own, unless --cwd is given")
	}
}

// readHeaders reads the headers of its requests.
func (i *Imported) readHeaders(f fields) error {
	i.Headers = map[string]string{}
	more, _ := f["requestOptions"].(map[string]any)
	for _, from := range []struct {
		f   fields
		key string
	}{{f, "headers"}, {f, "http_headers"}, {more, "headers"}} {
		list, err := from.f.variables(from.key)
		if err != nil {
			return err
		}
		maps.Copy(i.Headers, list)
	}
	named, err1 := f.variables("env_http_headers")
	token, err2 := f.text("bearer_token_env_var")
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	for _, header := range slices.Sorted(maps.Keys(named)) {
		if err := i.needVariable(named[header]); err != nil {
			return err
		}
		i.Headers[header] = inputPlaceOf(named[header])
	}
	if token != "" {
		if err := i.needVariable(token); err != nil {
			return err
		}
		i.Headers["Authorization"] = "Bearer " + inputPlaceOf(token)
	}
	return nil
}

// readVariables reads which variables of the person's environment the server gets.
func (i *Imported) readVariables(f fields) error {
	names, err := f.words("env_vars")
	if err != nil || i.Server.URL != "" {
		return err
	}
	for _, name := range names {
		if err := i.needVariable(name); err != nil {
			return err
		}
		if i.Server.Env == nil {
			i.Server.Env = map[string]string{}
		}
		if _, set := i.Server.Env[name]; !set {
			i.Server.Env[name] = inputPlaceOf(name)
		}
	}
	return nil
}

var variableName = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// needVariable notes a variable of the person's environment. Its value is an input: a file that others
// can write must not choose the data sent to a server.
func (i *Imported) needVariable(name string) error {
	if !variableName.MatchString(name) {
		return fault.New(fault.Usage, "%q is not a valid name of a variable", clip.Text(name, 60))
	}
	i.variables = append(i.variables, Input{ID: name, Description: "the server wants the variable " + name + " of your environment", Secret: true})
	return nil
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
