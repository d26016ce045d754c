// Package overview says which changed files of a project the person's own programs will run. It looks at the files
// themselves: when a file was changed last, no program in a sandbox can set. Which run changed it, the record tells, if
// it is known. Start at [Overview.Look].
package overview

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/home"
)

// Overview reads the state of a project.
type Overview struct {
	Home *home.Home
	Undo changeset.Home // the logs that undo writes
	// Reader opens the ledger to look at, also one that cannot be written; nil: no run is known.
	Reader func(context.Context) (store.Backend, error)
}

// Status is the state of a project.
type Status struct {
	Folder string    `json:"folder"`
	NoWork bool      `json:"no_work"` // no run of the project is known, so no file was looked at
	Since  time.Time `json:"since,omitzero"`
	Work   bool      `json:"since_work"` // Since is when work of agents in the folder began
	Looked int       `json:"looked"`     // number of files and folders
	Files  []Changed `json:"changed"`
	Gaps   []Gap     `json:"not_known"` // empty: everything was looked at
}

// Changed is a file that was changed, or moved to its place, and that a program of the person's runs or reads; or
// several such files of a folder.
type Changed struct {
	Path    string    `json:"path"` // in the project; of a folder with a / at its end
	Files   int       `json:"files"`
	Program string    `json:"program"` // runs or reads it
	OfKind  bool      `json:"-"`       // by its kind, not by its name
	At      time.Time `json:"changed_at"`
	Target  string    `json:"target,omitempty"` // of a link that leads out of the project
	Run     *Run      `json:"run,omitempty"`    // the newest that changed it; nil: none is known

	last *Changed // of several files: one of them
}

// Run is a run that changed files.
type Run struct {
	ID   string `json:"run_id"`
	Name string `json:"name"`
}

// Gap is a part of the project that was not looked at.
type Gap struct {
	Path string `json:"path"` // "": the rest
	Why  string `json:"why"`
}

const (
	maxRuns      = 1000 // that are looked through
	maxWorktrees = 1000 // of a repository
	day          = 24 * time.Hour
	rest         = 4 * time.Hour // a longer rest between two runs ends a piece of work
)

// Root is the folder of the project that a folder is in: the outermost one below the person's home with a policy or a
// repository, since programs read settings of the folders around; without, the folder itself.
func Root(folder, userHome string) string {
	root := folder
	for dir := folder; dir != filepath.Dir(dir) && dir != userHome; dir = filepath.Dir(dir) {
		for _, name := range []string{"remit.yaml", ".git"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				root = dir
			}
		}
	}
	return root
}

// Look reads the state of a project in a folder, with links resolved, since a time; zero: since the last work of agents
// there began, and at least for a day, but not from before the first work.
func (o *Overview) Look(ctx context.Context, folder string, since time.Time) (Status, error) {
	out := Status{Folder: folder, Since: since, Files: []Changed{}, Gaps: []Gap{}}
	runs, from, err := o.runs(ctx, folder, since)
	if err != nil {
		return out, err
	}
	if since.IsZero() {
		if out.NoWork = len(runs) == 0 && from.IsZero(); out.NoWork {
			return out, nil
		}
		out.Since, out.Work = lastWork(runs, from.IsZero(), time.Now())
	}
	w := &walker{
		ctx: ctx, top: folder, since: out.Since.Add(-tick), kinds: newKinds(), changed: map[string]ledger.Run{}, seen: map[place]bool{},
		budget: &walk.Budget{Names: maxNames, Bytes: maxNames << 7}, found: map[string]*Changed{}, gaps: []Gap{},
	}
	if from.After(out.Since) {
		w.gap("", "not all runs are known that began before "+from.Format(time.DateTime))
	}
	for _, r := range runs {
		if r.Ended.IsZero() {
			w.gap("", "run "+r.ID.String()+" has not ended: it can still change files")
		}
		if r.Ended.IsZero() || r.Ended.After(out.Since) {
			o.addRun(w, r)
		}
	}
	if err := w.folder(folder, "", inside{}); err != nil {
		return out, err
	}
	if w.full {
		w.gap("", "there are more files than are looked at")
	}
	out.Looked, out.Files, out.Gaps = maxNames-max(0, w.budget.Names), w.list(), w.gaps
	return out, nil
}

// runs lists the live runs of a folder, of those around it, of those in it and of those that share its repository, the newest
// first. since is as in [Overview.Look]. Runs that began before a time may be missing; zero: none is.
func (o *Overview) runs(ctx context.Context, folder string, since time.Time) (out []ledger.Run, from time.Time, err error) {
	if o.Reader == nil || o.Home.Database == "" && !wholefile.Exists(filepath.Join(o.Home.Dir, sqlite.File)) {
		return nil, from, nil // a look makes no ledger
	}
	st, err := o.Reader(ctx)
	if err != nil {
		return nil, from, err
	}
	folders, all := shared(ctx, folder)
	filter := store.RunFilter{Mode: ledger.Live, Limit: 100}
	for range maxRuns / filter.Limit {
		page, err := st.Runs(ctx, filter)
		if err != nil {
			return nil, from, err
		}
		for _, r := range page {
			if slices.ContainsFunc(folders, func(f string) bool { return sandbox.Within(f, r.Workspace) || sandbox.Within(r.Workspace, f) }) {
				out = append(out, r)
			}
		}
		if len(page) < filter.Limit {
			if from = time.Now(); all {
				from = time.Time{}
			}
			return out, from, nil
		}
		last := page[len(page)-1]
		if filter.Before, from = last.Seq, last.Started; !since.IsZero() && from.Before(since.Add(-7*day)) { // a run hardly lasts for longer
			break
		}
	}
	return out, from, nil
}

// shared lists a folder, and the worktrees of its repository, which have the same hooks and settings of Git. all is false if
// there are too many.
func shared(ctx context.Context, folder string) (out []string, all bool) {
	out = []string{folder}
	common := filepath.Join(folder, ".git")
	if own, ok := pointer(common, "gitdir: "); ok {
		if common, ok = pointer(filepath.Join(own, "commondir"), ""); ok {
			out = append(out, filepath.Dir(common))
		}
	}
	at := filepath.Join(common, "worktrees")
	f, err := os.OpenFile(at, syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return out, errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	defer func() { _ = f.Close() }() // nothing was written
	names, err := walk.Names(ctx, f, &walk.Budget{Names: maxWorktrees, Bytes: maxWorktrees << 8})
	for _, name := range names {
		if file, ok := pointer(filepath.Join(at, name, "gitdir"), ""); ok {
			out = append(out, filepath.Dir(file))
		}
	}
	return out, err == nil
}

// lastWork is when the last work of agents began, or a day ago if that is earlier. If the runs are all, it is not before the
// first of them. work: since is the beginning of a run.
func lastWork(runs []ledger.Run, all bool, now time.Time) (since time.Time, work bool) {
	var began, first time.Time
	for again := true; again; {
		again = false
		for _, r := range runs { // the newest first; they may overlap
			if began.IsZero() || r.Started.Before(began) && (r.Ended.IsZero() || began.Sub(r.Ended) <= rest) {
				began, again = r.Started, true
			}
		}
	}
	for _, r := range runs {
		if all && (first.IsZero() || r.Started.Before(first)) {
			first = r.Started
		}
	}
	since = now.Add(-day)
	switch {
	case !began.IsZero() && !since.Before(began):
		return began, true
	case since.Before(first):
		return first, true
	}
	return since, false
}

// addRun notes the paths that a run changed, as far as they are known.
func (o *Overview) addRun(w *walker, r ledger.Run) {
	paths, err := o.Undo.Changed(r.ID.String())
	if err != nil {
		return // the files are looked at all the same
	}
	for _, p := range paths {
		if _, newer := w.changed[p]; !newer && sandbox.Within(p, w.top) {
			w.changed[p] = r
		}
	}
}

// list sorts the found files. A folder in which nothing was found is left out.
func (w *walker) list() []Changed {
	out := []Changed{}
	for _, c := range w.found {
		switch {
		case c.Files == 1 && c.last != nil:
			out = append(out, *c.last)
		case c.Files > 0:
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Changed) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Program, b.Program))
	})
	return out
}
