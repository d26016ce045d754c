package overview

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
)

const (
	maxNames   = 2_000_000   // names of files that are looked at
	maxOutside = 20_000      // of them behind one link that leads out of the project
	maxGaps    = 20          // parts of the project that are told of
	maxPointer = 4096        // bytes of a .git file
	maxLinks   = 40          // that follow one another, as for Linux
	tick       = time.Second // file systems round the times of changes
)

// walker looks through a project.
type walker struct {
	ctx     context.Context
	top     string
	since   time.Time
	kinds   *kinds
	changed map[string]ledger.Run // the paths that runs changed

	budget *walk.Budget
	full   bool // a budget is used up
	seen   map[place]bool
	found  map[string]*Changed
	gaps   []Gap
}

// place is a folder that was looked through, with all that its surroundings made of it.
type place struct {
	real string
	in   inside
}

// inside is true for all in a folder.
type inside struct {
	as    string // the outermost folder that a program loads its files from; "": none
	who   string // that program
	some  bool   // it does not load all of them
	git   bool   // a .git folder
	moved bool   // the folder has come to this place
	maybe string // the outermost folder of which that is not known; "": none
}

func (w *walker) gap(p, why string) {
	if len(w.gaps) < maxGaps {
		w.gaps = append(w.gaps, Gap{p, why})
	}
}

// folder looks through one folder of the project. rel is its path in it.
func (w *walker) folder(dir, rel string, in inside) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	list, err := w.names(dir)
	switch {
	case errors.Is(err, walk.ErrMany):
		w.full = true
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		w.gap(rel, "it cannot be read")
	}
	repository := w.has(list, dir, &in.moved, "HEAD", "objects", "refs") || path.Base(rel) == ".git"
	if venv := w.has(list, dir, &in.moved, "pyvenv.cfg"); venv && in.who == "" {
		in.as, in.who = cmp.Or(rel, "."), python
	}
	for _, e := range list {
		name, here := e.Name(), in
		who := w.kinds.folder(name)
		if repository && (name == "hooks" || name == "config") {
			who = git
		}
		if who != "" && here.who == "" && (e.IsDir() || e.Type()&fs.ModeSymlink != 0 || who == git) {
			here.as, here.who = path.Join(rel, name), who
			if who == compile { // one row for all of them
				here.as = "**/" + name
			}
		}
		here.git = in.git || name == ".git"
		if err := w.entry(filepath.Join(dir, name), path.Join(rel, name), here); err != nil {
			return err
		}
	}
	return nil
}

// names lists a folder.
func (w *walker) names(dir string) ([]fs.DirEntry, error) {
	f, err := os.OpenFile(dir, syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0) // there may be a FIFO by now
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return walk.Entries(w.ctx, f, w.budget)
}

// has reports whether a folder has names that make it a special one. isNew becomes true if one of them is new. A
// repository's own .git is always one: there they change all the time.
func (w *walker) has(list []fs.DirEntry, dir string, isNew *bool, names ...string) bool {
	changed := false
	for _, name := range names {
		i := slices.IndexFunc(list, func(e fs.DirEntry) bool { return e.Name() == name })
		if i < 0 {
			return false
		}
		info, err := list[i].Info()
		changed = changed || err != nil || sandbox.ChangedAt(info).After(w.since)
	}
	*isNew = *isNew || changed && !strings.Contains(dir+"/", "/.git/")
	return true
}

// entry looks at one name.
func (w *walker) entry(file, rel string, in inside) error {
	info, err := os.Lstat(file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // it has gone
			w.gap(rel, "it cannot be looked at")
		}
		return nil
	}
	at := sandbox.ChangedAt(info)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return w.link(file, rel, at, in)
	case !info.IsDir():
		w.add(rel, file, at, "", in, info)
		if in.git && path.Base(rel) == ".git" {
			return w.elsewhere(file, rel, in)
		}
		return nil
	}
	in.moved = in.moved || w.movedHere(file, info)
	if at.After(w.since) && in.maybe == "" && !in.git && w.parentChanged(file) {
		in.maybe = rel
	}
	if in.who != "" {
		w.add(rel, file, at, "", in, info)
	}
	return w.folder(file, rel, in)
}

// link looks at a link, and at all that is behind it.
func (w *walker) link(file, rel string, at time.Time, in inside) error {
	target, info, through := w.follow(file)
	if through.After(at) {
		at = through
	}
	if info == nil || !info.IsDir() {
		if info != nil && sandbox.ChangedAt(info).After(at) {
			at = sandbox.ChangedAt(info)
		}
		w.add(rel, file, at, target, in, info)
		return nil
	}
	isNew := at.After(w.since)
	in.moved = in.moved || isNew
	if in.who == "" && isNew {
		in.as, in.who, in.some = rel, "several (new link)", true
	}
	if in.who != "" {
		w.add(rel, file, at, target, in, info)
		if in.who == packages && in.as != rel && !isNew && sandbox.Within(target, w.top) {
			return nil // a package of the project itself
		}
	}
	if sandbox.Within(w.top, target) || sandbox.Within(file, target) {
		return nil // it leads to a folder around itself
	}
	if w.seen[place{target, in}] {
		return nil
	}
	w.seen[place{target, in}] = true
	if sandbox.Within(target, w.top) {
		return w.folder(target, rel, in)
	}
	return w.outside(target, rel, in)
}

// outside looks through a folder out of the project, if it is not too large.
func (w *walker) outside(target, rel string, in inside) error {
	all, full := w.budget, w.full
	w.budget, w.full = &walk.Budget{Names: min(maxOutside, max(0, all.Names)), Bytes: maxOutside << 7}, false
	err := w.folder(target, rel, in)
	if w.full {
		w.gap(rel, "it leads out of the project, to a large folder: "+target)
	}
	all.Names -= maxOutside - max(0, w.budget.Names)
	w.budget, w.full = all, full
	return err
}

// follow gives the file that a link leads to, and when a link or a folder of the project on the way there was changed
// last. It goes from name to name, as the kernel does. info is nil if the link leads to nothing.
func (w *walker) follow(link string) (target string, info fs.FileInfo, through time.Time) {
	at := filepath.Dir(link) // a folder, without links
	names, links := []string{filepath.Base(link)}, 0
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		p := filepath.Join(at, name)
		i, err := os.Lstat(p)
		if err != nil {
			return "", nil, through
		}
		changed := sandbox.ChangedAt(i)
		if i.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			if links++; err != nil || links > maxLinks {
				return "", nil, through
			}
			if filepath.IsAbs(to) {
				at = "/"
			}
			names = append(strings.Split(to, "/"), names...)
		} else {
			at = p
			if i.IsDir() && (len(names) == 0 || !sandbox.Within(p, w.top) || p == w.top || sandbox.Within(link, p)) {
				continue // its files are looked at by themselves, or are not the project's
			}
		}
		if changed.After(through) && (i.Mode()&fs.ModeSymlink != 0 || i.IsDir()) {
			through = changed
		}
	}
	if info, err := os.Lstat(at); err == nil {
		return at, info, through
	}
	return "", nil, through
}

// elsewhere looks at the settings and hooks of the repository that a .git file names.
func (w *walker) elsewhere(file, rel string, in inside) error {
	dir, ok := pointer(file, "gitdir: ")
	if !ok {
		return nil
	}
	if common, ok := pointer(filepath.Join(dir, "commondir"), ""); ok {
		dir = common
	}
	if sandbox.Within(dir, w.top) { // it is looked at there
		return nil
	}
	for _, name := range []string{"config", "hooks"} {
		here := in
		here.as, here.who = path.Join(rel, name), git
		if err := w.entry(filepath.Join(dir, name), here.as, here); err != nil {
			return err
		}
	}
	return nil
}

// pointer reads a path from a file of Git's.
func pointer(file, before string) (dir string, ok bool) {
	f, err := os.OpenFile(file, syscall.O_NONBLOCK, 0) // it may be a FIFO
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxPointer))
	if err != nil {
		return "", false
	}
	dir, ok = strings.CutPrefix(strings.TrimSpace(string(b)), before)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	return filepath.Clean(dir), ok
}

// movedHere reports whether a folder has come to its place: a run's log says so, or its name was changed later than its
// content.
func (w *walker) movedHere(file string, info fs.FileInfo) bool {
	_, known := w.changed[file]
	return known && w.kinds.folder(path.Base(file)) == "" && path.Base(file) != ".git" ||
		sandbox.ChangedAt(info).After(w.since) && sandbox.ChangedAt(info).Sub(info.ModTime()) > tick
}

// parentChanged reports whether the folder around a folder has got, or lost, a name.
func (w *walker) parentChanged(file string) bool {
	info, err := os.Lstat(filepath.Dir(file))
	return err != nil || sandbox.ChangedAt(info).After(w.since)
}

// add adds a file that has changed and that a program runs, or a folder that such a program looks through. info is nil for
// a link to nothing.
func (w *walker) add(rel, file string, at time.Time, target string, in inside, info fs.FileInfo) {
	changed := at.After(w.since) || in.moved
	if !changed && in.maybe == "" {
		return
	}
	who := w.runBy(rel, in, info)
	if who == "" {
		return
	}
	one := Changed{Path: rel, Files: 1, Program: who, OfKind: w.kinds.files[strings.ToLower(path.Base(rel))] == "", At: at}
	dir := target == "" && info != nil && info.IsDir() // a link to a folder counts as a file
	if dir {
		one.Files = 0
	}
	if target != "" && !sandbox.Within(target, w.top) {
		one.Target = target
	}
	switch {
	case !changed && dir:
	case !changed:
		w.together(in.maybe+"/", "several (folder may have been moved here)", one)
	case in.as == "" || in.as == rel && !dir:
		one.Run = w.run(file, at)
		w.found[rel] = &one
	default:
		one.Run = w.run(file, at)
		w.together(in.as+"/", who, one)
	}
}

// together counts one of several files of a folder.
func (w *walker) together(folder, who string, one Changed) {
	all := w.found[folder+who]
	if all == nil {
		all = &Changed{Path: folder, Program: who}
		w.found[folder+who] = all
	}
	if one.At.After(all.At) {
		all.At, all.Run = one.At, one.Run
	}
	if all.Files += one.Files; one.Files > 0 {
		all.last = &one
	}
}

// runBy names the program that runs a file; "": none is known.
func (w *walker) runBy(rel string, in inside, info fs.FileInfo) string {
	name, dir := path.Base(rel), info != nil && info.IsDir()
	switch {
	case in.who == git && strings.HasSuffix(name, ".sample"): // Git's examples
		return ""
	case in.who != "" && (!in.some || dir || w.ofFile(rel, info) != ""):
		return in.who
	case in.who != "":
		return ""
	case in.git && name != ".git":
		return w.kinds.inGit(name)
	}
	return w.ofFile(rel, info)
}

func (w *walker) ofFile(rel string, info fs.FileInfo) string {
	if info == nil {
		return "unknown (link to nothing yet)"
	}
	who := w.kinds.file(rel)
	if (who == "" || who == looked) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return called
	}
	return who
}

// run is the newest run that is known to have changed a file, or a folder that it is in, unless the file was changed
// after the run had ended; nil: none is.
func (w *walker) run(file string, at time.Time) *Run {
	for p := file; sandbox.Within(p, w.top) && p != w.top; p = filepath.Dir(p) {
		if r, ok := w.changed[p]; ok {
			if !r.Ended.IsZero() && at.After(r.Ended.Add(tick)) {
				return nil
			}
			return &Run{r.ID.String(), r.Name}
		}
	}
	return nil
}
