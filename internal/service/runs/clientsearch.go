package runs

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// maxSearched bounds the files and folders of one search of a client.
const maxSearched = 50_000

// unreadable reports why a client may not search a file or folder: it would read every file
// below, and the policies do not allow one of them. Links are not followed.
func (c *ClientSession) unreadable(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	e, err := c.Runner.Catalog.Lookup("fs.grep")
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // the call itself is decided on the path, and there is nothing to read
	}
	chain, n := c.Run.Grant.Chain(), 0
	return filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if n++; n > maxSearched {
			return fault.New(fault.Denied, "the search covers more than %d files", maxSearched).WithHint("search in a smaller folder")
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d == nil || !d.Type().IsRegular() && at != root {
			return nil // the agent cannot read it either, or it is a folder or link
		}
		read := tool.Action{Kind: tool.FileRead, Path: at, Real: at}
		v := chain.Decide(policy.Call{Tool: e.Spec, Args: tool.Args{"path": path}, Actions: []tool.Action{read}})
		if v.Effect == policy.Allow {
			return nil
		}
		if at == root {
			return fs.SkipAll // the call itself is refused, with its rule
		}
		return fault.New(fault.Denied, "the search would also read a file that is not allowed: %s", v.Reason).
			WithHint("search in a file or folder without it")
	})
}
