// Package fs holds the built-in tools for files: fs.read, fs.write, fs.edit, fs.list,
// fs.stat, fs.grep, fs.delete and fs.move. They open files only through package
// confine/files, under the call's permit. Start at [Tools].
package fs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Tools lists them all.
func Tools() []permit.Tool {
	return []permit.Tool{read(), write(), edit(), list(), stat(), grep(), remove(), move()}
}

// newTool makes a tool whose calls access the paths that the arguments name.
func newTool[A any](spec tool.Spec, accesses func(a A) []access, run func(ctx context.Context, f *files.Files, a A) (map[string]any, error)) permit.Tool {
	spec.Version, spec.Source = "1", "builtin"
	return typed.New(spec, func(env tool.Env, a A) (permit.Prepared, error) {
		paths := accesses(a)
		return permit.Prepared{Actions: actions(env, paths), Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			f := files.New(p)
			out, err := run(ctx, f, a)
			if errors.Is(err, fault.NotFound) {
				err = suggest(ctx, f, paths[0].path, err)
			}
			return tool.Result{Output: out}, err
		}}, nil
	})
}

// access is a path as the caller wrote it, and the kinds of its use.
type access struct {
	path string
	kind []tool.ActionKind
}

func one(path string, kind ...tool.ActionKind) []access { return []access{{path, kind}} }

// actions lists the files that a call needs. A path that is not valid makes an unknown
// action, which every policy denies.
func actions(env tool.Env, paths []access) []tool.Action {
	var out []tool.Action
	for _, p := range paths {
		clean, err := files.Clean(env, p.path)
		for _, k := range p.kind {
			a := tool.Action{Kind: k, Path: clean}
			if err != nil {
				a.Unknown = fault.Message(err)
			}
			out = append(out, a)
		}
	}
	return out
}

// isTrue reads a flag that is true unless the caller says otherwise.
func isTrue(flag *bool) bool { return flag == nil || *flag }

// parseDigest reads if_sha256: 64 hexadecimal digits, as fs.read gives them; nil for none.
func parseDigest(s string) (*tool.Digest, error) {
	if s == "" {
		return nil, nil
	}
	b, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	if err != nil || len(b) != sha256.Size {
		return nil, fault.New(fault.ArgsInvalid, "if_sha256 is not a SHA-256 hash in hexadecimal").In("if_sha256")
	}
	d := tool.Digest(b)
	return &d, nil
}

func hash(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// maxSiblings bounds the folder that is searched for a better name.
const maxSiblings = 2000

// suggest adds the name of a similar file that the policy allows to list.
func suggest(ctx context.Context, f *files.Files, asked string, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Hint != "" || asked == "" {
		return err
	}
	dir, name := path.Split(strings.TrimRight(asked, "/"))
	l, lerr := f.ReadDir(ctx, cmp.Or(dir, "."))
	if lerr != nil || len(l.Entries) > maxSiblings {
		return err // no suggestion: the error itself stands
	}
	paths := map[string]string{}
	for _, s := range l.Entries {
		paths[s.Name] = s.Path
	}
	best := near.Word(name, slices.Sorted(maps.Keys(paths)))
	if best == "" {
		return err
	}
	return e.WithHint("did you mean %q?", paths[best])
}
