package sandbox

import (
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// NodeKind is the type of a surveyed file.
type NodeKind uint8

// The kinds of nodes.
const (
	FileNode NodeKind = iota
	FolderNode
	LinkNode
	SpecialNode // a socket, FIFO or device
)

// Node is one name that the survey of the host's files found.
type Node struct {
	Path     string // absolute, no link in it
	Kind     NodeKind
	Children []*Node
	// Target is where a link leads in the end, or "": that is not known.
	Target string
	// Complete says that Children are all there are, but for names that the policies
	// do not tell from new ones (see [Names]). The content of an incomplete folder
	// stays out of sight.
	Complete bool
	System   bool // it is a folder of the minimal system, which is shown whole
}

// folder reports whether a path is a folder below n that is known.
func (n *Node) folder(p string) bool {
	return slices.ContainsFunc(n.Children, func(c *Node) bool { return c.Kind == FolderNode && (c.Path == p || c.folder(p)) })
}

// Inputs is all that a profile depends on: the policy's answers, and the facts
// that were gathered before.
type Inputs struct {
	Chain    policy.Chain
	Limits   policy.Limits
	Trees    []*Node  // survey of the folders that the policy could allow something in
	System   []Mount  // the system's folders that are there
	Image    *Image   // whose system that is; nil: the machine's
	Dir, Exe string   // of the command; link-free
	Held     string   // the workspace of a held run: nothing outside of it can be written
	State    string   // Remit's own folder, never visible but for Own
	Own      *Node    // survey of the tool's own folder (policy.Chain.Own); nil: it has none
	Folder   string   // on the host, of a folder that is at FolderAt and may be written; "": none
	Home     string   // on the host, of the folder that is at HomeAt; "": an empty one of the sandbox's own
	Proxy    bool     // there can be a proxy
	Services []string // of the command, see Command.Services
	Publish  []Port

	Isolation  policy.Isolation // of the command
	Supervised bool             // see Profile.Supervised
	Seatbelt   bool             // of macOS, where isolation is landlock
}

// Profile lists the files, limits and connections that a command gets. It is computed purely from
// [Inputs]. Nothing else exists for the command.
type Profile struct {
	Mounts []Mount
	Dir    string   // the working folder
	Env    []string // names of variables that are passed on
	Path   []string // the trusted PATH

	// Proxy: a proxy on 127.0.0.1 is the one way to any network. It decides each
	// connection by the policy's network rules, and records what it refuses.
	// Connects: those rules could allow one.
	Proxy, Connects bool

	// Sockets are the paths of the host's Unix sockets that the policy names. Each is a mount of
	// kind Socket, served by the proxy. Services are mounts of this kind, too, which Remit serves.
	Sockets, Services []string

	Publish []Port // see Command.Publish

	// Removable are folders, in mounts that keep their names (Mount.Keeps), in which everything can be removed.
	Removable []string

	// Isolation is what confines the command. Where it is not full, a mount is a
	// Landlock rule, or nothing.
	Isolation policy.Isolation

	// Supervised: the policy decides about each path when the command uses it. The mounts only show the
	// folders that the policy names.
	Supervised bool

	// Seatbelt: macOS confines the command. A mount is a set of rules about its path, and a
	// rule wins over those before it.
	Seatbelt bool

	// Image is the digest of the image that the system comes from; "": the machine's own.
	Image string

	// Session: the sandbox stays, and the next command of this very profile is
	// started in it. Else the sandbox is this command's own.
	Session bool

	// Standard: more of the system is there than programs need to run at all, and
	// the loopback interface works.
	Standard bool

	Git string // settings of the person's Git that the command gets, see repository.Personal

	Memory    int64 // bytes of data a process may have
	Together  int64 // bytes of all its processes and private files together, where a control group can count them; 0: half of the machine's
	Disk      int64 // bytes of files in /tmp, which is also HOME
	Processes int
	FileSize  int64         // bytes of one written file
	CPU       time.Duration // of one process; 0: no limit
	OpenFiles int           // of one process

	Notes []string // rules of the policy that the kernel does not enforce to the letter
}

// maxMounts bounds the mounts of one sandbox, and with them its start.
const maxMounts = 4000

// AnyName stands for any name that is not there yet.
const AnyName = "remit-7f3a9c51-any-other-name"

// Compile computes the profile. A path is readable (writable) only if the whole
// chain allows reading (writing) it; where the kernel's means are too coarse,
// the profile is stricter than the policy and says so.
func Compile(in Inputs) (Profile, error) {
	l := WithDefaults(in.Limits)
	c := compiler{in: in}
	c.out = Profile{Dir: in.Dir, Env: slices.Clone(l.Env), Path: slices.Clone(l.Path), Memory: l.Memory,
		Processes: l.Processes, FileSize: l.WriteBytes, Disk: l.Disk, CPU: l.CPU, OpenFiles: l.OpenFiles,
		Standard: in.Chain.StandardSystem()}
	c.out.Proxy, c.out.Connects = in.Proxy, in.Proxy && in.Chain.Connects()
	if in.Chain.Limits().Memory > 0 {
		c.out.Together = l.Memory
	}
	if c.out.FileSize <= 0 {
		c.out.FileSize = l.Memory
	}
	switch {
	case in.Isolation == policy.FullIsolation:
		c.out.Supervised = in.Supervised
		c.mounts()
		c.sockets()
	case in.Seatbelt:
		c.out.Isolation, c.out.Seatbelt, c.out.Notes = in.Isolation, true, slices.Clone(seatbeltNotes)
		c.mounts()
	default:
		c.weaken()
	}
	if !in.Supervised {
		c.keep()
	}
	c.noteUnseen()
	if in.Image != nil {
		c.out.Image = in.Image.Digest
		for _, name := range in.Image.Hidden {
			c.note(fmt.Sprintf("what the image has in %q is out of sight: the machine's folder is needed there", "/"+name))
		}
	}
	if n := len(c.out.Mounts); n > maxMounts {
		c.out.Mounts = c.out.Mounts[:0]
		return c.out, fault.New(fault.SandboxMissing, "no sandbox can be made: the policy's file rules tell so many of the files that are there apart that it needs %d mounts, more than %d", n, maxMounts).
			WithHint("deny or allow whole folders instead of names in them, or move files such as keys into one folder")
	}
	for _, m := range c.out.Mounts {
		if !in.Supervised && !m.System && m.From == "" && m.Folder && m.Access&WriteOnly != 0 {
			c.note("names that do not exist yet can be created in writable folders also where files.write denies them by name")
		}
	}
	return c.out, nil
}

// noteUnseen notes the folders that are out of sight because they cannot be listed.
func (c *compiler) noteUnseen() {
	switch n := len(c.unlisted); n {
	case 0:
	case 1:
		c.note(fmt.Sprintf("%q is out of sight: not listable", c.unlisted[0]))
	default:
		c.note(fmt.Sprintf("%q and %d other folders are out of sight: not listable", c.unlisted[0], n-1))
	}
}

// Confinement is the word for what confines the command.
func (p Profile) Confinement() string {
	if p.Seatbelt {
		return "seatbelt"
	}
	return p.Isolation.String()
}

// mounts computes the mounts of full isolation, and of Seatbelt.
func (c *compiler) mounts() {
	in := c.in
	c.out.Mounts = append(c.out.Mounts, in.System...)
	for _, t := range in.Trees {
		if in.Image.Has(t.Path) {
			c.note(fmt.Sprintf("%q is the image's, not the machine's", t.Path))
			continue
		}
		at := scope{}
		if _, under := Cover(in.System, t.Path); under != nil {
			at = at.bound(under.Access)
		}
		if !at.covered || t.Path != "/" {
			c.out.Mounts = append(c.out.Mounts, c.tree(t, at, true)...)
		}
	}
	if in.State != "" {
		if visible, _ := c.visible(in.State); visible {
			c.out.Mounts = append(c.out.Mounts, Mount{Path: in.State, Kind: Mask, Folder: true})
		}
	}
	c.own()
	if in.Folder != "" {
		c.out.Mounts = append(c.out.Mounts, Mount{Path: FolderAt, From: in.Folder, Access: ReadWrite, Folder: true})
	}
	if in.Home != "" {
		c.out.Mounts = append(c.out.Mounts, Mount{Path: HomeAt, From: in.Home, Access: ReadWrite, Folder: true})
	}
	if visible, _ := c.visible(in.Exe); in.Exe != "" && !visible {
		c.out.Mounts = append(c.out.Mounts, Mount{Path: in.Exe, Access: ReadOnly, From: in.Image.From(in.Exe)})
	}
}

// sockets puts sockets in the place of the host's that the policy names.
func (c *compiler) sockets() {
	if !c.in.Proxy {
		return
	}
	c.out.Publish = c.in.Publish
	for _, at := range c.in.Services {
		c.out.Services = append(c.out.Services, at)
		c.out.Mounts = append(c.out.Mounts, Mount{Path: at, Kind: Socket})
	}
	if c.in.Chain.Agent() {
		c.out.Sockets = append(c.out.Sockets, AgentAt)
		c.out.Mounts = append(c.out.Mounts, Mount{Path: AgentAt, Kind: Socket})
	}
	for _, at := range c.in.Chain.Sockets() {
		_, over := Cover(c.out.Mounts, at)
		own := func(folder string) bool { return folder != "" && Within(at, folder) }
		switch {
		case slices.ContainsFunc(append(slices.Clip(ownFolders), c.in.State), own):
			c.note(fmt.Sprintf("the socket %q is never shown", at))
			continue
		case over != nil && (over.Kind == Bind || over.Kind == Socket):
			c.note(fmt.Sprintf("the socket %q is not there", at))
			continue
		case over != nil && over.Kind == Mask && over.Path != at:
			over.Kind = Hollow // the socket is made in it
		}
		c.out.Sockets = append(c.out.Sockets, at)
		c.out.Mounts = append(c.out.Mounts, Mount{Path: at, Kind: Socket})
	}
}

// own shows the tool's own folder, wherever it is.
func (c *compiler) own() {
	if c.in.Own == nil {
		return
	}
	list := c.tree(c.in.Own, scope{}, true)
	if len(list) == 0 {
		return
	}
	for i := range c.out.Mounts {
		if m := &c.out.Mounts[i]; m.Kind == Mask && Within(c.in.Own.Path, m.Path) {
			m.Kind = Hollow // a folder is made in it
		}
	}
	c.out.Mounts = append(c.out.Mounts, list...)
}

type compiler struct {
	in  Inputs
	out Profile

	unlisted []string // folders that could not be listed
}

// ownFolders are always the sandbox's own.
var ownFolders = []string{"/proc", "/sys", "/dev"}

// scope is what surrounds a node: nothing yet, or a mount that shows it.
type scope struct {
	covered  bool
	access   Access
	readable bool // something around it is readable, however far out
}

// bound is the scope inside a mount.
func (s scope) bound(a Access) scope {
	return scope{covered: true, access: a, readable: s.readable || a&ReadOnly != 0}
}

func (c *compiler) note(s string) {
	if !slices.Contains(c.out.Notes, s) {
		c.out.Notes = append(c.out.Notes, s)
	}
}

// access asks the policy about one path.
func (c *compiler) access(p string) Access {
	for _, never := range append(slices.Clip(ownFolders), c.in.State) {
		if never != "" && Within(p, never) && !(never == c.in.State && c.owned(p)) {
			return NoAccess
		}
	}
	var a Access
	for kind, bit := range map[tool.ActionKind]Access{tool.FileRead: ReadOnly, tool.FileWrite: WriteOnly} {
		if bit == WriteOnly && c.in.Held != "" && !Within(p, c.in.Held) && !c.owned(p) {
			continue
		}
		d := c.in.Chain.DecideAction(tool.Action{Kind: kind, Path: p, Real: p})
		switch d.Effect {
		case policy.Allow:
			a |= bit
		case policy.Ask:
			if c.in.Supervised {
				continue
			}
			c.note("files that the policy asks about count as denied inside a command")
		}
	}
	return a
}

// possible is the access that the policy could give to something in a folder, apart from the folders in it that
// get a mount of their own.
func (c *compiler) possible(n *Node) (a Access) {
	if c.owned(n.Path) {
		return c.access(path.Join(n.Path, AnyName))
	}
	for kind, bit := range map[tool.ActionKind]Access{tool.FileRead: ReadOnly, tool.FileWrite: WriteOnly} {
		if n.Path == "/" || bit == WriteOnly && c.in.Held != "" && !Within(n.Path, c.in.Held) {
			continue
		}
		at := c.in.Chain.InWorkspace(n.Path)
		meets := func(root string) bool { return Within(at, root) || Within(root, at) && !n.folder(root) }
		if slices.ContainsFunc(PossibleRoots(c.in.Chain, kind), meets) && c.everyLink(kind, at) {
			a |= bit
		}
	}
	return a
}

// everyLink reports whether no policy of the chain rules out that something in a folder is used.
func (c *compiler) everyLink(kind tool.ActionKind, folder string) bool {
	return !slices.ContainsFunc(c.in.Chain.Files(kind), func(l policy.Link) bool {
		return !l.Inherits && !slices.ContainsFunc(append(slices.Clip(l.Allow), l.Ask...), func(p policy.FilePattern) bool {
			return Within(folder, p.Base) || Within(p.Base, folder)
		})
	})
}

// owned reports whether a path is in the tool's own folder.
func (c *compiler) owned(p string) bool { return c.in.Own != nil && Within(p, c.in.Own.Path) }

// fit makes an access fit for a place: Landlock's rules add up on the way to a
// file, so a file can be writable and not readable only where no folder around it
// is readable.
func (c *compiler) fit(p string, a Access, at scope) Access {
	readable := at.readable
	for _, always := range []string{"/tmp", "/etc"} {
		readable = readable || Within(p, always)
	}
	if a == WriteOnly && readable {
		c.note("what may be written and not read inside a readable folder is out of sight")
		return NoAccess
	}
	return a
}

// tree returns the mounts that show one folder and its content as the policy allows.
func (c *compiler) tree(n *Node, at scope, top bool) []Mount {
	if n.Kind != FolderNode {
		return c.leaf(n, at)
	}
	other, pinned := NoAccess, false
	switch {
	case n.System && at.covered && !top:
		return []Mount{{Path: n.Path, Access: ReadOnly, Folder: true, System: true}}
	case n.System || !top && (n.Path == "/tmp" || slices.Contains(ownFolders, n.Path)):
		return nil // it is there already
	case !n.Complete:
		c.unlisted = append(c.unlisted, n.Path)
	case c.in.Supervised:
		other = c.possible(n)
	case n.Path != "/":
		other = c.access(path.Join(n.Path, AnyName))
		if own := c.access(n.Path); !top && at.covered && at.access != NoAccess {
			// A folder that may be filled and not replaced, such as .git, is a mount
			// of its own: nobody can rename or remove that.
			pinned = other&^own&WriteOnly != 0
			other &= own | WriteOnly
		}
	}
	other = c.fit(n.Path, other, at)
	var out []Mount
	inside := at
	switch {
	case at.covered && other == at.access && n.Path != c.in.Held && !pinned:
	case other != NoAccess:
		out = append(out, Mount{Path: n.Path, Access: other, Folder: true})
		inside = at.bound(other)
	case at.covered:
		out = append(out, Mount{Path: n.Path, Kind: Hollow, Folder: true})
		inside = scope{readable: at.readable}
	}
	head := len(out)
	if n.Complete {
		for _, child := range n.Children {
			out = append(out, c.tree(child, inside, false)...)
		}
	}
	switch {
	case head == 1 && len(out) == 1 && out[0].Kind == Hollow:
		out[0].Kind = Mask
	case head == 0 && len(out) > 0 && at.access&WriteOnly != 0:
		// A mount in a folder protects its name only while no process can rename or replace
		// the folder. A mount's root stays.
		out = slices.Insert(out, 0, Mount{Path: n.Path, Access: at.access, Folder: true})
	}
	return out
}

func (c *compiler) leaf(n *Node, at scope) []Mount {
	if n.Kind == LinkNode {
		return c.link(n, at)
	}
	a := NoAccess
	if n.Kind == FileNode {
		a = c.fit(n.Path, c.access(n.Path), at)
	}
	switch {
	case at.covered && a == at.access, !at.covered && a == NoAccess:
		return nil
	case a == NoAccess:
		return []Mount{{Path: n.Path, Kind: Mask}}
	}
	return []Mount{{Path: n.Path, Access: a}}
}

// link keeps the name of a symbolic link as the policy wants it. Where the link
// leads is decided there, by the name there.
func (c *compiler) link(n *Node, at scope) []Mount {
	if !at.covered {
		return nil
	}
	a := c.fit(n.Path, c.access(n.Path), at)
	switch {
	case at.access&^a == NoAccess: // a name like those around it
		return nil
	case a&ReadOnly != 0 && n.Target != "" && c.access(n.Target)&WriteOnly == 0:
		return []Mount{{Path: n.Path, Access: ReadOnly, Link: true}}
	case a&ReadOnly != 0:
		c.note("a link whose name may not be written is out of sight where it leads to what may, or to nothing")
	}
	return []Mount{{Path: n.Path, Kind: Mask}}
}

// visible says whether the mounts so far show a path, and how.
func (c *compiler) visible(p string) (bool, Access) {
	_, m := Cover(c.out.Mounts, p)
	if m == nil || m.Kind != Bind {
		return false, NoAccess
	}
	return true, m.Access
}
