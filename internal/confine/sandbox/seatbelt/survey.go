package seatbelt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// survey finds the names below some roots that the policies tell from the names around
// them, without following links.
type survey struct {
	names  *sandbox.Names
	system []string // folders that are shown whole, which it does not look into
	keep   []string // paths that stay in the survey, with the folders around them
	count  sandbox.Count
}

// fill looks at the files that a command's policies speak of.
func fill(ctx context.Context, in *sandbox.Inputs) error {
	s := survey{names: sandbox.NewNames(in.Chain), system: unwritable(in.Chain, in.System), count: sandbox.Count{Most: sandbox.MaxSurvey}}
	s.keep = slices.DeleteFunc(append(slices.Clone(s.system), in.State, in.Chain.Own()), func(p string) bool { return p == "" })
	roots := slices.Concat(sandbox.RootsOf(in.Chain, tool.FileRead), sandbox.RootsOf(in.Chain, tool.FileWrite))
	var err error
	if in.Trees, err = s.look(ctx, roots); err != nil {
		return err
	}
	if own := in.Chain.Own(); own != "" {
		s.system, s.keep = nil, nil
		list, err := s.look(ctx, []string{own})
		if err != nil {
			return err
		}
		if len(list) == 1 && list[0].Path == own && list[0].Kind == sandbox.FolderNode {
			in.Own = list[0]
			resolveLinks(in.Chain, in.Own.Children)
		}
	}
	resolveLinks(in.Chain, in.Trees)
	return nil
}

// look surveys the roots that are there.
func (s *survey) look(ctx context.Context, roots []string) (out []*sandbox.Node, err error) {
	for _, r := range roots {
		real, err := canonical(r)
		if err != nil || slices.ContainsFunc(out, func(n *sandbox.Node) bool { return sandbox.Within(real, n.Path) }) {
			continue // what is not there needs no rule
		}
		st, err := os.Lstat(real)
		if err != nil {
			continue
		}
		out = slices.DeleteFunc(out, func(n *sandbox.Node) bool { return sandbox.Within(n.Path, real) })
		out = append(out, &sandbox.Node{Path: real, Kind: sandbox.KindOf(st.Mode().Type())})
	}
	for i, n := range out {
		if n.Kind != sandbox.FolderNode {
			continue
		}
		if out[i], _, err = s.folder(ctx, n.Path, nil); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *sandbox.Node) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// folder surveys one folder; around is the rating of the one that it is in, nil for a
// root. alike: nothing tells it and what is in it from the names around it.
func (s *survey) folder(ctx context.Context, p string, around *sandbox.Rating) (n *sandbox.Node, alike bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, fault.Wrap(fault.ToolCancelled, err, "cancelled before the command started")
	}
	n = &sandbox.Node{Path: p, Kind: sandbox.FolderNode, System: slices.Contains(s.system, p)}
	if n.System || p == "/dev" {
		return n, false, nil
	}
	entries, err := s.list(ctx, p)
	var coded *fault.Error
	switch {
	case errors.As(err, &coded):
		return nil, false, err
	case err != nil:
		return n, false, nil //nolint:nilerr // what is in it stays out of sight
	}
	n.Complete = true
	rating := s.names.Rate(p, around == nil)
	for _, e := range entries {
		at, kind := path.Join(p, e.Name()), sandbox.KindOf(e.Type())
		if kind == sandbox.FolderNode {
			sub, same, err := s.folder(ctx, at, &rating)
			if err != nil {
				return nil, false, err
			}
			if !same {
				n.Children = append(n.Children, sub)
			}
		} else if !s.names.Alike(p, e.Name(), kind, rating) || sandbox.OfRepository(p, e.Name()) || slices.Contains(s.keep, at) {
			n.Children = append(n.Children, &sandbox.Node{Path: at, Kind: kind})
		}
	}
	alike = around != nil && len(n.Children) == 0 && rating.Like(*around) && !sandbox.OfRepository(path.Dir(p), path.Base(p)) &&
		!slices.ContainsFunc(s.keep, func(k string) bool { return sandbox.Within(k, p) })
	return n, alike, nil
}

// list lists a folder, and counts its names.
func (s *survey) list(ctx context.Context, p string) ([]fs.DirEntry, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return s.count.List(ctx, p, f)
}

// resolveLinks finds where each link leads whose name the policies close in part.
func resolveLinks(chain policy.Chain, nodes []*sandbox.Node) {
	for _, n := range nodes {
		if n.Kind == sandbox.LinkNode {
			if real, err := filepath.EvalSymlinks(n.Path); err == nil {
				n.Target = real
			}
		}
		resolveLinks(chain, n.Children)
	}
}
