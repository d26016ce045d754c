package changeset

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// Apply carries changes over into the workspace, all or none: those at or
// beneath the given paths, or all. It refuses if one of them is refused by its
// own path, or if the workspace changed underneath. It returns the applied changes.
func (s *Set) Apply(ctx context.Context, decide Decide, paths ...string) (done []Change, err error) {
	err = s.locked(func() error {
		if err := s.decided(); err != nil {
			return err
		}
		all, err := s.Changes(ctx, decide)
		if err != nil {
			return err
		}
		if done, err = choose(all, paths); err != nil {
			return err
		}
		upper, base, err := s.open()
		if err != nil {
			return err
		}
		defer func() { shut(upper); shut(base) }()
		from := newSources(upper)
		defer from.close()
		j := s.job("apply", steps(done), base, from)
		if len(paths) == 0 && !s.meta.Calls { // the layer goes when all of it is applied, so its files can be given away
			j.link = from.give
		}
		if err := j.run(func() error { return s.applied(j.id, j.steps) }); err != nil {
			return err
		}
		return s.tidy()
	})
	return done, err
}

// applied records that a job's steps were done, once. When only refused changes
// are left, the changeset is applied.
func (s *Set) applied(id string, done []Step) error {
	if s.meta.Last == id {
		return nil
	}
	s.meta.Last, s.meta.Done = id, append(s.meta.Done, done...)
	return s.over()
}

// over ends the review when only refused changes are left, and saves the state.
func (s *Set) over() error {
	then, err := s.reviewed()
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, d := range s.meta.Done {
		have[d.Path] = true
	}
	if !s.meta.Calls && !slices.ContainsFunc(then, func(c recorded) bool { return c.Refused == "" && !have[c.Path] }) {
		s.meta.State = Applied
	}
	return s.save()
}

// tidy removes the layers of a changeset that is over.
func (s *Set) tidy() error {
	if s.meta.State == Active || s.meta.State == Review {
		return nil
	}
	return s.clear()
}

// choose picks changes by path. Folders that are new and hold a chosen one come
// with it.
func choose(all []Change, paths []string) ([]Change, error) {
	chosen := make([]bool, len(all))
	for i, c := range all {
		chosen[i] = len(paths) == 0 && c.Refused == ""
	}
	for _, p := range paths {
		hit := false
		for i, c := range all {
			if beneath(c.Path, p) {
				hit = true
				if c.Refused != "" && c.Path == p {
					return nil, fault.New(fault.HandleRefused, "%s cannot be applied: %s", quote(p), c.Refused)
				}
				chosen[i] = chosen[i] || c.Refused == ""
			}
		}
		if !hit {
			return nil, fault.New(fault.NotFound, "the changeset holds no change of %s", quote(p)).ForOperator("remit changes lists them")
		}
	}
	index := map[string]int{}
	for i, c := range all {
		index[c.Path] = i
	}
	for i, c := range all {
		if !chosen[i] || c.To.Type == Nothing {
			continue
		}
		for p := range ancestors(c.Path) {
			if at, ok := index[p]; ok && all[at].To.Type == Folder && all[at].From.Type != Folder {
				chosen[at] = true
			}
		}
	}
	var out []Change
	var bad []string
	for i, c := range all {
		if !chosen[i] {
			continue
		}
		if c.Conflict != "" {
			bad = append(bad, c.Path)
		}
		out = append(out, c)
	}
	if len(bad) > 0 {
		return nil, conflict("the workspace changed underneath, nothing was applied", bad)
	}
	return out, nil
}

func steps(list []Change) []Step {
	out := make([]Step, len(list))
	for i, c := range list {
		out[i] = Step{Path: c.Path, From: c.From, To: c.To, was: c.was}
	}
	return out
}

// job prepares the steps of this set; upper nil: contents come from the copies.
func (s *Set) job(what string, list []Step, base int, upper *sources) *job {
	id := newID()
	j := &job{id: id, root: base, steps: list, blobs: s.home.blobs(), using: s.home.using, point: s.home.point,
		journal: journal{file: s.home.journal(s.meta.Run, ofSet), head: journalHead{ID: id, Run: s.meta.Run, What: what, Folder: s.meta.Workspace}}}
	j.source = j.fromBlobs
	if upper != nil {
		j.source = upper.open
	}
	return j
}

// sources opens files of a layer for several goroutines, whose paths come in
// order each.
type sources struct {
	root int
	free sync.Pool
	mu   sync.Mutex
	all  []*parents
}

func newSources(root int) *sources { return &sources{root: root} }

func (l *sources) take() *parents {
	if at, ok := l.free.Get().(*parents); ok {
		return at
	}
	at := newParents(l.root)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, at)
	return at
}

func (l *sources) close() {
	for _, at := range l.all {
		at.close()
	}
}

// open opens a step's file.
func (l *sources) open(s Step) (int, error) {
	at := l.take()
	defer l.free.Put(at)
	dir, name, err := at.at(s.Path)
	if err != nil {
		return -1, err
	}
	was, err := statAt(dir, name)
	if err != nil {
		return -1, err
	}
	return openFile(dir, name, &was)
}

// give lets a file of a layer have its name in the workspace too, if it can be
// linked there and has no other attributes than those of the step.
func (l *sources) give(s Step, dir int, name string) bool {
	at := l.take()
	defer l.free.Put(at)
	from, base, err := at.at(s.Path)
	if err != nil {
		return false
	}
	st, err := statAt(from, base)
	if err != nil || st.Nlink != 1 || typeOf(&st) != File || uint32(st.Mode)&0o7777 != s.To.Mode || st.Size != s.To.Size {
		return false
	}
	fd, err := openFile(from, base, &st)
	if err != nil {
		return false
	}
	defer shut(fd)
	return strip(fd, s.To.Attrs) && unix.Linkat(from, base, dir, name, 0) == nil
}
