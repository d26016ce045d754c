package sandbox

import "strings"

// Access is the use that a command may make of a file, or of a folder with its content.
type Access uint8

// The kinds of access. The zero Access is none.
const (
	NoAccess  Access = 0
	ReadOnly  Access = 1
	WriteOnly Access = 2
	ReadWrite Access = 3
)

func (a Access) String() string {
	return [...]string{"none", "read", "write", "read+write"}[a&3]
}

// MountKind says how a path inside the sandbox comes to be.
type MountKind uint8

// The kinds of mounts.
const (
	Bind   MountKind = iota // the host's own file or folder
	Mask                    // an empty one without any permission, over a visible name
	Hollow                  // an empty folder that later mounts are made in
	Socket                  // a socket that leads to the host's at the same path, through the proxy
)

// Mount is one path of the sandbox's file tree. Later ones lie over earlier ones.
type Mount struct {
	Path   string
	Kind   MountKind
	Access Access
	Folder bool
	Link   bool   // the name is a symbolic link, and the link itself is bound
	System bool   // part of the minimal system, not of the policy's files
	Keeps  bool   // names in this writable folder cannot be removed or renamed, but for [Profile.Removable]
	From   string // of a Bind: where it is on the host, if that is elsewhere
}

// Cover gives the topmost mount that p lies in.
func Cover(mounts []Mount, p string) (int, *Mount) {
	for i := len(mounts) - 1; i >= 0; i-- {
		if Within(p, mounts[i].Path) {
			return i, &mounts[i]
		}
	}
	return -1, nil
}

// Within says whether p is the folder or below it. Both are clean.
func Within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder) && p[len(folder)] == '/'
}
