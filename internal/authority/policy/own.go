package policy

import (
	"slices"
	"strings"
)

// Owning returns the chain for a tool with its own folder, such as an extension's
// work folder. The policies' rules for files in the workspace apply to those in dir
// as well, name for name, besides the rules for dir's own path. If the policies deny
// writing in the workspace, the tool cannot write to its folder either. dir is
// absolute, clean and free of links; "" gives the chain as it is.
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

// Running returns the chain for a tool with its own programs in dir, as if dir were
// the last folder of the trusted PATH. Programs of earlier folders take precedence. A
// path into dir is matched by its last name, so this is for tools that call their
// programs by name alone. "" gives the chain as it is.
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

// Carrying returns the chain for a call that can pass on data of these kinds: labels and secrets. The folders that its
// processes keep are for calls with the same data.
func (c Chain) Carrying(data []string) Chain {
	if len(c) == 0 || c[0] == nil || len(data) == 0 {
		return c
	}
	out, first := slices.Clone(c), *c[0]
	first.data = data
	out[0] = &first
	return out
}

// Data returns the data that Carrying was given.
func (c Chain) Data() []string {
	if len(c) == 0 || c[0] == nil {
		return nil
	}
	return c[0].data
}

// Repository is the repository's own folder outside of the workspace, see [Env]; "": there is none.
func (c Chain) Repository() string {
	for _, r := range c {
		if r != nil {
			return r.env.Repository
		}
	}
	return ""
}

// InWorkspace is the path in the workspace as which a path in [Chain.Repository] is judged. Other paths stay as they are.
func (c Chain) InWorkspace(p string) string {
	for _, r := range c {
		if as, ok := r.inRepository(p); ok {
			return as
		}
	}
	return p
}

// owned gives the path in the workspace as which a path in the tool's own folder, or in the workspace's repository,
// is judged.
func (r *Rules) owned(p string) (string, bool) {
	if r.inOwn(p) {
		return strings.TrimSuffix(r.env.Workspace, "/") + p[len(r.own):], true
	}
	return r.inRepository(p)
}

// inOwn reports whether a path is in the tool's own folder.
func (r *Rules) inOwn(p string) bool { return r.own != "" && r.policy != nil && under(r.own, p) }

func (r *Rules) inRepository(p string) (string, bool) {
	if r == nil || r.env.Repository == "" || r.policy == nil || !under(r.env.Repository, p) {
		return "", false
	}
	return strings.TrimSuffix(r.env.Workspace, "/") + "/.git" + p[len(r.env.Repository):], true
}
