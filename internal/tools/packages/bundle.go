package packages

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Bundle is the kind of a bundle: an MCPB or DXT file, which has a server with all that it needs.
const Bundle Kind = "mcpb"

// MaxManifest bounds the manifest of a bundle, in bytes.
const MaxManifest = 1 << 20

// Manifest is what the manifest.json of a bundle says about its server.
type Manifest struct {
	Name, Version string
	Program       string // the file that is run, relative to the bundle
	// Command and Env start the server. A value that the person gives is the place ${input:ID}.
	Recipe Recipe
	// Lists are the inputs with several values, Folders those that name folders.
	Lists, Folders []string
}

// setting is a value that a bundle wants from its user.
type setting struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Multiple    bool   `json:"multiple"`
	Sensitive   bool   `json:"sensitive"`
	Default     any    `json:"default"`
}

// launch says how a bundle's server is started.
type launch struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

type manifestJSON struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Server  struct {
		Type   string `json:"type"`
		Entry  string `json:"entry_point"`
		Config struct {
			launch
			Platforms map[string]launch `json:"platform_overrides"`
		} `json:"mcp_config"`
	} `json:"server"`
	Settings map[string]setting `json:"user_config"`
}

var bundleName = regex.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func badManifest(format string, args ...any) error {
	return fault.New(fault.Usage, "the bundle's manifest.json cannot be used: "+format, args...)
}

// ReadManifest reads the manifest of a bundle that is unpacked at dir, for a platform (linux,
// darwin). Given has the inputs that the person answers in any case: a value that is not required
// and has no default is left out otherwise.
func ReadManifest(src []byte, dir, platform string, given map[string]string) (*Manifest, error) {
	if len(src) > MaxManifest {
		return nil, badManifest("it has more than %d MiB", MaxManifest>>20)
	}
	if _, err := canon.Decode(src); err != nil {
		return nil, badManifest("%v", err)
	}
	var f manifestJSON
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, badManifest("%v", err)
	}
	m := &Manifest{Name: f.Name, Version: f.Version, Program: path.Clean(f.Server.Entry)}
	how := f.Server.Config.launch
	if own, ok := f.Server.Config.Platforms[platform]; ok {
		how = how.merge(own)
	}
	switch {
	case (&Request{Kind: Bundle, Name: m.Name, Version: m.Version}).Check() != nil || m.Version == "":
		return nil, badManifest("it has no valid name and version")
	case !local(f.Server.Entry):
		return nil, badManifest("its entry_point %q is not a file of the bundle", clip.Text(f.Server.Entry, 60))
	case len(how.Args) > maxFields || len(how.Env) > maxFields || len(f.Settings) > maxFields:
		return nil, badManifest("it has more than %d arguments, variables or settings", maxFields)
	}
	r := bundleReader{m: m, dir: dir, settings: f.Settings, given: given}
	m.Recipe = Recipe{Env: map[string]string{}}
	if err := r.command(f.Server.Type, how); err != nil {
		return nil, err
	}
	return m, nil
}

// merge is l with what another launch sets.
func (l launch) merge(own launch) launch {
	if own.Command != "" {
		l.Command = own.Command
	}
	if own.Args != nil {
		l.Args = own.Args
	}
	env := maps.Clone(l.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, own.Env)
	l.Env = env
	return l
}

// local reports whether a path names a file below the folder that it is relative to.
func local(name string) bool {
	clean := path.Clean(name)
	return name != "" && clean != "." && clean != ".." && !strings.HasPrefix(clean, "../") && !path.IsAbs(clean) && !strings.ContainsAny(name, "\\\x00")
}

// bundleReader fills in the places of a manifest.
type bundleReader struct {
	m        *Manifest
	dir      string
	settings map[string]setting
	given    map[string]string
}

// command reads how the server is started: by a program of the bundle, or by node or python3 of
// this machine.
func (r *bundleReader) command(kind string, how launch) error {
	program := how.Command
	switch {
	case kind == "node" && program == "node", kind == "python" && program == "python3":
	case kind == "python" && program == "python":
		program = "python3"
	case kind == "binary":
		at, ok := strings.CutPrefix(program, "${__dirname}/")
		if !ok || !local(at) {
			return badManifest("its command %q is not a file of the bundle", clip.Text(program, 60))
		}
		program = path.Join(r.dir, at)
	case kind == "uv":
		return badManifest("its Python packages are fetched when it starts, which the sandbox does not allow; add its package with uvx")
	default:
		return badManifest("a server of type %q with the command %q is not supported; expected node, python or binary", clip.Text(kind, 20), clip.Text(program, 60))
	}
	r.m.Recipe.Command = append(r.m.Recipe.Command, program)
	for _, arg := range how.Args {
		text, ok, err := r.fill(arg, true)
		if err != nil {
			return err
		}
		if ok {
			r.m.Recipe.Command = append(r.m.Recipe.Command, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(how.Env)) {
		text, ok, err := r.fill(how.Env[name], false)
		if err != nil {
			return err
		}
		if ok {
			r.m.Recipe.Env[name] = text
		}
	}
	return r.libraries()
}

// pythonStart runs a script with folders of libraries, since no command is given PYTHONPATH.
const pythonStart = "import os, runpy, sys; libraries = sys.argv[1].split(':'); sys.argv = sys.argv[2:]; " +
	"sys.path[:1] = [os.path.dirname(sys.argv[0])] + libraries; runpy.run_path(sys.argv[0], run_name='__main__')"

// libraries puts the folders of PYTHONPATH into the command. They must be the bundle's.
func (r *bundleReader) libraries() error {
	c := &r.m.Recipe
	folders, ok := c.Env["PYTHONPATH"]
	if !ok || c.Command[0] != "python3" {
		return nil
	}
	for dir := range strings.SplitSeq(folders, ":") {
		if dir != path.Clean(dir) || dir != r.dir && !strings.HasPrefix(dir, strings.TrimSuffix(r.dir, "/")+"/") {
			return badManifest("its PYTHONPATH has a folder that is not in the bundle")
		}
	}
	if len(c.Command) < 2 || strings.HasPrefix(c.Command[1], "-") {
		return badManifest("it sets PYTHONPATH, and its first argument is not a script")
	}
	delete(c.Env, "PYTHONPATH")
	c.Command = append([]string{"python3", "-c", pythonStart, folders}, c.Command[1:]...)
	return nil
}

var bundlePlace = regex.Lazy(`\$\{([^}]*)\}`)

// fill replaces the places of a text; false: it is left out, for the person gives no value.
func (r *bundleReader) fill(text string, word bool) (string, bool, error) {
	out, left := text, false
	for _, found := range bundlePlace.FindAllStringSubmatch(text, -1) {
		place, name := found[0], found[1]
		id, isSetting := strings.CutPrefix(name, "user_config.")
		value := ""
		switch {
		case name == "__dirname":
			value = r.dir
		case name == "/" || name == "pathSeparator":
			value = "/"
		case isSetting:
			ok, err := r.setting(id, word && place == text)
			if err != nil {
				return "", false, err
			}
			left = left || !ok
			value = placeOf(id)
		default:
			return "", false, badManifest("the place %q is not known", clip.Text(place, 60))
		}
		out = strings.ReplaceAll(out, place, value)
	}
	return out, !left, nil
}

// setting notes a value that the person gives; whole: it is a word of the command by itself. False:
// it is left out.
func (r *bundleReader) setting(id string, whole bool) (bool, error) {
	s, ok := r.settings[id]
	preset, isList := defaultOf(s.Default)
	switch {
	case !ok:
		return false, badManifest("the setting %q is not described", clip.Text(id, 60))
	case s.Multiple && !whole:
		return false, badManifest("the setting %q has several values within one word", clip.Text(id, 60))
	case isList && !s.Multiple:
		return false, badManifest("the setting %q has several values", clip.Text(id, 60))
	}
	if strings.Contains(preset, "${") { // a folder of some machine
		preset = ""
	}
	if _, answered := r.given[id]; !answered && !s.Required && preset == "" {
		return false, nil
	}
	if s.Multiple && !slices.Contains(r.m.Lists, id) {
		r.m.Lists = append(r.m.Lists, id)
	}
	if s.Type == "directory" && !slices.Contains(r.m.Folders, id) {
		r.m.Folders = append(r.m.Folders, id)
	}
	text := s.Title
	if s.Description != "" {
		text = s.Description
	}
	return true, r.m.Recipe.input(Field{Description: text, Default: preset, Secret: s.Sensitive}, id)
}

// defaultOf is a setting's default as a text; several values are joined by colons.
func defaultOf(v any) (text string, isList bool) {
	switch v := v.(type) {
	case string:
		return v, false
	case bool:
		return strconv.FormatBool(v), false
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), false
	case []any:
		var all []string
		for _, one := range v {
			if s, ok := one.(string); ok {
				all = append(all, s)
			}
		}
		return strings.Join(all, ":"), true
	}
	return "", false
}

// LockBundle is the lock file of a bundle: its hash.
func LockBundle(name, version, sha256 string) ([]byte, error) {
	out, err := json.MarshalIndent(pypiLock{Kind: Bundle, Packages: []pypiLockedItem{{Name: name, Version: version, SHA256: sha256}}}, "", "  ")
	return append(out, '\n'), err
}
