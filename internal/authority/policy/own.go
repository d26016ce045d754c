package policy

import (
	"slices"
	"strings"
)

// Owning gives the chain as it holds for a tool that has a folder of its own,
// such as an extension's work folder: what the policies say of files in the
// workspace they say of those in dir as well, name for name, besides what they
// say of dir's own path. It opens nothing that they do not open in the workspace:
// where they deny all writing there, the tool cannot write to its folder either.
// dir is absolute, clean and free of links; "" gives the chain as it is.
func (c Chain) Owning(dir string) Chain {
	if dir == "" {
		return c
	}
	out := slices.Clone(c)
	for i, r := range out {
		if r != nil {
			own := *r
			own.own = dir
			out[i] = &own
		}
	}
	return out
}

// Running gives the chain as it holds for a tool with programs of its own, in dir: as
// if dir were the last folder of the trusted PATH. A name that is found before means
// what it means for every other call. A path into dir is covered by its last name, so
// it is for tools that call their programs by name alone. "" gives the chain as it is.
func (c Chain) Running(dir string) Chain {
	if dir == "" {
		return c
	}
	out := slices.Clone(c)
	for i, r := range out {
		if r != nil {
			own := *r
			own.path = append(slices.Clip(r.path), dir)
			own.env.Path = append(slices.Clip(r.env.Path), dir)
			out[i] = &own
		}
	}
	return out
}

// Own is the folder that Owning was given, "" if there is none.
func (c Chain) Own() string {
	for _, r := range c {
		if r != nil {
			return r.own
		}
	}
	return ""
}

// owned gives the path in the workspace as which a path in the tool's own folder
// is judged.
func (r *Rules) owned(p string) (string, bool) {
	if r.own == "" || r.policy == nil {
		return "", false
	}
	rest, ok := strings.CutPrefix(p, r.own)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimSuffix(r.env.Workspace, "/") + rest, true
}
