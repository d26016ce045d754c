package packages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// MaxServerJSON bounds a server.json, in bytes.
const MaxServerJSON = 1 << 20

// maxFields bounds the arguments, variables and headers of an entry.
const maxFields = 200

// Field is a value that a server.json describes.
type Field struct {
	Name        string           `json:"name"`
	Type        string           `json:"type"` // of an argument: positional or named
	ValueHint   string           `json:"valueHint"`
	Description string           `json:"description"`
	Required    bool             `json:"isRequired"`
	Secret      bool             `json:"isSecret"`
	Repeated    bool             `json:"isRepeated"`
	Value       string           `json:"value"`
	Default     string           `json:"default"`
	Choices     []string         `json:"choices"`
	Variables   map[string]Field `json:"variables"`
}

// Entry is one way to run or reach a server: a package or a remote of a server.json.
type Entry struct {
	Registry    string  `json:"registryType"` // "": a remote
	Identifier  string  `json:"identifier"`
	Version     string  `json:"version"`
	BaseURL     string  `json:"registryBaseUrl"`
	Hint        string  `json:"runtimeHint"`
	Runtime     []Field `json:"runtimeArguments"`
	Arguments   []Field `json:"packageArguments"`
	Environment []Field `json:"environmentVariables"`
	Transport   struct {
		Type string `json:"type"`
	} `json:"transport"`

	Type    string  `json:"type"` // of a remote
	URL     string  `json:"url"`
	Headers []Field `json:"headers"`
	// Variables are filled into the URL of a remote.
	Variables map[string]Field `json:"variables"`
}

// ServerJSON is a server.json of an MCP registry.
type ServerJSON struct {
	Name     string  `json:"name"`
	Version  string  `json:"version"`
	Packages []Entry `json:"packages"`
	Remotes  []Entry `json:"remotes"`
}

// ReadServerJSON reads a server.json, or the answer of a registry that holds one as "server".
func ReadServerJSON(src []byte) (*ServerJSON, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Usage, "not a valid server.json: "+format, args...)
	}
	if len(src) > MaxServerJSON {
		return nil, bad("it has more than %d MiB", MaxServerJSON>>20)
	}
	if _, err := canon.Decode(src); err != nil {
		return nil, bad("%v", err)
	}
	var wrapped struct {
		Server json.RawMessage `json:"server"`
	}
	if json.Unmarshal(src, &wrapped) == nil && len(wrapped.Server) > 0 {
		src = wrapped.Server
	}
	s := &ServerJSON{}
	if err := json.Unmarshal(src, s); err != nil {
		return nil, bad("%v", err)
	}
	if len(s.Packages)+len(s.Remotes) == 0 {
		return nil, bad("it has neither packages nor remotes")
	}
	for _, e := range slices.Concat(s.Packages, s.Remotes) {
		if len(e.Runtime)+len(e.Arguments)+len(e.Environment)+len(e.Headers)+len(e.Variables) > maxFields {
			return nil, bad("an entry has more than %d values", maxFields)
		}
	}
	return s, nil
}

// Pick gives the first entry that can be used, packages before remotes, or the first of a
// kind: npm, pypi or remote. The error names why each other one cannot be used.
func (s *ServerJSON) Pick(kind string) (*Entry, error) {
	var why []string
	for _, e := range slices.Concat(s.Packages, s.Remotes) {
		if kind != "" && kind != e.kind() {
			continue
		}
		err := e.check()
		if err == nil {
			return &e, nil
		}
		why = append(why, e.kind()+": "+fault.Message(err))
	}
	if len(why) == 0 {
		return nil, fault.New(fault.Usage, "the server.json has no %.20q entry", kind)
	}
	return nil, fault.New(fault.Usage, "no entry of the server.json can be used: %s", clip.Text(strings.Join(why, "; "), 600))
}

func (e *Entry) kind() string {
	if e.Registry == "" {
		return "remote"
	}
	return clip.Text(e.Registry, 20)
}

// check reports why an entry cannot be used.
func (e *Entry) check() error {
	switch {
	case e.Registry == "" && e.Type != "streamable-http" && e.Type != "http":
		return fault.New(fault.Usage, "the transport %.20q is not supported; expected streamable-http", e.Type)
	case e.Registry == "":
		return nil
	case e.Registry == "oci":
		return fault.New(fault.Usage, "an image needs a container engine (podman or docker), which runs outside of Remit's sandbox; install one, start the image yourself, and add the server with --url")
	case e.Registry == "mcpb":
		return fault.New(fault.Usage, "a bundle is not downloaded: download it, and add it with --bundle")
	case e.Registry != string(NPM) && e.Registry != string(PyPI):
		return fault.New(fault.Usage, "%q packages are not supported", clip.Text(e.Registry, 20))
	case e.Transport.Type != "" && e.Transport.Type != "stdio":
		return fault.New(fault.Usage, "a package with the transport %.20q is not supported; expected stdio", e.Transport.Type)
	case e.Version == "" || e.Version == "latest":
		return fault.New(fault.Usage, "the package has no version")
	}
	for _, f := range e.Runtime {
		if word := f.Name + f.Value; word != "-y" && word != "--yes" && word != "-q" && word != "--quiet" {
			return fault.New(fault.Usage, "the option %q of the launcher is not supported", clip.Text(word, 60))
		}
	}
	_, err := ParseCommand(e.launch())
	return err
}

// launch is the command line of the launcher, without arguments of the program.
func (e *Entry) launch() []string {
	if e.Registry == string(PyPI) {
		return []string{"uvx", e.Identifier + "==" + e.Version}
	}
	return []string{"npx", "-y", e.Identifier + "@" + e.Version}
}

// Recipe is an entry whose values are still to be given: each is the place ${input:ID} of one
// of its inputs.
type Recipe struct {
	Command []string
	URL     string
	Env     map[string]string
	Headers map[string]string
	Inputs  []Input
}

// Input is a value that a person gives.
type Input struct {
	ID, Description string
	Secret          bool     // it is not shown, and kept in the store of secrets
	Default         string   // the value if the person gives none
	Options         []string // the values to choose from; empty: any
}

// Recipe returns the recipe for the entry. Given has the IDs that the person answers in any case: a
// value that is not required and has no default is left out otherwise.
func (e *Entry) Recipe(given map[string]string) (*Recipe, error) {
	r := &Recipe{Env: map[string]string{}, Headers: map[string]string{}}
	if e.Registry == "" {
		r.URL = e.URL
		if err := r.fill(&r.URL, e.Variables, false); err != nil {
			return nil, err
		}
		return r, r.table(r.Headers, e.Headers, given, true)
	}
	r.Command = e.launch()
	for n, f := range e.Arguments {
		id := strings.TrimLeft(f.Name, "-")
		if f.Type != "named" {
			if id = f.ValueHint; id == "" {
				id = fmt.Sprintf("argument%d", n+1)
			}
		}
		value, ok, err := r.value(f, id, given)
		if err != nil {
			return nil, err
		}
		if f.Secret && ok {
			return nil, fault.New(fault.Usage, "its argument %q is secret; a command is shown and recorded", clip.Text(id, 60))
		}
		switch {
		case f.Type == "named" && f.Name == "" || f.Type != "named" && f.Type != "positional":
			return nil, fault.New(fault.Usage, "its argument %d has no valid type and name", n+1)
		case f.Type == "named" && ok && value != "":
			r.Command = append(r.Command, f.Name, value)
		case f.Type == "named" && (ok || f.Required):
			r.Command = append(r.Command, f.Name)
		case ok:
			r.Command = append(r.Command, value)
		}
	}
	return r, r.table(r.Env, e.Environment, given, false)
}

// table fills a table of variables or headers.
func (r *Recipe) table(out map[string]string, fields []Field, given map[string]string, secret bool) error {
	for _, f := range fields {
		if f.Name == "" {
			return fault.New(fault.Usage, "one of its variables or headers has no name")
		}
		f.Secret = f.Secret || secret && f.Value == "" // a header may be a secret despite the file
		value, ok, err := r.value(f, f.Name, given)
		if err != nil {
			return err
		}
		if ok {
			out[f.Name] = value
		}
	}
	return nil
}

// value gives the text of a field; false: it is left out.
func (r *Recipe) value(f Field, id string, given map[string]string) (string, bool, error) {
	if f.Value != "" {
		text := f.Value
		err := r.fill(&text, f.Variables, f.Secret)
		return text, true, err
	}
	if _, answered := given[id]; !answered && !f.Required {
		return f.Default, f.Default != "", nil
	}
	if f.Name != "" && f.Type == "named" && f.ValueHint == "" && f.Default == "" && len(f.Choices) == 0 {
		return "", true, nil // a flag
	}
	return placeOf(id), true, r.input(f, id)
}

func placeOf(id string) string { return "${input:" + id + "}" }

var inputID = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)

// input notes an input.
func (r *Recipe) input(f Field, id string) error {
	if !inputID.MatchString(id) {
		return fault.New(fault.Usage, "%q is not a valid name of a value", clip.Text(id, 60))
	}
	if !slices.ContainsFunc(r.Inputs, func(in Input) bool { return in.ID == id }) {
		r.Inputs = append(r.Inputs, Input{ID: id, Description: f.Description, Default: f.Default, Secret: f.Secret, Options: f.Choices})
	}
	return nil
}

var curly = regex.Lazy(`\{([A-Za-z0-9_.-]*)\}`)

// fill puts the place of an input where a text has {NAME}. A name without a description is left as
// it is.
func (r *Recipe) fill(text *string, variables map[string]Field, secret bool) error {
	for _, found := range curly.FindAllStringSubmatch(*text, -1) {
		place, id := found[0], found[1]
		f, ok := variables[id]
		if !ok {
			continue
		}
		value := f.Value
		if value == "" {
			f.Secret = f.Secret || secret
			if err := r.input(f, id); err != nil {
				return err
			}
			value = placeOf(id)
		}
		*text = strings.ReplaceAll(*text, place, value)
	}
	return nil
}
