package sandbox

// Use is an action of a command on a path, tried or done.
type Use uint8

// The ways of using a path.
const (
	Looked   Use = iota // asked for its existence or its properties
	Read                // opened for reading, or listed
	Executed            // executed, or read as an interpreter's script is
	Wrote               // created, changed, moved, removed
)

// Touch is the use of one path by an observed command, as the command asked for it. The kernel's answer is not
// known. The sandbox decides nothing by it.
type Touch struct {
	Use    Use
	Path   string // absolute and lexically clean
	Real   string // with links resolved as far as it was there, inside the sandbox
	Exists bool   // something was there, inside the sandbox, when it was asked for
	Folder bool   // which is a folder, or is made one
	Named  bool   // the name itself was made, moved or removed: its folder changes
	Shown  string // the kind of file inside the sandbox: "files" of the policy, "mask", "system", "standard" of the system, "own" of the sandbox, "" for nothing
	Count  int
}
