package sandbox

import (
	"path"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
)

// The gaps of a weaker isolation, for people.
var (
	landlockNotes = []string{
		"isolation is landlock, weaker than full: the command shares the machine's file tree, process list and network",
		"names, sizes and times of files anywhere can be seen; modes, owners, times and attributes of files cannot be changed",
		"there are no sockets at all: network rules need full isolation",
		"/tmp is not private: TMPDIR and HOME are a folder of the host's, without a quota, that is removed afterwards",
		"the command's processes are looked for and killed one by one",
	}
	seatbeltNotes = []string{
		"isolation is seatbelt, weaker than full: the command shares the machine's file tree, and its process and user numbers",
		"what is out of sight cannot be opened or listed, but an error can tell whether a name is there; an emptied folder cannot be listed",
		"/tmp is not private, and cannot be used: TMPDIR and HOME are a folder of the host's, without a quota, that is removed afterwards",
		"no port can be listened on, and no Unix socket is reached; the proxy's port is the one way to any network",
		"a process that leaves the command's process group and whose parent has ended outlives the command, confined and without a network",
	}
	noneNotes = []string{
		"isolation is none: the rules of files and network do not hold for what the command does",
		"the command's processes are looked for and killed one by one",
	}
)

// weaken makes the profile of a weaker isolation.
func (c *compiler) weaken() {
	c.out.Proxy, c.out.Connects = false, false
	c.out.Isolation = c.in.Isolation
	if c.in.Isolation == policy.NoIsolation {
		c.out.Notes = slices.Clone(noneNotes)
		return
	}
	c.out.Notes = slices.Clone(landlockNotes)
	c.out.Mounts = append(c.out.Mounts, c.in.System...)
	trees := c.in.Trees
	if c.in.Own != nil {
		trees = append(slices.Clip(trees), c.in.Own)
	}
	for _, t := range trees {
		whole, a, parts := c.grants(t, true)
		if whole && a != NoAccess {
			parts = []Mount{{Path: t.Path, Access: a, Folder: t.Kind == FolderNode}}
		}
		c.out.Mounts = append(c.out.Mounts, parts...)
	}
	if _, over := Cover(c.in.System, c.in.Exe); c.in.Exe != "" && over == nil {
		c.out.Mounts = append(c.out.Mounts, Mount{Path: c.in.Exe, Access: ReadOnly})
	}
}

// grants returns the rules that show the allowed part of a node. None takes something
// back: Landlock's rules only add up on the way to a file. whole: one rule, with access
// a, is enough.
func (c *compiler) grants(n *Node, top bool) (whole bool, a Access, parts []Mount) {
	switch n.Kind {
	case FileNode:
		return true, c.access(n.Path), nil
	case LinkNode: // where it leads is decided there
		return true, c.access(n.Path), nil
	case SpecialNode:
		return false, NoAccess, nil
	}
	switch {
	case n.System: // it has a rule already
		return true, ReadOnly, nil
	case !top && (n.Path == "/tmp" || slices.Contains(ownFolders, n.Path)):
		return false, NoAccess, nil
	case !n.Complete:
		c.unlisted = append(c.unlisted, n.Path)
		return true, NoAccess, nil
	}
	a = c.access(path.Join(n.Path, AnyName))
	if !top {
		a &= c.access(n.Path)
	}
	whole = n.Path != "/"
	for _, child := range n.Children {
		one, b, below := c.grants(child, false)
		switch {
		case !one:
			whole = false
			parts = append(parts, below...)
		default:
			whole = whole && a == b
			if child.Kind != LinkNode && b != NoAccess {
				parts = append(parts, Mount{Path: child.Path, Access: b, Folder: child.Kind == FolderNode})
			}
		}
	}
	if whole {
		return true, a, nil
	}
	if a != NoAccess {
		c.note("a folder of which a part is denied cannot be listed, and new names in it are out of reach")
	}
	return false, NoAccess, parts
}
