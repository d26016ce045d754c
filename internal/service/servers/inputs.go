package servers

import (
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/tools/packages"
)

// Input is a value that a person gives when a server is imported, as VS Code has them.
type Input packages.Input

// Check reports a value that is not one of the options.
func (in Input) Check(value string) error {
	if len(in.Options) > 0 && !slices.Contains(in.Options, value) {
		return fault.New(fault.Usage, "%q is not a value of the input %q", clip.Text(value, 60), in.ID).WithHint("one of %s", strings.Join(in.Options, ", "))
	}
	return nil
}

func inputPlaceOf(id string) string { return "${input:" + id + "}" }

var inputPlace = regex.Lazy(`\$\{input:([^}]*)\}`)

// inputsOf reads a file's inputs by ID. Kinds that a person does not type in are left out.
func inputsOf(v any) map[string]Input {
	known, seen := map[string]Input{}, map[string]bool{}
	list, _ := v.([]any)
	for _, one := range list {
		f, _ := one.(map[string]any)
		id, ok := f["id"].(string)
		options, picks := optionsOf(f)
		if !ok || seen[id] || f["type"] != "promptString" && !picks {
			delete(known, id) // the intended one of two is not clear
			seen[id] = true
			continue
		}
		seen[id] = true
		text, _ := f["description"].(string)
		shown := f["password"] == nil || f["password"] == false
		value, _ := f["default"].(string)
		known[id] = Input{ID: id, Description: text, Secret: !shown && !picks, Default: value, Options: options}
	}
	return known
}

// optionsOf gives the options of a pickString.
func optionsOf(f map[string]any) (options []string, ok bool) {
	list, _ := f["options"].([]any)
	for _, one := range list {
		if labelled, is := one.(map[string]any); is {
			one = labelled["value"]
		}
		text, is := one.(string)
		if !is {
			return nil, false
		}
		options = append(options, text)
	}
	return options, f["type"] == "pickString" && len(options) > 0
}

// needInputs notes the inputs that the server needs. A secret one may only be a variable: the command
// and the URL are shown and recorded.
func (i *Imported) needInputs(known map[string]Input) error {
	if len(i.variables) > 0 {
		known = maps.Clone(known)
	}
	for _, in := range i.variables {
		known[in.ID] = in
	}
	need := func(text string, variable bool) error {
		for _, m := range inputPlace.FindAllStringSubmatch(text, -1) {
			in, ok := known[m[1]]
			switch {
			case !ok:
				return fault.New(fault.Usage, "it needs the input %q, which is not defined in the file as a promptString or pickString", clip.Text(m[1], 60))
			case in.Secret && !variable:
				return fault.New(fault.Usage, "its command or URL needs the secret input %q; a secret can only be a variable or a header", clip.Text(in.ID, 60))
			case !slices.ContainsFunc(i.Inputs, func(other Input) bool { return other.ID == in.ID }):
				i.Inputs = append(i.Inputs, in)
			}
		}
		return nil
	}
	for _, text := range append(slices.Clone(i.Server.Command), i.Server.URL) {
		if err := need(text, false); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Server.Env)) {
		if err := need(i.Server.Env[name], true); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Headers)) {
		if err := need(i.Headers[name], true); err != nil {
			return err
		}
	}
	return nil
}

// Fill puts the values of the inputs, by ID, into the server.
func (i *Imported) Fill(values map[string]string) {
	var pairs, secrets []string
	for _, in := range i.Inputs {
		place := inputPlaceOf(in.ID)
		pairs = append(pairs, place, values[in.ID])
		if in.Secret {
			secrets = append(secrets, place)
		}
	}
	r := strings.NewReplacer(pairs...)
	i.bundle.take(values)
	var command []string
	for _, word := range i.Server.Command {
		if several, ok := i.bundle.several(word, values); ok {
			command = append(command, several...)
			continue
		}
		command = append(command, r.Replace(word))
	}
	i.Server.Command = command
	i.Server.URL = r.Replace(i.Server.URL)
	for name, value := range i.Server.Env {
		if slices.ContainsFunc(secrets, func(place string) bool { return strings.Contains(value, place) }) {
			i.secret = append(i.secret, name)
		}
		i.Server.Env[name] = r.Replace(value)
	}
	for name, value := range i.Headers {
		i.Headers[name] = r.Replace(value)
	}
}

// ReadServerJSON reads the entry of an MCP registry as a server of this name. Kind picks an
// entry (npm, pypi or remote; "": the first that can be used), given has the answers that
// are known.
func ReadServerJSON(file, name, kind string, given map[string]string) (Imported, error) {
	i := Imported{Label: name}
	src, err := wholefile.Read(file, packages.MaxServerJSON)
	if err != nil {
		return i, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	s, err := packages.ReadServerJSON(src)
	if err != nil {
		return i, err
	}
	e, err := s.Pick(kind)
	if err != nil {
		return i, err
	}
	r, err := e.Recipe(given)
	if err != nil {
		return i, err
	}
	i.Server, i.Headers = Server{Name: name, Command: r.Command, URL: r.URL, Env: r.Env}, r.Headers
	if e.BaseURL != "" {
		i.Dropped = append(i.Dropped, "registryBaseUrl: packages come from the registry of your own configuration")
	}
	known := map[string]Input{}
	for _, in := range r.Inputs {
		known[in.ID] = Input(in)
	}
	return i, i.needInputs(known)
}
