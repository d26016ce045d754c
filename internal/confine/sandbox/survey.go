package sandbox

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
)

// RootsOf are the literal beginnings of the allow patterns of one link, since
// every link must allow a path.
func RootsOf(chain policy.Chain, kind tool.ActionKind) []string {
	return rootsOf(chain, kind, func(l policy.Link) []policy.FilePattern { return l.Allow })
}

// PossibleRoots are RootsOf and those of ask patterns: a person can allow something there.
func PossibleRoots(chain policy.Chain, kind tool.ActionKind) []string {
	return rootsOf(chain, kind, func(l policy.Link) []policy.FilePattern { return append(slices.Clip(l.Allow), l.Ask...) })
}

func rootsOf(chain policy.Chain, kind tool.ActionKind, patterns func(policy.Link) []policy.FilePattern) (out []string) {
	for _, l := range chain.Files(kind) {
		if l.Inherits {
			continue
		}
		for _, a := range patterns(l) {
			out = append(out, a.Base)
		}
		break
	}
	return out
}

// Steering are names in a repository's folder that decide what Git runs there.
var Steering = []string{"hooks", "config", "config.worktree", "commondir", "modules", "worktrees", "info/attributes"}

// OfRepository reports whether a name in a folder is a part of a Git repository that decides what Git runs:
// of a .git folder, the steering names and their folders.
func OfRepository(folder, name string) bool {
	if strings.EqualFold(name, ".git") || strings.EqualFold(name, "HEAD") {
		return true
	}
	if !strings.EqualFold(path.Base(folder), ".git") {
		folder, name = path.Dir(folder), path.Join(path.Base(folder), name)
	}
	return strings.EqualFold(path.Base(folder), ".git") &&
		slices.ContainsFunc(Steering, func(s string) bool { return s == name || strings.HasPrefix(s, name+"/") })
}

// MaxSurvey bounds how many names one survey looks at, and maxSurveyBytes their bytes.
const (
	MaxSurvey      = 5_000_000
	maxSurveyBytes = 256 << 20
)

// Survey finds the names that the policies tell from the names around them. It follows no links. A sandbox
// without a supervisor is made from these names.
type Survey struct {
	Roots    []string // where the policy could allow anything
	System   []string // folders that are shown whole, which it does not look into
	Keep     []string // paths that stay in the survey, with the folders around them
	Together bool     // a folder's names can only be left out all together, or none of them
	Most     int      // bounds the names; 0: MaxSurvey

	Real func(p string) (string, error)     // resolves the links of a path
	Skip func(folder string) bool           // folders whose names stay out of sight
	Open func(dir string) (*os.File, error) // opens a folder, and through no link

	names *Names
	left  walk.Budget
}

// Fill looks at the files of a command, and notes them in its inputs. Too many names are
// fault.SandboxMissing.
func (s Survey) Fill(ctx context.Context, in *Inputs) (err error) {
	s.names = NewNames(in.Chain)
	s.left = walk.Budget{Names: cmp.Or(s.Most, MaxSurvey), Bytes: maxSurveyBytes}
	s.Keep = slices.DeleteFunc(append(slices.Clone(s.Keep), s.System...), func(p string) bool { return p == "" })
	if in.Trees, err = s.look(ctx, s.Roots); err != nil {
		return err
	}
	s.resolve(in.Chain, in.Trees)
	own := in.Chain.Own()
	if own == "" {
		return nil
	}
	s.System, s.Keep = nil, nil
	list, err := s.look(ctx, []string{own})
	if err == nil && len(list) == 1 && list[0].Path == own && list[0].Kind == FolderNode {
		in.Own = list[0]
		s.resolve(in.Chain, in.Own.Children)
	}
	return err
}

// Covers reports whether the survey of a root finds a path. The machine's /tmp is surveyed only for a root in it: otherwise
// the command has a /tmp of its own.
func Covers(root, p string) bool {
	return Within(p, root) && (!Within(p, "/tmp") || Within(root, "/tmp"))
}

// look surveys the roots that are there.
func (s *Survey) look(ctx context.Context, roots []string) (out []*Node, err error) {
	for _, r := range roots {
		real, err := s.Real(r)
		if r == "" || err != nil || slices.ContainsFunc(out, func(n *Node) bool { return Covers(n.Path, real) }) {
			continue // a missing file needs no rule
		}
		st, err := os.Lstat(real)
		if err != nil {
			continue
		}
		out = slices.DeleteFunc(out, func(n *Node) bool { return Covers(real, n.Path) })
		out = append(out, &Node{Path: real, Kind: KindOf(st.Mode().Type())})
	}
	for i, n := range out {
		if n.Kind != FolderNode {
			continue
		}
		if out[i], _, err = s.folder(ctx, n.Path, nil); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *Node) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// folder surveys one folder; around is the rating of the one that it is in, nil for a root. alike: no rule
// tells it, or a name in it, from the names around it.
func (s *Survey) folder(ctx context.Context, p string, around *Rating) (n *Node, alike bool, err error) {
	n = &Node{Path: p, Kind: FolderNode, System: slices.Contains(s.System, p)}
	if n.System || slices.Contains(ownFolders, p) || around != nil && p == "/tmp" {
		return n, false, nil
	}
	entries, ok, err := s.list(ctx, p)
	if err != nil || !ok {
		return n, false, err
	}
	n.Complete = true
	rating := s.names.Rate(p, around == nil, s.Together)
	var same []*Node // names like those around them
	for _, e := range entries {
		one, like := &Node{Path: path.Join(p, e.Name()), Kind: KindOf(e.Type())}, false
		if one.Kind == FolderNode {
			if one, like, err = s.folder(ctx, one.Path, &rating); err != nil {
				return nil, false, err
			}
		} else {
			like = s.names.Alike(p, e.Name(), one.Kind, rating) && !OfRepository(p, e.Name()) && !slices.Contains(s.Keep, one.Path)
		}
		switch {
		case !like:
			n.Children = append(n.Children, one)
		case s.Together:
			same = append(same, one)
		}
	}
	alike = around != nil && len(n.Children) == 0 && rating.Like(*around) && !OfRepository(path.Dir(p), path.Base(p)) &&
		!slices.ContainsFunc(s.Keep, func(k string) bool { return Within(k, p) })
	if len(n.Children) > 0 && len(same) > 0 {
		n.Children = append(n.Children, same...) // each name needs a rule of its own
		slices.SortFunc(n.Children, func(a, b *Node) int { return strings.Compare(a.Path, b.Path) })
	}
	return n, alike, nil
}

// list lists a folder, and counts its names. ok is false if its names stay out of sight.
func (s *Survey) list(ctx context.Context, p string) (entries []fs.DirEntry, ok bool, err error) {
	if ctx.Err() != nil {
		return nil, false, fault.Wrap(fault.ToolCancelled, ctx.Err(), "cancelled before the command started")
	}
	if s.Skip(p) {
		return nil, false, nil
	}
	f, err := s.Open(p)
	if err != nil {
		return nil, false, nil
	}
	defer func() { _ = f.Close() }() // it was only read
	entries, err = walk.Entries(ctx, f, &s.left)
	switch {
	case errors.Is(err, walk.ErrMany):
		return nil, false, fault.New(fault.SandboxMissing, "the folders that the policy's file rules name hold too many names to look through: more than %d, or more than %d MiB, up to %q", cmp.Or(s.Most, MaxSurvey), maxSurveyBytes>>20, p).
			WithHint("name narrower folders in files.read and files.write")
	case err != nil && errors.Is(err, ctx.Err()):
		return nil, false, fault.Wrap(fault.ToolCancelled, err, "cancelled before the command started")
	}
	return entries, err == nil, nil
}

// resolve finds where each link leads whose name the policies close in part.
func (s *Survey) resolve(chain policy.Chain, nodes []*Node) {
	closed := func(kind tool.ActionKind, p string) bool {
		return chain.DecideAction(tool.Action{Kind: kind, Path: p, Real: p}).Effect != policy.Allow
	}
	for _, n := range nodes {
		if n.Kind == LinkNode && (closed(tool.FileRead, n.Path) || closed(tool.FileWrite, n.Path)) {
			n.Target, _ = s.Real(n.Path) // "": it leads nowhere
		}
		s.resolve(chain, n.Children)
	}
}

// Entries lists a folder in order, which may have a million names.
func Entries(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return walk.Entries(context.Background(), f, walk.Most())
}

// KindOf gives the kind of a name by the type bits of its mode.
func KindOf(mode fs.FileMode) NodeKind {
	switch {
	case mode.IsRegular():
		return FileNode
	case mode.IsDir():
		return FolderNode
	case mode&fs.ModeSymlink != 0:
		return LinkNode
	}
	return SpecialNode
}
