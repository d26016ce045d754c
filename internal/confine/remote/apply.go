package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/remote/tree"
	"github.com/remitrun/remit/internal/confine/remote/wire"
)

// takeOver checks the files that a command wrote on a worker, and writes them into the run's held
// layer. A change that the policies do not allow is left out and recorded as refused. Any other
// fault (a path out of the workspace, content without its digest, a file that differs from the
// sent one) refuses all changes, before the first one is written.
func (x *call) takeOver(ctx context.Context, list []changeset.Change, body io.Reader) ([]string, error) {
	if len(list) > wire.MaxChanges {
		return nil, x.bad("it reports %d changes; the limit is %d", len(list), wire.MaxChanges)
	}
	if err := os.Mkdir(x.stage, 0o700); err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "what the worker sent cannot be kept")
	}
	defer func() { _ = walk.Remove(x.stage) }() // beside the layer; the next start removes it with the changeset
	take, notes, err := x.check(list)
	if err != nil {
		return nil, err
	}
	if err := x.receive(ctx, list, take, body); err != nil {
		return nil, err
	}
	if err := x.unchanged(list, take); err != nil {
		return nil, err
	}
	more, err := x.write(list, take)
	return append(notes, more...), err
}

// bad is the error for data that no worker of this version sends.
func (x *call) bad(format string, args ...any) error {
	return fault.New(fault.ToolFailed, "the changes of worker %s are refused: "+format, append([]any{x.w.Name}, args...)...)
}

// check judges each change: true for those to take. The order is that of the paths.
func (x *call) check(list []changeset.Change) (take []bool, notes []string, err error) {
	take = make([]bool, len(list))
	folders, left := map[string]bool{}, 0
	for i, c := range list {
		if err := tree.CheckPath(c.Path); err != nil {
			return nil, nil, x.bad("%s", fault.Message(err))
		}
		if i > 0 && c.Path <= list[i-1].Path {
			return nil, nil, x.bad("%s is out of order", quoted(c.Path))
		}
		if c.Refused != "" {
			left++
			notes = append(notes, fmt.Sprintf("%s was left on the worker: %s", quoted(c.Path), clip.Text(c.Refused, 200)))
			continue
		}
		if err := x.sound(c); err != nil {
			return nil, nil, err
		}
		parent := path.Dir(c.Path)
		if known, was := x.snap.Nodes[parent]; parent != "." && !folders[parent] && !(was && known.Folder) {
			if c.To.Type != changeset.Nothing { // its parent was left out
				left++
				continue
			}
		}
		if take[i] = x.allowed(c); !take[i] {
			left++
		} else if c.To.Type == changeset.Folder {
			folders[c.Path] = true
		}
	}
	if left > 0 {
		notes = append(notes[:min(len(notes), 5)], fmt.Sprintf("%d changes of the command were not taken over", left))
	}
	return take, notes, nil
}

func quoted(p string) string { return strconv.Quote(clip.Text(p, 200)) }

// sound refuses a change that is not one of a file, folder or link that was sent, or of a new one.
func (x *call) sound(c changeset.Change) error {
	was, known := x.snap.Nodes[c.Path]
	from := changeset.Nothing
	switch {
	case known && was.Folder:
		from = changeset.Folder
	case known && was.Target != "":
		from = changeset.Link
	case known:
		from = changeset.File
	}
	if c.From.Type != from || from == changeset.File && c.From.Hash != was.Hash || from == changeset.Link && c.From.Target != was.Target {
		return x.bad("%s was not what the worker says it was", quoted(c.Path))
	}
	switch c.To.Type {
	case changeset.Nothing:
		if from == changeset.Nothing {
			return x.bad("%s was not there and is not there", quoted(c.Path))
		}
	case changeset.File:
		if err := tree.CheckHash(c.To.Hash); err != nil || c.To.Size < 0 || c.To.Size > tree.MaxBytes {
			return x.bad("%s has no valid digest", quoted(c.Path))
		}
	case changeset.Link:
		if err := tree.CheckTarget(c.Path, c.To.Target); err != nil {
			return x.bad("%s", fault.Message(err))
		}
	case changeset.Folder:
	default:
		return x.bad("%s is of the type %s", quoted(c.Path), quoted(string(c.To.Type)))
	}
	if c.To.Mode&^0o777 != 0 {
		return x.bad("%s has the mode %o", quoted(c.Path), c.To.Mode)
	}
	return nil
}

// allowed asks the policies about a change, as the sandbox of this machine would have.
func (x *call) allowed(c changeset.Change) bool {
	at := path.Join(x.dir, c.Path)
	kinds := []tool.ActionKind{tool.FileWrite}
	if c.To.Type == changeset.Nothing {
		kinds = []tool.ActionKind{tool.FileDelete}
	} else if c.From.Type != changeset.Nothing && c.From.Type != c.To.Type {
		kinds = append(kinds, tool.FileDelete)
	}
	for _, k := range kinds {
		a := tool.Action{Kind: k, Path: at, Real: at}
		if d := x.p.Chain().DecideAction(a); d.Effect != policy.Allow {
			x.p.Refuse(tool.Refused{Action: a.String(), Rule: d.Rule.String(), Reason: d.Reason})
			return false
		}
	}
	return true
}

// receive stores the contents that follow the result, and checks their digests and the room for them.
func (x *call) receive(ctx context.Context, list []changeset.Change, take []bool, body io.Reader) error {
	var total int64
	for i, c := range list {
		if c.To.Type != changeset.File || c.Refused != "" {
			continue
		}
		if total += c.To.Size; total > tree.MaxBytes {
			return x.bad("its files have more than %d GiB", tree.MaxBytes>>30)
		}
		if err := x.p.Held().Room(ctx, total); err != nil {
			return err
		}
		into := io.Discard
		var f *os.File
		if take[i] {
			var err error
			if f, err = os.OpenFile(x.staged(i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
				return fault.Wrap(fault.StoreFailed, err, "what the worker sent cannot be kept")
			}
			into = f
		}
		h := sha256.New()
		_, err := io.CopyN(io.MultiWriter(into, h), body, c.To.Size)
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return lost(x.w, err)
		}
		if hex.EncodeToString(h.Sum(nil)) != c.To.Hash {
			return x.bad("the content of %s does not have its digest", quoted(c.Path))
		}
	}
	return nil
}

func (x *call) staged(i int) string { return filepath.Join(x.stage, strconv.Itoa(i)) }

// unchanged checks that the workspace still has the sent content, at every path that is written.
func (x *call) unchanged(list []changeset.Change, take []bool) error {
	for i, c := range list {
		if !take[i] {
			continue
		}
		if is, err := x.now(c.Path); err != nil || !is {
			return fault.New(fault.Conflict, "%s changed in the workspace while the command ran on worker %s, so none of its changes was taken over", quoted(c.Path), x.w.Name).
				WithHint("run the command again")
		}
	}
	return nil
}

// now reports whether a path is still as in the snapshot.
func (x *call) now(p string) (bool, error) {
	was, known := x.snap.Nodes[p]
	st, err := x.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return !known, nil
	case err != nil || !known:
		return false, err
	case was.Folder:
		return st.IsDir(), nil
	case was.Target != "":
		target, err := x.root.Readlink(p)
		return target == was.Target, err
	}
	f, st, err := tree.OpenPath(x.root, p)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(h.Sum(nil)) == was.Hash && uint32(st.Mode().Perm()) == was.Mode, nil
}

// write writes the changes into the layer: what goes away first, from below, then what comes.
func (x *call) write(list []changeset.Change, take []bool) (notes []string, err error) {
	order := make([]int, 0, len(list))
	for i := range list {
		if take[i] {
			order = append(order, i)
		}
	}
	for _, i := range slices.Backward(order) {
		c := &list[i]
		if c.From.Type == changeset.Nothing || c.From.Type == changeset.Folder && c.To.Type == changeset.Folder {
			continue
		}
		if err := x.root.Remove(c.Path); err != nil {
			if c.From.Type != changeset.Folder {
				return notes, x.unwritten(c.Path, err)
			}
			notes = append(notes, fmt.Sprintf("the folder %s stays: it has files that were not sent to the worker", quoted(c.Path)))
			take[i] = false
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(strings.Count(list[a].Path, "/"), strings.Count(list[b].Path, "/"))
	})
	for _, i := range order {
		if take[i] {
			if err := x.place(i, &list[i]); err != nil {
				return notes, x.unwritten(list[i].Path, err)
			}
		}
	}
	return notes, nil
}

func (x *call) unwritten(p string, err error) error {
	return fault.Wrap(fault.StoreFailed, err, "%s, which worker %s wrote, cannot be held", quoted(p), x.w.Name)
}

// place makes what a change leaves at its path.
func (x *call) place(i int, c *changeset.Change) error {
	mode := os.FileMode(c.To.Mode)
	switch c.To.Type {
	case changeset.Folder:
		if err := x.root.Mkdir(c.Path, mode); err != nil && (!errors.Is(err, fs.ErrExist) || c.From.Type != changeset.Folder) {
			return err
		}
		return x.root.Chmod(c.Path, mode)
	case changeset.Link:
		return x.root.Symlink(c.To.Target, c.Path)
	case changeset.File:
	default:
		return nil // it was removed
	}
	from, err := os.Open(x.staged(i))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read
	f, err := x.root.OpenFile(c.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Chmod(mode), f.Close())
}
