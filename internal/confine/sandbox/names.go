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
	// Together: a folder's names can only be left out all together, or none of them.
	Together bool
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

// Rate asks the policies about a folder. A root is one that no other folder of the
// survey is around.
func (n *Names) Rate(folder string, root bool) Rating {
	r := Rating{own: n.effects(folder), inside: n.effects(path.Join(folder, AnyName))}
	// Compile narrows what is in a folder by the folder's own name: see tree, and grants.
	narrowed := r.own.read != policy.Allow && r.inside.read == policy.Allow || n.Together && r.own != r.inside
	r.open = folder != "/" && (root || !narrowed)
	return r
}

// Pack gives the rating as a number, for a survey that is kept in a file.
func (r Rating) Pack() uint64 {
	n := uint64(0)
	for _, e := range []policy.Effect{r.own.read, r.own.write, r.inside.read, r.inside.write} {
		n = n<<8 | uint64(e)
	}
	if r.open {
		n |= 1 << 32
	}
	return n
}

// UnpackRating gives the rating of a number.
func UnpackRating(n uint64) Rating {
	return Rating{own: effects{policy.Effect(n >> 24), policy.Effect(n >> 16)}, inside: effects{policy.Effect(n >> 8), policy.Effect(n)}, open: n>>32 != 0}
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
