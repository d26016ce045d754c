// Package filelabels gives files the labels of the data that was written to them, and finds
// them again by path and by content. The ledger keeps them. Start at [Labels].
package filelabels

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// MaxHashed is the size, in bytes, up to which a file is known by its content. A larger one is
// known by its path alone.
const MaxHashed = 8 << 20

// Labels are the labels of files of one ledger. It implements runner.FileLabels.
type Labels struct{ Store store.Labels }

const (
	page        = 500
	maxDecided  = 5000 // recorded files that are looked at to tell whether a process can read one
	maxWithheld = 200  // files that are withheld one by one
)

// Look implements runner.FileLabels.
func (l Labels) Look(ctx context.Context, q runner.LabelQuery) (runner.LabelsFound, error) {
	s := search{Labels: l, q: q, names: q.Flows.Labels()}
	var out runner.LabelsFound
	var err error
	if s.recorded, err = l.some(ctx); err == nil && s.recorded {
		s.folders, err = s.openFolders(ctx)
	}
	if err != nil {
		return out, err
	}
	for i := range q.Actions {
		if err := s.fill(ctx, &q.Actions[i], &out); err != nil {
			return out, err
		}
	}
	for _, a := range q.Typed {
		if err := s.resolve(ctx, &a); err != nil {
			return out, err
		}
		if err := s.fill(ctx, &a, &out); err != nil {
			return out, err
		}
		if len(a.Labels) > 0 {
			if out.Typed == nil {
				out.Typed = map[string][]string{}
			}
			out.Typed[a.Path] = a.Labels
		}
	}
	if q.Process && s.recorded {
		for _, label := range s.names {
			near, err := s.mayBeRead(ctx, label)
			if err != nil {
				return out, err
			}
			if near {
				out.Around = append(out.Around, label)
			}
		}
	}
	return out, nil
}

// search looks up the labels of one call.
type search struct {
	Labels

	q        runner.LabelQuery
	names    []string            // of the call's labels
	recorded bool                // some file has labels
	folders  []store.LabelRecord // in which calls write now, or wrote when they were cut off
}

// some reports whether any labels are recorded.
func (l Labels) some(ctx context.Context) (bool, error) {
	list, err := l.Store.Labelled(ctx, store.LabelFilter{Limit: 1})
	return len(list) > 0, err
}

// openFolders lists the folders whose files may all have a label.
func (s *search) openFolders(ctx context.Context) ([]store.LabelRecord, error) {
	_, _, prefix := ledger.KeyPrefixes("")
	var out []store.LabelRecord
	for _, label := range s.names {
		list, err := s.Store.Labelled(ctx, store.LabelFilter{Label: label, Prefix: prefix})
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// resolve fills in the real path of a file that a typed command names.
func (s *search) resolve(ctx context.Context, a *tool.Action) (err error) {
	if a.Unknown != "" || !ofFile(a) {
		return nil
	}
	a.Real, err = files.RealPath(ctx, s.q.Run.Held, s.q.Run.Env, a)
	if err != nil && ctx.Err() == nil {
		err = nil // the command finds the same obstacle
	}
	return err
}

func ofFile(a *tool.Action) bool {
	return a.Kind == tool.FileRead || a.Kind == tool.FileWrite || a.Kind == tool.FileDelete
}

// fill fills in the labels of the file of an action.
func (s *search) fill(ctx context.Context, a *tool.Action, out *runner.LabelsFound) error {
	if a.Unknown != "" || !ofFile(a) {
		return nil
	}
	real := a.Real
	if real == "" {
		real = a.Path
	}
	read := a.Kind == tool.FileRead
	pattern := s.q.Flows.Names(s.q.Flows.Pattern(real))
	if !s.recorded && (!read || len(pattern) == 0) {
		return nil
	}
	content, err := s.content(ctx, real, read && len(pattern) > 0)
	if err != nil {
		return err
	}
	keys := []ledger.LabelKey{ledger.PathKey(real), contentKey(content), ledger.PathKey(a.Path)}
	found, err := s.Store.LabelsOf(ctx, s.names, keys)
	if err != nil {
		return err
	}
	a.Labels, a.Below = sorted(slices.Concat(slices.Concat(found...), s.folderLabels(real))), nil
	if content.Folder {
		if a.Below, err = s.labelsBelow(ctx, real); err != nil {
			return err
		}
	}
	if !read || keys[1] == "" {
		return nil
	}
	// A file with labels by its path keeps them wherever it is copied, and a copy that was found
	// keeps them at its place.
	if by := subtractLabels(pattern, found[1]); len(by) > 0 {
		out.Found = append(out.Found, ledger.FileLabel{File: keys[1], Labels: by})
	}
	if by := subtractLabels(found[1], slices.Concat(found[0], pattern)); len(by) > 0 {
		out.Found = append(out.Found, ledger.FileLabel{File: keys[0], Labels: by})
	}
	return nil
}

// folderLabels are the labels of the folders that a path is in and where calls write.
func (s *search) folderLabels(path string) []string {
	var out []string
	for _, f := range s.folders {
		if isWithin(f.Key.Path(), path) {
			out = append(out, f.Label)
		}
	}
	return out
}

// subtractLabels returns the labels that are not among others.
func subtractLabels(labels, others []string) []string {
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return slices.Contains(others, l) })
}

// content is the content of a file, which is read if it must be, or if a content of its size has
// labels.
func (s *search) content(ctx context.Context, real string, must bool) (files.Content, error) {
	c, err := files.ContentIn(ctx, s.q.Run.Held, s.q.Run.Env, real, func(size int64) (bool, error) {
		if size > MaxHashed || size == 0 {
			return false, nil
		}
		if must {
			return true, nil
		}
		_, prefix, _ := ledger.KeyPrefixes(strconv.FormatInt(size, 10))
		for _, label := range s.names {
			list, err := s.Store.Labelled(ctx, store.LabelFilter{Label: label, Prefix: prefix, Limit: 1})
			if err != nil || len(list) > 0 {
				return err == nil, err
			}
		}
		return false, nil
	})
	if err != nil && ctx.Err() == nil {
		return files.Content{}, nil // what cannot be read here, the call cannot read either
	}
	return c, err
}

func contentKey(c files.Content) ledger.LabelKey {
	if c.SHA256 == "" {
		return ""
	}
	return ledger.ContentKey(strconv.FormatInt(c.Size, 10), c.SHA256)
}

// labelsBelow lists the labels of files in a folder.
func (s *search) labelsBelow(ctx context.Context, folder string) ([]string, error) {
	var out []string
	for _, f := range s.folders {
		if isWithin(folder, f.Key.Path()) {
			out = append(out, f.Label)
		}
	}
	for _, label := range s.names {
		found := false
		err := s.eachPath(ctx, label, string(ledger.PathKey(slashed(folder))), func(path string) (bool, error) {
			found = mayExist(path)
			return !found, nil
		})
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, label)
		}
	}
	return sorted(out), nil
}

// eachPath calls f with the paths of files that were given a label, until f says that it is
// enough.
func (l Labels) eachPath(ctx context.Context, label, prefix string, f func(path string) (bool, error)) error {
	for filter := (store.LabelFilter{Label: label, Prefix: prefix, Limit: page}); ; {
		list, err := l.Store.Labelled(ctx, filter)
		if err != nil {
			return err
		}
		for _, r := range list {
			if more, err := f(r.Key.Path()); err != nil || !more {
				return err
			}
			filter.After = store.LabelPlace{Label: r.Label, Key: r.Key}
		}
		if len(list) < page {
			return nil
		}
	}
}

// mayBeRead reports whether a process of the call may read a file with a label. Where there are
// many that it may not read, it is taken to.
func (s *search) mayBeRead(ctx context.Context, label string) (bool, error) {
	for _, f := range s.folders {
		if f.Label == label {
			return true, nil
		}
	}
	found, looked := false, 0
	look := func(path string) (bool, error) {
		looked++
		found = looked > maxDecided || readable(s.q.Chain, path) && mayExist(path)
		return !found, nil
	}
	prefix, _, _ := ledger.KeyPrefixes("")
	err := s.eachPath(ctx, label, string(ledger.PathKey(slashed(s.q.Run.Env.Workspace))), look)
	if err == nil && !found {
		looked = 0
		err = s.eachPath(ctx, label, prefix, look)
	}
	return found, err
}

func readable(chain policy.Chain, path string) bool {
	return chain.DecideAction(tool.Action{Kind: tool.FileRead, Path: path, Real: path}).Effect != policy.Deny
}

// Having implements runner.FileLabels.
func (l Labels) Having(ctx context.Context, flows *policy.Flows, chain policy.Chain, label string) (policy.LabelledFiles, error) {
	var out policy.LabelledFiles
	prefix, _, folders := ledger.KeyPrefixes("")
	if some, err := l.some(ctx); err != nil || !some {
		return out, err
	}
	of, looked := flows.Set([]string{label}), 0
	err := l.eachPath(ctx, label, prefix, func(path string) (bool, error) {
		looked++
		if flows.Pattern(path)&of == 0 && readable(chain, path) && mayExist(path) {
			out.Paths = append(out.Paths, path)
		}
		out.Unknown = looked > maxDecided || len(out.Paths) > maxWithheld
		return !out.Unknown, nil
	})
	if err != nil {
		return out, err
	}
	list, err := l.Store.Labelled(ctx, store.LabelFilter{Label: label, Prefix: folders})
	for _, r := range list {
		out.Folders = append(out.Folders, r.Key.Path())
	}
	out.Folders = files.TopMost(out.Folders)
	return out, err
}

// Begin implements runner.FileLabels.
func (l Labels) Begin(chain policy.Chain) runner.Writing {
	w := &writing{since: files.Now()}
	if chain != nil {
		w.folders = writable(chain)
	}
	w.roots = w.folders
	return w
}

// writing finds what a call wrote since a moment.
type writing struct {
	since   files.Moment
	folders []string
	roots   []string // which are looked through
}

// Folders implements runner.Writing.
func (w *writing) Folders() []string { return w.folders }

// Only implements runner.Writing.
func (w *writing) Only(files []string) { w.roots = files }

// Written implements runner.Writing.
func (w *writing) Written(ctx context.Context, run *runner.Run, paths []string, f func(string, ledger.LabelKey)) error {
	tell := func(path string) error {
		c, err := files.ContentIn(ctx, nil, run.Env, path, func(size int64) (bool, error) { return size > 0 && size <= MaxHashed, nil })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f(path, "")
			return err
		}
		if err == nil && !c.Folder {
			f(path, contentKey(c))
		}
		return nil
	}
	var errs []error
	for _, p := range paths {
		errs = append(errs, tell(p))
	}
	return errors.Join(append(errs, files.ChangedSince(ctx, w.roots, w.since, tell))...)
}

// writable are the folders and files below which a chain lets something be written.
func writable(chain policy.Chain) []string {
	var out []string
	all := true
	for _, link := range chain.Files(tool.FileWrite) {
		if link.Inherits {
			continue
		}
		var bases []string
		for _, p := range link.Allow {
			bases = append(bases, p.Base)
		}
		if bases = files.TopMost(bases); all {
			out, all = bases, false
			continue
		}
		var both []string
		for _, a := range out {
			for _, b := range bases {
				if isWithin(a, b) {
					both = append(both, b)
				} else if isWithin(b, a) {
					both = append(both, a)
				}
			}
		}
		out = files.TopMost(both)
	}
	return out
}
