package sandbox

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// keep finds the writable folders in which the policy does not let everything be
// deleted, and the folders in them in which it does. The kernel can only tell whole
// folders apart, so a folder is kept where it is not certain that all in it may be deleted.
func (c *compiler) keep() {
	if !c.in.Chain.PartsDeleting() {
		return
	}
	links := c.in.Chain.Files(tool.FileDelete)
	for i := range c.out.Mounts {
		m := &c.out.Mounts[i]
		held := c.in.Held != "" && Within(m.Path, c.in.Held) // its deletions are decided when they are applied
		if m.Kind != Bind || !m.Folder || held || m.System || m.From != "" || m.Access&WriteOnly == 0 || c.deletable(links, m.Path) {
			continue
		}
		m.Keeps = true
		if Within(m.Path, "/tmp") {
			c.note("since the workspace is in /tmp, files of the command's own directly in /tmp cannot be deleted either; those in HOME can")
		}
		c.note("what a command may not delete, it cannot rename or replace by renaming either; a folder that is writable and of which a part must stay is kept as a whole")
		for _, root := range removable(links, m.Path) {
			if _, top := Cover(c.out.Mounts, root); top == m && !slices.Contains(c.out.Removable, root) {
				c.out.Removable = append(c.out.Removable, root)
			}
		}
	}
}

// deletable decides about the tool's own folder as about any other path.
func (c *compiler) deletable(links []policy.Link, folder string) bool {
	if c.owned(folder) {
		p := path.Join(folder, AnyName)
		return c.in.Chain.DecideAction(tool.Action{Kind: tool.FileDelete, Path: p, Real: p}).Effect == policy.Allow
	}
	return deletable(links, folder)
}

// removable are the folders in a folder that allow patterns name whole.
func removable(links []policy.Link, folder string) (out []string) {
	for _, l := range links {
		for _, a := range l.Allow {
			if Within(a.Base, folder) && deletable(links, a.Base) {
				out = append(out, a.Base)
			}
		}
	}
	return out
}

// deletable reports whether the policies certainly let everything in a folder be deleted.
// Names that an entry must spell do not count: they are mounts of their own.
func deletable(links []policy.Link, folder string) bool {
	return len(links) > 0 && !slices.ContainsFunc(links, func(l policy.Link) bool {
		whole := slices.ContainsFunc(l.Allow, func(a policy.FilePattern) bool { return a.Exact && a.Deep && Within(folder, a.Base) })
		return !l.Inherits && (!whole || slices.ContainsFunc(l.Deny, func(pattern string) bool { return meets(pattern, folder) }))
	})
}

// meets reports whether a deny pattern could match something in a folder, or the folder.
func meets(pattern, folder string) bool {
	if i := strings.IndexAny(pattern, `*?[{\\`); i >= 0 {
		pattern = "/" + strings.Trim(pattern[:strings.LastIndexByte(pattern[:i], '/')+1], "/")
	}
	for _, s := range []string{pattern, folder} {
		if strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) {
			return true // such names are matched by more than their letters
		}
	}
	pattern, folder = strings.ToLower(pattern), strings.ToLower(folder)
	return Within(pattern, folder) || Within(folder, pattern)
}
