//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// maxMoved bounds how many names a folder may have that gets a path of which the rules say something
// else.
const maxMoved = 10_000

// moved decides about a file or folder that gets another path: by that, the command must not get access that
// it did not have by the old one, and nothing may come to a name that it could not write there.
func (d *decider) moved(r supervisor.Request) error {
	if lead := d.leads.Outward(r.From); lead != "" {
		return d.led(r.From, lead)
	}
	if d.alike(r.From, r.Path) && !d.leads.Any(r.From) && !d.leads.Any(r.Path) && !d.leads.HoldsFiles(r.Path) {
		return nil
	}
	if err := d.gains(r.From, r.Path); err != nil {
		return err
	}
	if kindOf(r.File) != unix.S_IFDIR {
		return nil
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", r.File))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	w := walk.Walk{Top: r.Path, Names: maxMoved, Skipped: func(_ string, why error) { err = errors.Join(err, why) }}
	w.Visit = func(in *walk.Folder, name string, kind fs.FileMode) (bool, error) {
		was, will := path.Join(r.From, in.At(name)), path.Join(r.Path, in.At(name))
		if name == ".git" {
			if lead := d.leads.Outward(path.Dir(was)); lead != "" {
				return false, d.led(r.From, lead)
			}
		}
		if kind&fs.ModeSymlink != 0 {
			if err := d.links(will); err != nil {
				return false, err
			}
		}
		return kind.IsDir(), d.gains(was, will)
	}
	if werr := w.Down(context.Background(), root); werr != nil {
		return werr
	}
	if err != nil {
		return fault.Wrap(fault.HandleRefused, err, "the content of the folder cannot be checked: %v", err)
	}
	return nil
}

// carriesMount reports whether a name in a folder of the sandbox's own is, or holds, the folder of a mount. Moved with it,
// files would have paths that the policy does not decide about; without the folder, they would have none.
func (d *decider) carriesMount(p string) bool {
	return !d.concerns(path.Dir(p)) && slices.ContainsFunc(d.mounts, func(m sandbox.Mount) bool { return sandbox.Within(m.Path, p) })
}

// gains refuses a new path for something by which it can be read or written, where it could not be by the
// old one, or by which it has a name that the command may not write.
func (d *decider) gains(was, will string) error {
	for _, k := range []tool.ActionKind{tool.FileRead, tool.FileWrite} {
		before, after := d.may(k, was), d.may(k, will)
		switch {
		case before != nil && after == nil:
			return before
		case after != nil && k == tool.FileWrite && before == nil:
			return after
		}
	}
	return nil
}

// alike reports whether no rule tells two paths, and names below them, apart.
func (d *decider) alike(a, b string) bool {
	was, will := strings.Split(a, "/"), strings.Split(b, "/")
	if len(was) != len(will) {
		return false
	}
	for i := range was {
		if was[i] != will[i] && (!d.names().Contain(was[i]) || !d.names().Contain(will[i])) {
			return false
		}
	}
	return true
}

// skeleton returns the folders for the mounts of a supervised command: the ones in the policy, without
// their content, since each path in them is decided when it is used.
func skeleton(in *sandbox.Inputs, l *layers) {
	system := map[string]bool{}
	keep := slices.Concat(roots(in.Chain, in.Dir), in.Chain.Sockets(), []string{in.Held, in.Chain.Repository()})
	for _, m := range unwritable(in.Image, in.Chain, in.System) {
		system[m.Path] = true
		keep = append(keep, m.Path)
	}
	in.Trees = skeletonOf(keep, l, system)
	if own := in.Chain.Own(); own != "" {
		if nodes := skeletonOf([]string{own}, l, nil); len(nodes) == 1 && nodes[0].Path == own {
			in.Own = nodes[0]
		}
	}
}

func skeletonOf(paths []string, l *layers, system map[string]bool) []*sandbox.Node {
	found := map[string]*sandbox.Node{}
	var list []string
	add := func(p string) {
		real, err := l.real(p)
		if p == "" || err != nil || found[real] != nil {
			return // a missing file needs no mount
		}
		st, err := os.Lstat(l.At(real))
		if err != nil {
			return
		}
		found[real] = &sandbox.Node{Path: real, Kind: sandbox.KindOf(st.Mode().Type()), Complete: true, System: system[real]}
		list = append(list, real)
	}
	for _, p := range paths {
		add(p)
	}
	if found["/"] != nil { // each of its folders is a mount
		entries, _ := os.ReadDir("/") // an unlistable folder is out of sight
		for _, e := range entries {
			if p := "/" + e.Name(); e.Type()&fs.ModeSymlink == 0 && sandbox.Covers("/", p) && p != "/tmp" {
				add("/" + e.Name())
			}
		}
	}
	var tops []*sandbox.Node
	for _, p := range list {
		in := p
		for in != "/" {
			if in = path.Dir(in); found[in] != nil && sandbox.Covers(in, p) {
				break
			}
		}
		if parent := found[in]; in != p && parent != nil && sandbox.Covers(in, p) {
			parent.Children = append(parent.Children, found[p])
		} else {
			tops = append(tops, found[p])
		}
	}
	sortNodes(tops)
	return tops
}

// sortNodes puts nodes in the order in which they are mounted.
func sortNodes(nodes []*sandbox.Node) {
	slices.SortFunc(nodes, func(a, b *sandbox.Node) int { return strings.Compare(a.Path, b.Path) })
	for _, n := range nodes {
		sortNodes(n.Children)
	}
}
