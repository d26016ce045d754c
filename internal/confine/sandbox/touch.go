package sandbox

// Use says what a command did, or tried to do, with a path.
type Use uint8

// The ways of using a path.
const (
	Looked   Use = iota // asked whether it is there, or what it is like
	Read                // opened for reading, or listed
	Executed            // executed, or read as an interpreter's script is
	Wrote               // created, changed, moved, removed
)

// Touch is what an observed command did with one path, as it asked: whether the
// kernel let it is not told. The sandbox decides nothing by it.
type Touch struct {
	Use    Use
	Path   string // absolute and lexically clean
	Real   string // with links resolved as far as it was there, inside the sandbox
	Exists bool   // something was there, inside the sandbox, when it was asked for
	Folder bool   // which is a folder, or is made one
	Named  bool   // the name itself was made, moved or removed: its folder changes
	Shown  string // what is there inside the sandbox: "files" of the policy, "mask", "system", "standard" of the system, "own" of the sandbox, "" for nothing
	Count  int
}
