// Package fs holds the built-in tools for files: fs.read, fs.write, fs.edit,
// fs.list, fs.stat, fs.grep, fs.delete and fs.move. They open nothing
// themselves: all goes through package files under the call's permit. Start at
// [Tools].
package fs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
)

// Tool is one of the built-in tools for files.
type Tool struct {
	spec  tool.Spec
	paths map[string][]tool.ActionKind // argument → what it is needed for
	order []string                     // of the arguments in Actions
	dot   bool                         // the path may be left out: the workspace
	run   func(ctx context.Context, f *files.Files, a args) (map[string]any, error)
}

// Tools lists them all.
func Tools() []*Tool {
	return []*Tool{read(), write(), edit(), list(), stat(), grep(), remove(), move()}
}

// Spec describes the tool.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Actions says which files a call needs. A path that cannot be one makes an
// unknown action, which every policy denies.
func (t *Tool) Actions(env tool.Env, in tool.Args) ([]tool.Action, error) {
	var out []tool.Action
	for _, name := range t.order {
		asked, ok := in[name].(string)
		if in[name] == nil && t.dot {
			asked, ok = ".", true
		}
		if !ok {
			return nil, fault.New(fault.ArgsInvalid, "%s is no string", name).In(name)
		}
		clean, err := files.Clean(env, asked)
		for _, k := range t.paths[name] {
			a := tool.Action{Kind: k, Path: clean}
			if err != nil {
				a.Unknown = fault.Message(err)
			}
			out = append(out, a)
		}
	}
	return out, nil
}

// Run does the call under its permit.
func (t *Tool) Run(ctx context.Context, p permit.Permit, in tool.Args) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, stopped(ctx)
	}
	f := files.New(p)
	a := args{in: in}
	out, err := t.run(ctx, f, a)
	if errors.Is(err, fault.NotFound) {
		err = suggest(ctx, f, a, err)
	}
	return tool.Result{Output: out}, err
}

func stopped(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.Wrap(fault.ToolTimeout, ctx.Err(), "the call's time ran out")
	}
	return fault.Wrap(fault.ToolCancelled, ctx.Err(), "the call was cancelled")
}

// args reads arguments that the schema has admitted; what is absent or of
// another type reads as the default.
type args struct{ in tool.Args }

func (a args) str(name, def string) string {
	if s, ok := a.in[name].(string); ok {
		return s
	}
	return def
}

func (a args) flag(name string, def bool) bool {
	if b, ok := a.in[name].(bool); ok {
		return b
	}
	return def
}

// num reads a whole number; JSON Schema counts 1.0 and 1e3 as such.
func (a args) num(name string, def int64) int64 {
	n, ok := a.in[name].(json.Number)
	if !ok {
		return def
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	if x, err := n.Float64(); err == nil && x >= -1<<53 && x <= 1<<53 {
		return int64(x)
	}
	return def
}

// guard reads if_sha256: 64 hexadecimal digits, as fs.read gives them.
func (a args) guard() (*tool.Digest, error) {
	s := a.str("if_sha256", "")
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

// suggest adds what the missing file may have been meant to be, out of the
// names that policy lets be listed.
func suggest(ctx context.Context, f *files.Files, a args, err error) error {
	var e *fault.Error
	asked := a.str("path", a.str("from", ""))
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
