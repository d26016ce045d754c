package changeset

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Step is the change of one path, from its present state to the wanted one.
type Step struct {
	Path string `json:"path"` // relative to the job's folder
	From Node   `json:"from"`
	To   Node   `json:"to"`

	was key // of From when it was read, if known
}

func (s Step) reversed() Step { return Step{Path: s.Path, From: s.To, To: s.From} }

// job carries steps out in a folder, all or none. Its steps are sorted by path.
type job struct {
	id     string // names its temporary files
	root   int    // the open folder that paths are relative to
	steps  []Step
	source func(Step) (int, error) // a file's new content, open; from several goroutines
	// link gives a file's new content a name in an open folder instead of copying
	// it, and says whether it could. nil: everything is copied.
	link    func(s Step, dir int, name string) bool
	blobs   blobs // where the old content is kept
	journal journal
	forget  bool                               // the content that is replaced is not kept once the job is done
	using   func() (release func(), err error) // keeps a sweep away
	point   func(string)                       // told before each step of the journal's life; nil outside of tests

	told sync.Mutex
	keys []key // of the steps' paths when they were checked
}

func (j *job) tell(name string) {
	if j.point != nil {
		j.told.Lock()
		defer j.told.Unlock()
		j.point(name)
	}
}

// run does all of it. An error means that nothing has changed, or, where even
// taking it back failed, that the journal stays for a later start.
func (j *job) run(finish func() error) error {
	if j.using != nil { // the copies that are kept now are referred to by the journal only later
		release, err := j.using()
		if err != nil {
			return about(j.journal.head.Folder, err)
		}
		defer release()
	}
	if err := j.prepare(); err != nil {
		return errors.Join(err, j.drop())
	}
	j.tell("stage")
	err := j.stage("")
	if err == nil {
		err = wholefile.Settle(j.root)
	}
	if err == nil {
		j.tell("commit")
		err = j.journal.mark(commit)
	}
	if err != nil {
		return errors.Join(err, j.none())
	}
	if err := j.perform("", true); err != nil {
		return j.back(err)
	}
	return j.end(finish)
}

// prepare does what comes before the first temporary file.
func (j *job) prepare() error {
	if err := j.check(); err != nil {
		return err
	}
	if err := j.blobs.settle(); err != nil {
		return err
	}
	j.tell("begin")
	return j.journal.begin(j.steps)
}

// none removes all that a job made that was not committed.
func (j *job) none() error {
	j.sweep()
	if err := j.drop(); err != nil {
		return err
	}
	return j.journal.remove()
}

// drop forgets the files that were lent.
func (j *job) drop() error {
	return j.lent(func(i int) error { return j.blobs.drop(j.id, j.steps[i]) })
}

// adopt makes copies of the files that were lent and have been replaced.
func (j *job) adopt() error {
	return j.lent(func(i int) error {
		var was key
		if j.keys != nil {
			was = j.keys[i]
		}
		return j.blobs.adopt(j.id, j.steps[i], was)
	})
}

// lent does something for every step whose file may have been lent.
func (j *job) lent(do func(i int) error) error {
	return j.parts(func(_ *parents, i int) error {
		if j.steps[i].From.Type != File {
			return nil
		}
		j.tell("lent")
		return do(i)
	})
}

func (j *job) end(finish func() error) error {
	j.tell("adopt")
	keep := j.adopt
	if j.forget {
		keep = j.drop
	}
	if err := keep(); err != nil {
		return err
	}
	j.tell("settle") // of adopted files as well: nothing is lent across file systems
	if err := wholefile.Settle(j.root); err != nil {
		return err
	}
	j.tell("finish")
	if err := finish(); err != nil {
		return err
	}
	j.tell("remove")
	return j.journal.remove()
}

// back takes the finished steps back, and returns the error that led here.
func (j *job) back(cause error) error {
	j.tell("abort")
	if err := j.journal.mark(abort); err != nil {
		return errors.Join(cause, err)
	}
	err := j.takeBack()
	if left := new(leftAlone); errors.As(err, &left) { // that is theirs; the rest is as it was
		return fault.Wrap(fault.CodeOf(cause), errors.Join(cause, err), "%s; %s", fault.Message(cause), left)
	}
	if err != nil {
		return fault.Wrap(fault.CodeOf(cause), errors.Join(cause, err),
			"%s; and the finished steps could not be taken back: %s", fault.Message(cause), fault.Message(err))
	}
	return cause
}

func (j *job) takeBack() error {
	r := &job{id: j.id, root: j.root, blobs: j.blobs, journal: j.journal, point: j.point, source: j.fromBlobs}
	r.link = func(s Step, dir int, name string) bool { return j.blobs.giveBack(j.id, s.reversed(), dir, name) }
	for _, s := range j.steps {
		r.steps = append(r.steps, s.reversed())
	}
	j.sweep()
	if err := r.stage("r"); err != nil {
		return err
	}
	left := r.perform("r", false)
	if left != nil && !errors.As(left, new(*leftAlone)) {
		return left
	}
	r.sweep()
	if err := wholefile.Settle(j.root); err != nil {
		return err
	}
	if err := j.none(); err != nil {
		return err
	}
	return left
}

func (j *job) fromBlobs(s Step) (int, error) { return j.blobs.open(s.To.Hash) }

// check compares every path with what it shall be before, and keeps what would
// be lost.
func (j *job) check() error {
	j.keys = make([]key, len(j.steps))
	differs := make([]bool, len(j.steps))
	err := j.parts(func(at *parents, i int) error {
		s := j.steps[i]
		now, st, err := j.look(at, s)
		differs[i] = now != s.From
		if err == nil && !differs[i] && now.Type != Nothing {
			j.keys[i] = keyOf(&st)
		}
		return err
	})
	if err != nil {
		return err
	}
	var differ []string
	for i, s := range j.steps {
		if differs[i] {
			differ = append(differ, s.Path)
		}
	}
	if len(differ) > 0 {
		return conflict("these paths have changed in the workspace", differ)
	}
	return nil
}

// parts does something for every step, in a few goroutines that each take a row
// of them. It gives the error of the first path that has one.
func (j *job) parts(do func(at *parents, i int) error) error {
	const row = 64
	errs := make([]error, (len(j.steps)+row-1)/row)
	each(len(errs), 1, func(n int) {
		at := newParents(j.root)
		defer at.close()
		for i := n * row; i < min((n+1)*row, len(j.steps)) && errs[n] == nil; i++ {
			if err := do(at, i); err != nil {
				errs[n] = about(j.steps[i].Path, err)
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// look reads a path and keeps its content if it is a file that will go.
func (j *job) look(at *parents, s Step) (Node, unix.Stat_t, error) {
	dir, name, err := at.at(s.Path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return Node{}, unix.Stat_t{}, nil
	}
	if err != nil {
		return Node{}, unix.Stat_t{}, err
	}
	now, st, err := s.still(dir, name)
	if err != nil || now.Type != File || now != s.From || s.To.Type == File && !s.needsTemp() || j.blobs.has(now) {
		return now, st, err
	}
	if st.Nlink == 1 && j.blobs.lend(dir, name, j.id, s) {
		st, err = statAt(dir, name)
		return now, st, err
	}
	fd, err := openFile(dir, name, &st)
	if err != nil {
		return now, st, err
	}
	defer shut(fd)
	hash, _, err := j.blobs.keep(fd)
	if err == nil && hash != now.Hash {
		err = errMoved
	}
	return now, st, err
}

// still reads the file at a step's path, unless it is unchanged since it was read.
func (s Step) still(dir int, name string) (Node, unix.Stat_t, error) {
	st, err := statAt(dir, name)
	if err == nil && s.was.Type == File && keyOf(&st) == s.was {
		return s.From, st, nil
	}
	return nodeAt(dir, name)
}

// temp names the file that a step's new content waits in.
func (j *job) temp(i int, way string) string { return fmt.Sprintf(".remit-%s-%s%d.tmp", j.id, way, i) }

// needsTemp: what appears by a rename. Only permissions change in place: other
// attributes are several, and half of them would be neither state.
func (s Step) needsTemp() bool {
	return s.To.Type == Link && s.From != s.To || s.To.Type == File && (s.From.content() != s.To.content() || s.From.Attrs != s.To.Attrs)
}

// stage writes the new contents beside where they will be, or as near as there
// is a folder yet. On a resumed job, finished steps need nothing, and files that
// somebody else has changed are left alone.
func (j *job) stage(way string) error {
	return j.parts(func(at *parents, i int) error {
		s := j.steps[i]
		if !s.needsTemp() {
			return nil
		}
		if j.keys == nil { // resumed or taken back: it may be done
			if now, err := j.now(at, s.Path); err == nil && (now == s.To || s.foreign(now)) {
				return nil
			}
		}
		return j.wait(at, i, way, s)
	})
}

// foreign: neither what the step starts from nor anything on its way.
func (s Step) foreign(now Node) bool {
	return now != s.From && now != s.To && now.Type != Nothing && (now.Type != Folder || s.From.Type != Folder)
}

// wait puts a step's new content where it waits for its rename.
func (j *job) wait(at *parents, i int, way string, s Step) error {
	dir, _, err := at.at(s.Path)
	if err != nil {
		if dir, err = j.nearest(s.Path); err != nil {
			return err
		}
		defer shut(dir)
	}
	j.tell("temp")
	return j.write(dir, j.temp(i, way), s)
}

// now reads a path; an unreachable path counts as empty.
func (j *job) now(at *parents, p string) (Node, error) {
	dir, name, err := at.at(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return Node{}, nil
	}
	if err != nil {
		return Node{}, err
	}
	n, _, err := nodeAt(dir, name)
	return n, err
}

// nearest opens the nearest folder on the way to a path that is there.
func (j *job) nearest(p string) (int, error) {
	for p = path.Dir(p); ; p = path.Dir(p) {
		fd, err := openBelow(j.root, p)
		if err == nil || p == "." || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			return fd, err
		}
	}
}

func (j *job) write(dir int, name string, s Step) error {
	if s.To.Type == Link {
		return unix.Symlinkat(s.To.Target, dir, name)
	}
	if j.link != nil && j.link(s, dir, name) {
		return nil
	}
	in, err := j.source(s)
	if err != nil {
		return err
	}
	defer shut(in)
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return err
	}
	hash, _, err := hashOf(in, fd)
	if err == nil && hash != s.To.Hash {
		err = fault.New(fault.Conflict, "the content of %s is not the one that was recorded", quote(s.Path))
	}
	if err == nil {
		err = own(in, fd)
	}
	if err == nil {
		err = setAttrs(fd, s.To.Attrs)
	}
	if err == nil {
		err = unix.Fchmod(fd, s.To.Mode&0o1777)
	}
	return errors.Join(err, unix.Close(fd))
}

// own gives a copy the owner of the original, where the system permits that.
func own(from, to int) error {
	st, err := statFD(from)
	if err == nil {
		err = unix.Fchown(to, int(st.Uid), int(st.Gid))
	}
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// perform makes the steps real: first what goes, from the deepest; then what
// comes, from the top; then permissions of folders, from the deepest. first
// says that no step can have been done before.
func (j *job) perform(way string, first bool) error {
	p := &performer{job: j, way: way, first: first, at: newParents(j.root)}
	defer p.at.close()
	for i := range slices.Backward(j.steps) {
		if err := p.do(i, p.goes); err != nil {
			return err
		}
	}
	for i := range j.steps {
		if err := p.do(i, p.comes); err != nil {
			return err
		}
	}
	for i := range slices.Backward(j.steps) {
		if err := p.do(i, p.modes); err != nil {
			return err
		}
	}
	if len(p.left) > 0 {
		return &leftAlone{p.left}
	}
	return nil
}

// leftAlone says which paths somebody else has changed between a crash and now.
type leftAlone struct{ paths []string }

func (l *leftAlone) Error() string {
	return fault.Message(conflict("left as they are, since they have changed meanwhile", l.paths))
}

// resume goes on after a crash: forward where the journal was committed, else
// back. finish is called where it went forward.
func (j *job) resume(last string, finish func() error) error {
	switch last {
	case commit:
	case abort:
		return j.takeBack()
	default:
		return j.none()
	}
	j.sweep()
	if err := j.stage(""); err != nil {
		return j.back(err)
	}
	left := j.perform("", false)
	if left != nil && !errors.As(left, new(*leftAlone)) {
		return j.back(left)
	}
	j.sweep()
	return errors.Join(j.end(finish), left)
}

// sweep removes temporary files that were not used.
func (j *job) sweep() {
	for i, s := range j.steps {
		if s.To.Type != File && s.To.Type != Link && s.From.Type != File && s.From.Type != Link {
			continue
		}
		for p := path.Dir(s.Path); ; p = path.Dir(p) {
			if fd, err := openBelow(j.root, p); err == nil {
				_ = unix.Unlinkat(fd, j.temp(i, ""), 0) // mostly there is none
				_ = unix.Unlinkat(fd, j.temp(i, "r"), 0)
				shut(fd)
			}
			if p == "." {
				break
			}
		}
	}
}

// about names the path that an error is about.
func about(p string, err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	switch {
	case errors.Is(err, errMoved):
		return fault.New(fault.Conflict, "%s changes while it is read", quote(p))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(fault.ToolFailed, err, "no space is left for %s", quote(p))
	case errors.Is(err, unix.EROFS):
		return fault.Wrap(fault.ToolFailed, err, "%s is on a file system that cannot be written", quote(p))
	}
	return fault.Wrap(fault.ToolFailed, err, "%s: %s", quote(p), plain(err))
}
