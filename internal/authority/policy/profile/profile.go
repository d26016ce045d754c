// Package profile has ready policies for the work that agents are usually given, and for agents of
// other makers that run as a whole in the sandbox. It is pure. Start at [Find] and [FindAgent]; docs/profiles.md shows all of them.
package profile

import (
	"embed"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

//go:embed profiles/*.yaml agents/*.yaml
var files embed.FS

// Profile is a ready policy.
type Profile struct {
	Name   string
	About  string // one sentence: the first line of the source
	Source string // the policy's file
}

// names are the profiles, the usual one first.
var names = []string{"coding", "read-only", "web-research", "data", "ci"}

// Default is the profile that is used if none is chosen.
const Default = "coding"

// All gives all profiles.
func All() ([]Profile, error) {
	var out []Profile
	for _, name := range names {
		p, err := Find(name)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Names lists the names of all profiles.
func Names() []string { return append([]string(nil), names...) }

// Find gives the profile with a name.
func Find(name string) (Profile, error) {
	if slices.Contains(names, name) {
		return load(name, "profiles/"+name+".yaml")
	}
	return Profile{}, fault.New(fault.Usage, "%.40q is not a profile", name).WithHint("expected one of %s", strings.Join(names, ", "))
}

// load reads a profile's file.
func load(name, file string) (Profile, error) {
	src, err := files.ReadFile(file)
	if err != nil {
		return Profile{}, fault.Wrap(fault.Internal, err, "the profile %s is missing", name)
	}
	first, _, _ := strings.Cut(string(src), "\n")
	return Profile{Name: name, About: strings.TrimPrefix(first, "# "), Source: string(src)}, nil
}
