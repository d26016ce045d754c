package servers

import (
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Input is a value that a person gives when a server is imported, as VS Code has them.
type Input struct {
	ID, Description string
	Secret          bool // it is not shown, and kept in the store of secrets
}

var inputPlace = regex.Lazy(`\$\{input:([^}]*)\}`)

// inputsOf reads a file's inputs by ID. Kinds that a person does not type in are left out.
func inputsOf(v any) map[string]Input {
	known, seen := map[string]Input{}, map[string]bool{}
	list, _ := v.([]any)
	for _, one := range list {
		f, _ := one.(map[string]any)
		id, ok := f["id"].(string)
		if !ok || seen[id] || f["type"] != "promptString" {
			delete(known, id) // which of two is meant is not clear
			seen[id] = true
			continue
		}
		seen[id] = true
		text, _ := f["description"].(string)
		shown := f["password"] == nil || f["password"] == false
		known[id] = Input{ID: id, Description: text, Secret: !shown}
	}
	return known
}

// needInputs notes the inputs that the server needs. A secret one may only be a variable: the command
// and the URL are shown and recorded.
func (i *Imported) needInputs(known map[string]Input) error {
	need := func(text string, variable bool) error {
		for _, m := range inputPlace.FindAllStringSubmatch(text, -1) {
			in, ok := known[m[1]]
			switch {
			case !ok:
				return fault.New(fault.Usage, "it needs the input %q, which is not defined in the file as a promptString", clip.Text(m[1], 60))
			case in.Secret && !variable:
				return fault.New(fault.Usage, "its command or URL needs the secret input %q; a secret can only be a variable", clip.Text(in.ID, 60))
			case !slices.Contains(i.Inputs, in):
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
	return nil
}

// Fill puts the values of the inputs, by ID, into the server.
func (i *Imported) Fill(values map[string]string) {
	var pairs, secrets []string
	for _, in := range i.Inputs {
		place := "${input:" + in.ID + "}"
		pairs = append(pairs, place, values[in.ID])
		if in.Secret {
			secrets = append(secrets, place)
		}
	}
	r := strings.NewReplacer(pairs...)
	for n, word := range i.Server.Command {
		i.Server.Command[n] = r.Replace(word)
	}
	i.Server.URL = r.Replace(i.Server.URL)
	for name, value := range i.Server.Env {
		if slices.ContainsFunc(secrets, func(place string) bool { return strings.Contains(value, place) }) {
			i.secret = append(i.secret, name)
		}
		i.Server.Env[name] = r.Replace(value)
	}
}
