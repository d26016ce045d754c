package changeset

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// Retention limits how long finished changesets and logs are kept, so that they can be
// undone. An undecided changeset is kept without a limit.
type Retention struct {
	Age   time.Duration // since it was applied, thrown away, undone or last written to; 0: for ever
	Bytes int64         // of all copies; the oldest go first; 0: no bound

	Forgotten map[string]bool // runs that are over whose copies go at once
}

// sweepEvery is how often a start looks for what need not be kept any more.
const sweepEvery = 24 * time.Hour

// abandoned is the age from which on an incomplete file was left by a crash.
const abandoned = 24 * time.Hour

// Kept counts the kept data, and the data that a sweep removed.
type Kept struct {
	Waiting int   // changesets that nobody has decided about
	Over    int   // changesets and logs of file tools that can be undone, or were
	Bytes   int64 // of copies
	Removed int   // changesets and logs that went
	Freed   int64 // bytes of copies that went
	Swept   time.Time
}

// using keeps a sweep away while copies are kept that nothing refers to yet.
func (h Home) using() (release func(), err error) {
	if err := os.MkdirAll(h.undo(), 0o700); err != nil {
		return nil, err
	}
	return h.flock(unix.LOCK_SH)
}

func (h Home) flock(how int) (release func(), err error) {
	fd, err := again(func() (int, error) {
		return unix.Open(filepath.Join(h.undo(), "lock"), unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, err
	}
	if _, err := again(func() (int, error) { return 0, unix.Flock(fd, how) }); err != nil {
		shut(fd)
		return nil, err
	}
	return func() { shut(fd) }, nil // closing lets go of the lock
}

func (h Home) sweptFile() string { return filepath.Join(h.undo(), "swept") }

// SweepDaily is Sweep, if the last one was a day ago and nobody is in the way.
func (h Home) SweepDaily(r Retention) (Kept, error) {
	if fi, err := os.Lstat(h.sweptFile()); err == nil && time.Since(fi.ModTime()) < sweepEvery {
		return Kept{}, nil
	}
	return h.Sweep(r)
}

// Sweep removes what need not be kept any more. While somebody keeps copies, it
// does nothing.
func (h Home) Sweep(r Retention) (Kept, error) {
	if h.empty() {
		return Kept{}, nil
	}
	if err := os.MkdirAll(h.undo(), 0o700); err != nil {
		return Kept{}, err
	}
	release, err := h.flock(unix.LOCK_EX | unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return Kept{}, nil
	}
	if err != nil {
		return Kept{}, err
	}
	defer release()
	s, err := h.survey()
	if err != nil {
		return Kept{}, err
	}
	var errs []error
	now := time.Now()
	for _, it := range s.over {
		if r.Age > 0 && now.Sub(it.when) > r.Age || r.Bytes > 0 && s.bytes() > r.Bytes || r.Forgotten[it.set] || r.Forgotten[it.run] {
			errs = append(errs, s.remove(h, it))
		}
	}
	errs = append(errs, s.collect(now), os.WriteFile(h.sweptFile(), nil, 0o600), os.Chtimes(h.sweptFile(), now, now))
	return s.kept(now), errors.Join(errs...)
}

func (h Home) empty() bool {
	for _, d := range []string{h.changes(), h.undo()} {
		if _, err := os.Lstat(d); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// Kept counts the kept data, and changes nothing. It does not read the logs, of which there
// may be a hundred thousand, so that copies count which the next sweep removes.
func (h Home) Kept() (Kept, error) {
	s := newStock()
	logs, err := h.listLogs()
	if err = errors.Join(err, h.surveySets(s), h.surveyCopies(s)); err != nil {
		return Kept{}, err
	}
	k := Kept{Waiting: s.waiting, Over: len(s.over) + len(logs)}
	for _, size := range s.sizes {
		k.Bytes += size
	}
	if fi, err := os.Lstat(h.sweptFile()); err == nil {
		k.Swept = fi.ModTime()
	}
	return k, nil
}

// item is a changeset or a log that is over.
type item struct {
	set, run string // the changeset's run, or the log's
	when     time.Time
	hashes   []string
}

// stock is all that is kept.
type stock struct {
	over    []item // the oldest first
	waiting int
	refs    map[string]int    // copies → how many refer to them
	sizes   map[string]int64  // of copies
	files   map[string]string // copies → where they are
	strays  []string          // copies that were never finished, and names that were lent
	jobs    map[string]bool   // those with a journal: files lent to them are theirs
	removed int
	freed   int64
}

func newStock() *stock {
	return &stock{refs: map[string]int{}, sizes: map[string]int64{}, files: map[string]string{}, jobs: map[string]bool{}}
}

func (s *stock) bytes() (n int64) {
	for hash, size := range s.sizes {
		if s.refs[hash] > 0 {
			n += size
		}
	}
	return n
}

func (s *stock) kept(swept time.Time) Kept {
	return Kept{Waiting: s.waiting, Over: len(s.over) - s.removed, Bytes: s.bytes(), Removed: s.removed, Freed: s.freed, Swept: swept}
}

// survey lists all that is kept and what it refers to.
func (h Home) survey() (*stock, error) {
	s := newStock()
	if err := errors.Join(h.surveySets(s), h.surveyLogs(s), h.surveyCopies(s)); err != nil {
		return nil, err
	}
	slices.SortFunc(s.over, func(a, b item) int {
		return cmp.Or(a.when.Compare(b.when), strings.Compare(a.set+a.run, b.set+b.run))
	})
	return s, nil
}

func (h Home) surveySets(s *stock) error {
	runs, err := h.Runs()
	if err != nil {
		return err
	}
	for _, run := range runs {
		set, err := h.Load(run)
		if errors.Is(err, fault.NotFound) {
			if fi, err := os.Lstat(h.set(run)); err == nil && time.Since(fi.ModTime()) > abandoned {
				s.over = append(s.over, item{set: run, when: fi.ModTime()})
			}
			continue
		}
		if err != nil {
			return err // the copies that it refers to are not known
		}
		hashes := hashesOf(set.meta.Done)
		if jr, _, err := readJournal(h.journal(run, ofSet)); err == nil {
			hashes, s.jobs[jr.head.ID] = append(hashes, hashesOf(jr.head.Steps)...), true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.refer(hashes)
		if st := set.State(); st == Active || st == Review {
			s.waiting++
		} else if fi, err := os.Lstat(set.file()); err == nil {
			s.over = append(s.over, item{set: run, when: fi.ModTime(), hashes: hashes})
		}
	}
	return nil
}

// listLogs gives the files of all logs of file tools.
func (h Home) listLogs() ([]string, error) {
	list, err := filepath.Glob(filepath.Join(h.logs(), "*", "*"))
	return slices.DeleteFunc(list, func(file string) bool { return runOf(file) == "" }), err
}

// runOf gives the run of a log's file; "": the file is not a log.
func runOf(file string) string {
	name := filepath.Base(file)
	for _, end := range []string{".jsonl", ".undone"} {
		if run, ok := strings.CutSuffix(name, end); ok {
			return run
		}
	}
	return ""
}

func (h Home) surveyLogs(s *stock) error {
	journals, err := filepath.Glob(filepath.Join(h.journals(), "*"+ofLog))
	if err != nil {
		return err
	}
	for _, file := range journals {
		jr, _, err := readJournal(file)
		if err != nil {
			return err
		}
		s.jobs[jr.head.ID] = true
		s.refer(hashesOf(jr.head.Steps))
	}
	logs, err := h.listLogs()
	if err != nil {
		return err
	}
	for _, file := range logs {
		w, err := readLines(file)
		if err != nil {
			return err
		}
		var hashes []string
		for _, e := range w {
			hashes = append(hashes, e.from.Hash, e.last.Hash)
		}
		hashes = slices.DeleteFunc(hashes, func(h string) bool { return h == "" })
		s.refer(hashes)
		if fi, err := os.Lstat(file); err == nil {
			s.over = append(s.over, item{run: runOf(file), when: fi.ModTime(), hashes: hashes})
		}
	}
	return nil
}

func (h Home) surveyCopies(s *stock) error {
	err := filepath.WalkDir(h.blobs().dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), unfinished) {
			s.strays = append(s.strays, p)
			return nil
		}
		s.sizes[d.Name()], s.files[d.Name()] = fi.Size(), p
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func hashesOf(list []Step) (out []string) {
	for _, s := range list {
		for _, n := range []Node{s.From, s.To} {
			if n.Hash != "" {
				out = append(out, n.Hash)
			}
		}
	}
	return out
}

func (s *stock) refer(hashes []string) {
	for _, h := range hashes {
		s.refs[h]++
	}
}

// remove takes one thing away that is over, unless somebody works on it.
func (s *stock) remove(h Home, it item) (err error) {
	journal, lock := h.journal(it.set, ofSet), func() (func() error, error) { return h.lockSet(it.set) }
	gone := func() error { return walk.Remove(h.set(it.set)) }
	if it.run != "" {
		journal, lock = h.journal(it.run, ofLog), func() (func() error, error) { return h.lockLog(it.run) }
		gone = func() error { return errors.Join(removeFile(h.logFile(it.run)), removeFile(h.undoneFile(it.run))) }
	}
	if _, err := os.Lstat(journal); err == nil {
		return nil
	}
	release, err := lock()
	if errors.Is(err, fault.Conflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := gone(); err != nil {
		return err
	}
	s.removed++
	for _, hash := range it.hashes {
		s.refs[hash]--
	}
	return nil
}

// removeFile removes a file that may be gone already.
func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// collect removes copies that nothing refers to.
func (s *stock) collect(now time.Time) error {
	var errs []error
	for hash, file := range s.files {
		if s.refs[hash] > 0 {
			continue
		}
		errs = append(errs, os.Remove(file))
		s.freed += s.sizes[hash]
	}
	for _, file := range s.strays {
		if s.jobs[lentTo(filepath.Base(file))] {
			continue
		}
		if fi, err := os.Lstat(file); err == nil && now.Sub(fi.ModTime()) > abandoned {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}
