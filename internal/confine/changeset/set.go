package changeset

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Home is the folder of changesets and of copies of replaced files, below $REMIT_HOME.
type Home struct {
	dir      string
	volatile bool
	point    func(string) // for tests: told at every step of a journal
}

// In gives the place below an absolute folder. Nothing is made there yet.
func In(home string) Home { return Home{dir: home} }

// Volatile returns the same place, with logs of file tools that survive the end of the
// process, and no loss of power. It is for a ledger with that durability.
func (h Home) Volatile() Home {
	h.volatile = true
	return h
}

func (h Home) changes() string      { return filepath.Join(h.dir, "changes") }
func (h Home) undo() string         { return filepath.Join(h.dir, "undo") }
func (h Home) set(id string) string { return filepath.Join(h.changes(), id) }

// blobs are the copies as a journal keeps them: it settles them all at once.
func (h Home) blobs() blobs { return blobs{filepath.Join(h.undo(), "blobs"), true} }

// Set is the changeset of one run.
type Set struct {
	home Home
	meta meta
	recs []recorded // of the review, once it is read: it never changes
}

// meta is what a set's state file holds.
type meta struct {
	Version   int    `json:"version"`
	Run       string `json:"run"`
	Workspace string `json:"workspace"`
	Device    uint64 `json:"device"` // of the workspace's folder
	Inode     uint64 `json:"inode"`
	Begun     int64  `json:"begun"`          // nanoseconds since 1970, by the file system's clock
	Boot      string `json:"boot,omitempty"` // of the machine, when the run began
	State     State  `json:"state"`
	Done      []Step `json:"done,omitempty"` // the applied steps, in order
	// Calls: held calls wait besides the files, so that the changeset is not over with them.
	Calls bool   `json:"calls,omitempty"`
	Last  string `json:"last,omitempty"` // the journal that Done was last added to by
}

// Begin makes the changeset of a run that begins, for a workspace at an
// absolute path without links.
func (h Home) Begin(run, workspace string) (*Set, error) {
	if run == "" || strings.ContainsAny(run, "/\x00") {
		return nil, fault.New(fault.Internal, "%s is not a run ID", quote(run))
	}
	s := &Set{home: h, meta: meta{Version: 1, Run: run, Workspace: workspace, State: Active}}
	if within(h.dir, workspace) {
		return nil, fault.New(fault.Usage, "changes to %s cannot be held: REMIT_HOME lies inside it", quote(workspace)).
			WithHint("set REMIT_HOME to a folder outside of the workspace")
	}
	if inner := mountsBelow(workspace); len(inner) > 0 {
		return nil, fault.New(fault.Usage, "changes to %s cannot be held: %s is mounted inside it, and a held run would see what lies underneath",
			quote(workspace), quote(inner[0])).WithHint("unmount it, or run without --changeset and files.write.hold")
	}
	root, err := rootFolder(workspace)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the workspace %s cannot be opened: %s", quote(workspace), plain(err))
	}
	defer shut(root)
	st, err := statFD(root)
	if err != nil {
		return nil, err
	}
	s.meta.Device, s.meta.Inode, s.meta.Boot = uint64(st.Dev), st.Ino, bootID()
	_, upper, work := s.Layers()
	for _, d := range []string{s.dir(), upper, work} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, s.failed(err, "made")
		}
	}
	// The upper layer's root shows as the workspace's own folder.
	if err := os.Chmod(upper, os.FileMode(st.Mode&0o777)); err != nil {
		return nil, s.failed(err, "made")
	}
	if err := s.save(); err != nil {
		return nil, err
	}
	if fi, err := os.Stat(s.file()); err == nil {
		s.meta.Begun = fi.ModTime().UnixNano()
	}
	return s, s.save()
}

func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func (s *Set) failed(err error, what string) error {
	return fault.Wrap(fault.StoreFailed, err, "the changeset of run %s cannot be %s: %s", s.meta.Run, what, plain(err))
}

// Load gives the changeset of a run, by its whole ID.
func (h Home) Load(run string) (*Set, error) {
	s := &Set{home: h, meta: meta{Run: run}}
	b, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "run %s held no changes, or they are not kept any more", run).
			WithHint("changes are held where the policy says files.write.hold, or with --changeset")
	}
	if err != nil {
		return nil, s.failed(err, "read")
	}
	if err := json.Unmarshal(b, &s.meta); err != nil || s.meta.Version != 1 || s.meta.Run != run {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the changeset of run %s cannot be read", run)
	}
	return s, nil
}

// Runs lists the runs that have a changeset.
func (h Home) Runs() ([]string, error) {
	list, err := os.ReadDir(h.changes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out, err
}

// DropUnmade removes folders of changesets whose making was broken off before
// they said anything of themselves, and that were last touched before a time.
// Nothing can have been written to them.
func (h Home) DropUnmade(before time.Time) error {
	runs, err := h.Runs()
	for _, run := range runs {
		s := &Set{home: h, meta: meta{Run: run}}
		if _, serr := os.Lstat(s.file()); !errors.Is(serr, fs.ErrNotExist) || !s.Untouched() && !s.empty() {
			continue
		}
		if fi, serr := os.Lstat(s.dir()); serr == nil && fi.ModTime().Before(before) {
			err = errors.Join(err, s.Drop())
		}
	}
	return err
}

// empty reports whether the changeset has no upper layer.
func (s *Set) empty() bool {
	_, upper, _ := s.Layers()
	_, err := os.Lstat(upper)
	return errors.Is(err, fs.ErrNotExist)
}

func (s *Set) dir() string      { return s.home.set(s.meta.Run) }
func (s *Set) file() string     { return filepath.Join(s.dir(), "state.json") }
func (s *Set) manifest() string { return filepath.Join(s.dir(), "review.json") }

// Begun is when the changeset was begun, by the file system's clock.
func (s *Set) Begun() time.Time { return time.Unix(0, s.meta.Begun) }

// Untouched reports whether nothing has been written to the changeset.
func (s *Set) Untouched() bool {
	_, upper, _ := s.Layers()
	f, err := os.Open(upper)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// Layers gives the workspace, the upper layer over it, and the work folder that
// overlayfs needs.
func (s *Set) Layers() (lower, upper, work string) {
	return s.meta.Workspace, filepath.Join(s.dir(), "upper"), filepath.Join(s.dir(), "work")
}

// State is how far the changeset has come.
func (s *Set) State() State { return s.meta.State }

// Workspace is the folder that the changes are for.
func (s *Set) Workspace() string { return s.meta.Workspace }

// Run is the ID of the run that made the changes.
func (s *Set) Run() string { return s.meta.Run }

func (s *Set) save() error {
	b, err := json.Marshal(s.meta)
	if err == nil {
		err = wholefile.Replace(s.file(), b)
	}
	if err != nil {
		return s.failed(err, "written")
	}
	return nil
}

// open opens the upper layer and the workspace.
func (s *Set) open() (upper, base int, err error) {
	lower, up, _ := s.Layers()
	if base, err = rootFolder(lower); err != nil {
		return -1, -1, fault.Wrap(fault.NotFound, err, "the workspace %s cannot be opened: %s", quote(lower), plain(err))
	}
	st, err := statFD(base)
	if err == nil && (uint64(st.Dev) != s.meta.Device || st.Ino != s.meta.Inode) {
		err = fault.New(fault.Conflict, "the workspace %s is another folder than the run's", quote(lower))
	}
	if err == nil {
		if upper, err = rootFolder(up); err != nil {
			err = s.failed(err, "read")
		}
	}
	if err != nil {
		shut(base)
		return -1, -1, err
	}
	return upper, base, nil
}

// diff compares the layers as they are now.
func (s *Set) diff(ctx context.Context, decide Decide, then known) ([]Change, error) {
	upper, base, err := s.open()
	if err != nil {
		return nil, err
	}
	defer func() { shut(upper); shut(base) }()
	out, err := diffKnown(ctx, upper, base, decide, then)
	var coded *fault.Error
	if err != nil && !errors.As(err, &coded) {
		err = s.failed(err, "read")
	}
	return out, err
}

// Review ends the active state: it records the changed files, together with the present
// ones of the workspace at the same paths. A file of the workspace that was touched since
// the run began is a conflict already.
func (s *Set) Review(ctx context.Context, decide Decide) ([]Change, error) {
	if s.meta.State != Active {
		return nil, fault.New(fault.Conflict, "the changes of run %s are %s already", s.meta.Run, s.meta.State)
	}
	if err := s.settle(); err != nil {
		return nil, err
	}
	read := time.Now()
	list, err := s.diff(ctx, decide, nil)
	if err != nil {
		return nil, err
	}
	down := s.meta.Boot != "" && s.meta.Boot != bootID() // the layer was not synced while the run went on
	for i := range list {
		if down && list[i].Refused == "" {
			list[i].Refused = "the machine went down while the run went on: what it wrote may not be whole"
		}
		if list[i].From.Type != Folder && list[i].changed > s.meta.Begun {
			list[i].Conflict = "it was changed in the workspace while the run went on"
		}
	}
	b, err := json.Marshal(records(list, read))
	if err == nil {
		err = wholefile.Replace(s.manifest(), b)
	}
	if err != nil {
		return nil, s.failed(err, "written")
	}
	s.meta.State = Review
	return list, s.save()
}

// settle makes the upper layer survive a loss of power: no overlay did.
func (s *Set) settle() error {
	_, up, _ := s.Layers()
	fd, err := rootFolder(up)
	if err == nil {
		err = wholefile.Settle(fd)
		shut(fd)
	}
	if err != nil {
		return s.failed(err, "written")
	}
	return nil
}

// Changes lists the changes that are not applied yet. Files of the workspace that changed
// since the review are conflicts.
func (s *Set) Changes(ctx context.Context, decide Decide) ([]Change, error) {
	if s.meta.State == Active {
		return s.diff(ctx, decide, nil)
	}
	recs, err := s.reviewed()
	if err != nil {
		return nil, err
	}
	then := make([]Change, len(recs))
	for i := range recs {
		then[i] = recs[i].Change
	}
	if s.meta.State != Review {
		return then, nil
	}
	now, err := s.diff(ctx, decide, knownOf(recs))
	if err != nil {
		return nil, err
	}
	return compare(then, now), nil
}

// reviewed reads what the review recorded.
func (s *Set) reviewed() ([]recorded, error) {
	if s.recs != nil {
		return s.recs, nil
	}
	b, err := os.ReadFile(s.manifest())
	if err != nil {
		return nil, s.failed(err, "read")
	}
	var out []recorded
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the changeset of run %s cannot be read", s.meta.Run)
	}
	s.recs = out
	return out, nil
}

// compare marks the present changes that differ from the recorded ones. A recorded change
// that is not among the present ones has been applied.
func compare(then, now []Change) []Change {
	for i := range now {
		c := &now[i]
		at, found := slices.BinarySearchFunc(then, c.Path, func(t Change, p string) int { return strings.Compare(t.Path, p) })
		switch {
		case c.Refused != "": // and never applied
		case !found:
			c.Conflict = "it is new in the workspace"
		case then[at].To != c.To:
			c.Conflict = "the held change itself is not the one that was recorded"
		case then[at].From != c.From && c.From.Type == Nothing:
			c.Conflict = "it is gone from the workspace"
		case then[at].From != c.From:
			c.Conflict = "it has changed in the workspace"
		default:
			c.Conflict = then[at].Conflict
		}
		if found && then[at].Refused != "" && c.Refused == "" {
			c.Refused = then[at].Refused
		}
	}
	return now
}

// lock keeps two processes from changing one set or log at a time.
func (h Home) lock(name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fault.New(fault.Conflict, "another remit is working on these changes").WithHint("wait until it is done")
			}
			return nil, err
		}
		opened, err := f.Stat()
		if err == nil {
			var named fs.FileInfo
			if named, err = os.Lstat(name); err == nil && os.SameFile(opened, named) {
				return func() { _ = f.Close() }, nil // closing releases the lock
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// The process that had the lock has removed the file since it was opened.
	}
}

// lockSet locks a run's changeset.
func (h Home) lockSet(run string) (release func() error, err error) {
	unlock, err := h.lock(filepath.Join(h.set(run), "lock"))
	return func() error { unlock(); return nil }, err
}

// locked does something while no other process does, on the state as it is.
func (s *Set) locked(do func() error) error {
	unlock, err := s.home.lock(filepath.Join(s.dir(), "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	fresh, err := s.home.Load(s.meta.Run)
	if err != nil {
		return err
	}
	s.meta = fresh.meta
	return do()
}

// decided refuses a changeset that is applied or discarded.
func (s *Set) decided() error {
	switch s.meta.State {
	case Active:
		return fault.New(fault.Conflict, "run %s goes on: its changes can be applied when it is over", s.meta.Run)
	case Review:
		return nil
	}
	return fault.New(fault.Conflict, "the changes of run %s are %s already", s.meta.Run, s.meta.State)
}

// Interrupted ends the active state of a changeset that cannot be reviewed, so
// that it can be thrown away.
func (s *Set) Interrupted() error {
	if s.meta.State != Active {
		return nil
	}
	if err := wholefile.Replace(s.manifest(), []byte("[]")); err != nil {
		return s.failed(err, "written")
	}
	s.meta.State = Review
	return s.save()
}

// Drop removes all of a changeset whose run did not begin.
func (s *Set) Drop() error {
	if err := walk.Remove(s.dir()); err != nil {
		return s.failed(err, "removed")
	}
	return nil
}

// Discard throws the changes away, once record has told of it. An error of
// record keeps them. Nobody else can decide meanwhile.
func (s *Set) Discard(record func() error) error {
	return s.locked(func() error {
		if err := s.decided(); err != nil {
			return err
		}
		if err := record(); err != nil {
			return err
		}
		s.meta.State = Rejected
		if err := s.save(); err != nil {
			return err
		}
		return s.tidy()
	})
}

// clear removes the layers, which nothing needs any more.
func (s *Set) clear() error {
	_, upper, work := s.Layers()
	for _, d := range []string{upper, work} {
		if err := walk.Remove(d); err != nil {
			return s.failed(err, "cleared")
		}
	}
	return nil
}
