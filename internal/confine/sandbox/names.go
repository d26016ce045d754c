package sandbox

import (
	"path"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Names tells which names of a folder a survey can leave out, because [Compile] shows
// them as it shows a name that is not there yet.
type Names struct {
	chain policy.Chain
	like  *policy.LikeNames
}

// NewNames prepares a chain of policies for a survey.
func NewNames(chain policy.Chain) *Names {
	return &Names{chain: chain, like: chain.NamesLike(AnyName)}
}

// Rating is what the policies say of a folder and of new names in it.
type Rating struct {
	own, inside effects
	open        bool // names like any other can be left out
}

// effects are the policies' answers about reading and writing a path.
type effects struct{ read, write policy.Effect }

func (n *Names) effects(p string) effects {
	decide := func(kind tool.ActionKind) policy.Effect {
		return n.chain.DecideAction(tool.Action{Kind: kind, Path: p, Real: p}).Effect
	}
	return effects{decide(tool.FileRead), decide(tool.FileWrite)}
}

// Rate asks the policies about a folder. A root is in no other folder of the survey. together: see
// [Survey.Together].
func (n *Names) Rate(folder string, root, together bool) Rating {
	r := Rating{own: n.effects(folder), inside: n.effects(path.Join(folder, AnyName))}
	// Compile narrows the content of a folder by the folder's own name: see tree, and grants.
	narrowed := r.own.read != policy.Allow && r.inside.read == policy.Allow || together && r.own != r.inside
	r.open = folder != "/" && (root || !narrowed)
	return r
}

// Like reports whether a folder is shown as a new name in the folder around it is, as
// long as nothing in it differs.
func (r Rating) Like(around Rating) bool {
	return r.open && around.open && r.own == r.inside && r.inside == around.inside
}

// Alike reports whether a name in a rated folder is shown as a new name there is.
func (n *Names) Alike(folder, name string, kind NodeKind, in Rating) bool {
	switch {
	case kind == SpecialNode || kind == FolderNode || !in.open:
		return false
	case n.like.Contain(name):
		return true
	}
	return n.effects(path.Join(folder, name)) == in.inside
}
