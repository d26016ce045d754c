package runs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
)

// maxSearched bounds the files and folders of one search of a client.
const maxSearched = 50_000

// Unreadable gives the names of the files below some folders that the policies do not allow a client to read. ok is false if they
// cannot all be known.
func (c *ClientSession) Unreadable(ctx context.Context, paths []string) (list []string, ok bool) {
	names := map[string]bool{}
	for _, path := range paths {
		err := c.unreadable(ctx, path, func(name, _ string) error {
			names[name] = true
			return nil
		})
		if err != nil {
			return nil, false
		}
	}
	return slices.Sorted(maps.Keys(names)), true
}

// mayNotSearch refuses a search that would read a file which the policies do not allow.
func mayNotSearch(_, reason string) error {
	return fault.New(fault.Denied, "the search would also read a file that is not allowed: %s", reason).WithHint("search in a file or folder without it")
}

// unreadable tells found of each file below a path that the policies do not allow a client to read, until it returns an error. A
// path that cannot be searched is an error, too. Links are not followed.
func (c *ClientSession) unreadable(ctx context.Context, path string, found func(name, reason string) error) error {
	if path == "" {
		return nil
	}
	e, err := c.Runner.Catalog.Lookup("fs.grep")
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // the call itself is decided on the path, and there is nothing to read
	}
	chain := c.Run.Grant.Chain()
	decide := func(at string) policy.Decision {
		read := tool.Action{Kind: tool.FileRead, Path: at, Real: at}
		return chain.Decide(policy.Call{Tool: e.Spec, Args: tool.Args{"path": path}, Actions: []tool.Action{read}})
	}
	if decide(root).Effect != policy.Allow {
		return nil // the call itself is refused, with its rule
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil // it is a file, or the agent cannot read it either
	}
	defer func() { _ = dir.Close() }() // only read
	var many error
	w := walk.Walk{Top: root, Names: maxSearched}
	w.Visit = func(in *walk.Folder, name string, kind fs.FileMode) (enter bool, err error) {
		if !kind.IsRegular() {
			return true, nil
		}
		if v := decide(filepath.Join(root, in.At(name))); v.Effect != policy.Allow {
			return false, found(name, v.Reason)
		}
		return false, nil
	}
	w.Skipped = func(_ string, why error) { // the agent cannot read it either
		if errors.Is(why, walk.ErrMany) {
			many = fault.New(fault.Denied, "the search covers more than %d files", maxSearched).WithHint("search in a smaller folder")
		}
	}
	return cmp.Or(w.Down(ctx, dir), many)
}

// Matching gives the files and folders that absolute patterns match, among the first 50,000 names that it sees. Links are not followed.
func Matching(ctx context.Context, patterns []string) (out []string) {
	left := maxSearched
	for _, text := range patterns {
		p, err := glob.Compile(strings.TrimPrefix(filepath.Clean(text), "/"), glob.Options{Base: "/"})
		if err != nil {
			continue // no reader of patterns takes it as one
		}
		for _, base := range p.Bases() {
			if !base.Deep {
				out = append(out, base.Path)
				continue
			}
			out = append(out, below(ctx, base.Path, p.Match, &left)...)
		}
	}
	return out
}

// below gives the paths in a folder that match. It takes the names that it sees from left.
func below(ctx context.Context, top string, match func(path string) bool, left *int) (out []string) {
	if *left <= 0 {
		return nil
	}
	dir, err := os.OpenRoot(top)
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // only read
	w := walk.Walk{Top: top, Names: *left, Skipped: func(string, error) {}}
	w.Visit = func(in *walk.Folder, name string, _ fs.FileMode) (enter bool, err error) {
		*left--
		if at := filepath.Join(top, in.At(name)); match(at) {
			out = append(out, at)
		}
		return true, nil
	}
	_ = w.Down(ctx, dir) // what cannot be opened cannot be read by the tool, either
	return out
}
