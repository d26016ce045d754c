// Package changeset keeps the writes of a run until a person has reviewed them, and
// the earlier files so that they can be put back.
//
// A held run writes into the upper layer of an overlay ([Set]), a folder below
// $REMIT_HOME that only Remit and the kernel write to. When the run is over,
// [Set.Review] compares that layer with the workspace and records what it
// found together with what the workspace held then. [Set.Apply] carries the
// changes over, all or none, through a journal that a later start finishes or
// undoes after a crash; [Set.Discard] throws them away. A run that is not held
// has its file tools write a [Log] of what they replaced. [Home.Undo] puts back
// what either wrote.
//
// Nothing here follows a symbolic link, or trusts the content of the upper layer:
// see [Diff]. The caller decides on each change, with [Decide].
package changeset

import (
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// Type is the type of a name. The zero Type is a name that does not exist.
type Type string

// The types that a changeset can carry.
const (
	Nothing Type = ""
	File    Type = "file"
	Folder  Type = "folder"
	Link    Type = "link"
	// Special is a device, FIFO or socket: never carried over, never deleted.
	Special Type = "special"
)

// Node describes a name at one moment.
type Node struct {
	Type   Type   `json:"type,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`   // permission bits; 0 for links
	Size   int64  `json:"size,omitempty"`   // of a file, bytes
	Hash   string `json:"sha256,omitempty"` // of a file's content, hexadecimal
	Target string `json:"target,omitempty"` // of a link, as written
	// Attrs holds the extended attributes that the user gave it and its access
	// lists: a JSON object of base64 values, empty if there are none.
	Attrs string `json:"xattrs,omitempty"`
}

// content is the node less its permissions and attributes.
func (n Node) content() Node {
	n.Mode, n.Attrs = 0, ""
	return n
}

// text is how many bytes the texts of a node have.
func (n Node) text() int { return len(n.Hash) + len(n.Target) + len(n.Attrs) }

// Kind is the kind of a change.
type Kind string

// The kinds of changes.
const (
	Added    Kind = "added"
	Modified Kind = "modified" // another content, target or type
	Deleted  Kind = "deleted"
	Mode     Kind = "mode" // other permissions or attributes, the same content
)

// Change is one difference between what a run wrote and the workspace.
type Change struct {
	Path string `json:"path"` // relative to the workspace, with slashes
	Kind Kind   `json:"kind"`
	From Node   `json:"from,omitzero"` // in the workspace
	To   Node   `json:"to,omitzero"`   // in the upper layer
	// Refused says why the change is never applied, or is empty.
	Refused string `json:"refused,omitempty"`
	// Conflict says how the workspace has changed underneath, or is empty.
	Conflict string `json:"conflict,omitempty"`

	way     string // why a new folder is made only for what it holds, or empty
	was     key    // the workspace's side when it was compared
	held    key    // the upper layer's side
	changed int64  // when the workspace's side was last touched, nanoseconds since 1970
}

// Decide says whether a change may do something with a path of the workspace, or why
// not. A nil Decide allows nothing.
type Decide func(path string, use Use) error

// Use is the way in which a change uses a path.
type Use uint8

// The uses.
const (
	ToWrite  Use = iota
	ToDelete     // the file is gone afterwards
	ToPass       // a new folder is only made to hold something else that is carried over
)

// State is how far a changeset has come.
type State string

// The states. Applied, Rejected and Undone are final for what they concern; a
// changeset of which a part was applied stays in Review.
const (
	Active   State = "active"   // the run goes on
	Review   State = "review"   // the run is over; nobody has decided yet
	Applied  State = "applied"  // the workspace has it
	Rejected State = "rejected" // thrown away
	Undone   State = "undone"   // applied, and taken back
)

// beneath reports whether p is dir or in it. Both are clean and relative.
func beneath(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// conflict is the error that lists what changed underneath.
func conflict(what string, paths []string) error {
	const most = 10
	shown := make([]string, 0, most)
	for _, p := range paths[:min(len(paths), most)] {
		shown = append(shown, quote(p))
	}
	list := strings.Join(shown, ", ")
	if len(paths) > most {
		list += ", ..."
	}
	return fault.New(fault.Conflict, "%s: %s", what, list)
}
