package changeset

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

func newID() string { return rand.Text()[:12] }

// Back is the result of an undo, with paths as they were written: relative to the
// workspace for a changeset, absolute for a run's file tools and commands.
type Back struct {
	Restored []Change `json:"restored"`
	Kept     []string `json:"kept,omitempty"` // folders that stay because something else is in them

	// Lost are changed paths that cannot be restored: they were too large or too many to be kept, cannot be read, lie in
	// folders of which nothing is kept, or are devices, FIFOs or sockets. More: there are others, which were not noted.
	Lost []string `json:"lost,omitempty"`
	More bool     `json:"more_lost,omitempty"`

	// Left are new files that stay although they were not there before: they may have the content of a lost one.
	Left []string `json:"left,omitempty"`
}

// undoing is how writes are taken back.
type undoing struct {
	force []string        // paths, and folders of paths, that are put back also if they have changed since
	above string          // begins all paths in messages
	sound func(Node) bool // reports whether the content of a file is there; nil: a missing one is an error later
}

// Undo puts back what a run wrote: by its changeset, as far as that was applied,
// and by its file tools and commands where the run was not held. Nothing is put back if any
// of it has changed since, except paths in force. A run that wrote nothing is
// fault.NotFound.
func (h Home) Undo(run string, force ...string) (Back, error) {
	s, err := h.Load(run)
	if errors.Is(err, fault.NotFound) {
		return h.undoLog(run, force)
	}
	if err != nil {
		return Back{}, err
	}
	var back Back
	err = s.locked(func() error {
		if len(s.meta.Done) == 0 {
			return fault.New(fault.NotFound, "nothing of run %s is in the workspace: its changes are %s", run, s.meta.State)
		}
		_, base, err := s.openBase()
		if err != nil {
			return err
		}
		defer shut(base)
		w := writes{}
		for _, d := range s.meta.Done {
			w.add(d.Path, d.From, &d.To)
		}
		var list []Step
		if list, back, err = w.back(base, undoing{force: force}); err != nil {
			return err
		}
		j := s.job("undo", list, base, nil)
		return j.run(func() error { return s.undone(j.id) })
	})
	return back, err
}

// Undoable reports whether Undo has something to put back of a run, unless it has changed since.
func (h Home) Undoable(run string) bool {
	if s, err := h.Load(run); err == nil {
		return len(s.meta.Done) > 0
	}
	_, err := os.Lstat(h.logFile(run))
	return err == nil
}

// openBase opens the workspace alone.
func (s *Set) openBase() (upper, base int, err error) {
	_, up, _ := s.Layers()
	if err := os.MkdirAll(up, 0o700); err != nil { // it went when the changeset was applied
		return -1, -1, s.failed(err, "read")
	}
	upper, base, err = s.open()
	shut(upper)
	return -1, base, err
}

// undone records that the workspace has none of it any more.
func (s *Set) undone(id string) error {
	if s.meta.Last == id {
		return nil
	}
	s.meta.Last, s.meta.Done = id, nil
	if s.meta.State == Applied {
		s.meta.State = Undone
	}
	return s.save()
}

// written is what happened to one path, over all.
type written struct {
	from Node
	to   *Node // nil: an effect began whose end is not known
	last Node  // the state when it began
	torn bool  // between two effects, something else changed it
	lost *key  // only this is known of the state before
	is   *key  // the state after it, of a file that was too large to be read
}

// writes is what happened to paths, in order.
type writes map[string]*written

// add notes one effect.
func (w writes) add(path string, from Node, to *Node) {
	e := w[path]
	if e == nil {
		e = &written{from: from}
		w[path] = e
	}
	e.torn = e.torn || e.to != nil && *e.to != from
	e.to, e.is, e.last = to, nil, from
}

// back gives the steps that take everything back. It fails with the list of
// paths that changed after the run, unless they are forced.
func (w writes) back(root int, how undoing) ([]Step, Back, error) {
	forced, err := w.forced(how)
	if err != nil {
		return nil, Back{}, err
	}
	at := newParents(root)
	defer at.close()
	var list []Step
	var changed []string
	var b Back
	unsure := false // the content of a lost file may be in a new one, renamed or packed
	lost := w.lost()
	for _, p := range sortedPaths(w) {
		e := w[p]
		if e.lost != nil {
			unsure = b.lose(root, p, *e.lost) && e.lost.Type == File || unsure
			continue
		}
		now, is, err := e.now(at, p)
		switch {
		case how.sound != nil && errors.Is(err, fs.ErrPermission):
			b.Lost, unsure = append(b.Lost, p), true
		case err != nil:
			return nil, Back{}, about(how.above+p, err)
		case now == e.from: // it is back already, or never changed
		case e.from.Type == Special: // nothing of it was kept
			changed = append(changed, how.above+p)
		case how.sound != nil && now.Type == Special, lost[is.file()] && !forced[p]:
			b.Left = append(b.Left, p)
		case !e.changedSince(now), forced[p],
			e.to != nil && e.to.Type == Folder && now.Type == Folder && e.from.Type == Nothing: // a folder of other permissions goes as well
			if how.sound != nil && e.from.Type == File && !how.sound(e.from) {
				b.Lost, unsure = append(b.Lost, p), true
			} else {
				list = append(list, Step{Path: p, From: now, To: e.from})
			}
		default:
			changed = append(changed, how.above+p)
		}
	}
	if len(changed) > 0 {
		err := conflict("these paths have changed since, nothing was restored", changed)
		var coded *fault.Error
		if errors.As(err, &coded) {
			err = coded.WithHint("--force PATH restores one all the same, --force FOLDER all below it")
		}
		return nil, Back{}, err
	}
	if unsure || b.More {
		list = b.leave(list, forced)
	}
	list, kept, err := w.keepFull(root, withFolders(root, list))
	b.Kept = kept
	for _, s := range list {
		b.Restored = append(b.Restored, Change{Path: s.Path, Kind: kindOf(s), From: s.From, To: s.To})
	}
	return list, b, err
}

// forced gives the paths of which it does not matter whether they have changed since.
func (w writes) forced(how undoing) (map[string]bool, error) {
	forced := map[string]bool{}
	for _, f := range how.force {
		found := false
		for p := range w {
			if p == f || f == "." || strings.HasPrefix(p, f+"/") {
				forced[p], found = true, true
			}
		}
		if !found {
			return nil, fault.New(fault.NotFound, "the run did not write %s", quote(how.above+f))
		}
	}
	return forced, nil
}

// now reads a path. The state of a large file that the run left so becomes to.
func (e *written) now(at *parents, p string) (now Node, is key, err error) {
	dir, name, err := at.at(p)
	var st unix.Stat_t
	if err == nil {
		now, st, err = nodeAt(dir, name)
	}
	if absent(err) {
		return Node{}, key{}, nil
	}
	if err == nil && now.Type != Nothing {
		is = keyOf(&st)
	}
	if e.is != nil && *e.is == is {
		e.to = &now
	}
	return now, is, err
}

// changedSince reports whether a path is not as the run left it.
func (e *written) changedSince(now Node) bool {
	return e.torn || e.to != nil && now != *e.to || e.to == nil && now != e.last
}

// file identifies a file under all of its names.
type file struct{ dev, ino uint64 }

func (k key) file() file { return file{k.Dev, k.Ino} }

// lost gives the files of which no copy was made before a change.
func (w writes) lost() map[file]bool {
	out := map[file]bool{}
	for _, e := range w {
		if e.lost != nil && e.lost.Type == File {
			out[e.lost.file()] = true
		}
	}
	return out
}

// leave leaves out the removal of files, unless it is forced.
func (b *Back) leave(list []Step, forced map[string]bool) []Step {
	return slices.DeleteFunc(list, func(s Step) bool {
		stays := s.From.Type == File && s.To.Type == Nothing && !forced[s.Path]
		if stays {
			b.Left = append(b.Left, s.Path)
		}
		return stays
	})
}

// withFolders adds steps that make missing folders around the restored paths.
func withFolders(root int, list []Step) []Step {
	made := map[string]bool{}
	for _, s := range list {
		made[s.Path] = true
	}
	for _, s := range slices.Clone(list) {
		for p := path.Dir(s.Path); s.To.Type != Nothing && p != "." && !made[p]; p = path.Dir(p) {
			fd, err := openBelow(root, p)
			shut(fd)
			if !errors.Is(err, unix.ENOENT) {
				break
			}
			made[p] = true
			list = append(list, Step{Path: p, To: Node{Type: Folder, Mode: 0o755}})
		}
	}
	slices.SortFunc(list, func(a, b Step) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// lose lists a path of which no copy was made, if it has changed.
func (b *Back) lose(root int, p string, was key) (changed bool) {
	if p == "" {
		b.More = true
		return true
	}
	dir, err := openBelow(root, path.Dir(p))
	defer shut(dir)
	var is key
	if err == nil {
		if st, err := statAt(dir, path.Base(p)); err == nil {
			is = keyOf(&st)
		}
	}
	if is != was {
		b.Lost = append(b.Lost, p)
	}
	return is != was
}

func sortedPaths[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func kindOf(s Step) Kind {
	switch {
	case s.From.Type == Nothing:
		return Added
	case s.To.Type == Nothing:
		return Deleted
	case s.From.content() == s.To.content():
		return Mode
	}
	return Modified
}

// keepFull leaves out the removal of folders that hold something else.
func (w writes) keepFull(root int, list []Step) ([]Step, []string, error) {
	goes := map[string]bool{}
	for _, s := range list {
		goes[s.Path] = s.To.Type == Nothing
	}
	var kept []string
	for _, s := range slices.Backward(list) {
		if s.From.Type != Folder || s.To.Type == Folder {
			continue
		}
		fd, err := openBelow(root, s.Path)
		if err != nil {
			return nil, nil, about(s.Path, err)
		}
		held, err := names(context.Background(), fd, s.Path, walk.Most())
		shut(fd)
		if err != nil {
			return nil, nil, about(s.Path, err)
		}
		if !slices.ContainsFunc(held, func(n string) bool { return !goes[join(s.Path, n)] }) {
			continue
		}
		if s.To.Type != Nothing {
			return nil, nil, conflict("a folder holds something else now, nothing was restored", []string{s.Path})
		}
		goes[s.Path] = false
		kept = append(kept, s.Path)
	}
	slices.Sort(kept)
	return slices.DeleteFunc(list, func(s Step) bool { return slices.Contains(kept, s.Path) }), kept, nil
}

// Recovered is what became of a job that a crash interrupted.
type Recovered struct {
	Run     string
	Undo    bool // it was an undo, not an apply
	Forward bool // it was finished, not taken back
}

// Recover finishes or takes back interrupted jobs, and returns the list of them.
// Temporary files of killed processes are removed. Jobs of a live process are left to
// it.
func (h Home) Recover() ([]Recovered, error) {
	var out []Recovered
	var errs []error
	journals, err := os.ReadDir(h.journals())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range journals {
		run, isSet := strings.CutSuffix(e.Name(), ofSet)
		run, isLog := strings.CutSuffix(run, ofLog)
		if isSet == isLog {
			continue // not a journal that was begun
		}
		r, err := h.recoverOne(run, isLog)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else was quicker
		}
		if err != nil {
			errs = append(errs, err)
		}
		if r.Run != "" {
			out = append(out, r)
		}
	}
	return out, errors.Join(append(errs, h.clearLeft())...)
}

// recoverOne finishes or takes back the job in the journal of one run.
func (h Home) recoverOne(run string, isLog bool) (r Recovered, err error) {
	var release func() error
	var file string
	if isLog {
		file = h.journal(run, ofLog)
		release, err = h.lockLog(run)
	} else {
		file = h.journal(run, ofSet)
		release, err = h.lockSet(run)
	}
	if errors.Is(err, fault.Conflict) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	jr, last, err := readJournal(file)
	if err != nil {
		return r, err
	}
	if jr.head.Run != run {
		return r, fault.New(fault.StoreCorrupt, "the journal %s is of another run", quote(file))
	}
	r = Recovered{Run: jr.head.Run, Undo: jr.head.What == "undo", Forward: last == commit}
	root, err := rootFolder(jr.head.Folder)
	if err != nil {
		return r, about(jr.head.Folder, err)
	}
	defer shut(root)
	j := &job{id: jr.head.ID, root: root, steps: jr.head.Steps, blobs: h.blobs(), journal: jr, point: h.point}
	j.source = j.fromBlobs
	if isLog {
		j.forget = true
		return r, j.resume(last, func() error { return h.logUndone(run) })
	}
	s, err := h.Load(run)
	if err != nil {
		return r, err
	}
	if r.Undo {
		return r, j.resume(last, func() error { return s.undone(j.id) })
	}
	_, up, _ := s.Layers()
	if upper, err := rootFolder(up); err == nil {
		defer shut(upper)
		from := newSources(upper)
		defer from.close()
		j.source = from.open
	}
	if err := j.resume(last, func() error { return s.applied(j.id, j.steps) }); err != nil {
		return r, err
	}
	return r, s.tidy()
}
