package changeset

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Log keeps what a run's file tools and commands replace: it is told before and after each
// effect, copies the content that goes, and writes a line down. From its first
// line until Close nobody else removes or undoes it. It is safe for concurrent
// use; the zero Log refuses.
type Log struct {
	home Home
	run  string

	mu     sync.Mutex
	file   *os.File
	unlock func() error // while file is open
	closed bool
	unsafe []string // folders to be synced before the first line that is to be durable

	replaced replaced
}

// line is one line of a log's file.
type line struct {
	Path   string `json:"path"` // absolute
	Before *Node  `json:"before,omitempty"`
	After  *Node  `json:"after,omitempty"`
	Is     *key   `json:"is,omitempty"`   // in place of After: the file was too large to be read
	Lost   *key   `json:"lost,omitempty"` // the state of a path of which no copy was made before a change; zero: not known
}

// Log gives the log of a run. Its file is made with the first effect.
func (h Home) Log(run string) *Log { return &Log{home: h, run: run} }

// logs is the folder of all logs: in it a folder for each end of a run's ID, which is
// random, so that no folder grows large. Only a sweep and [Home.Kept] list them.
func (h Home) logs() string { return filepath.Join(h.undo(), "runs") }

func (h Home) logFile(run string) string    { return h.logName(run) + ".jsonl" }
func (h Home) undoneFile(run string) string { return h.logName(run) + ".undone" }

func (h Home) logName(run string) string {
	return filepath.Join(h.logs(), run[max(0, len(run)-2):], run)
}

// Before keeps the file with a name in an open folder; real is its path. After an
// error, the effect must not take place.
func (l *Log) Before(real string, dir int, name string) error {
	return l.before(real, dir, name, !l.home.volatile)
}

// before is Before. If durable, the copy survives a loss of power.
func (l *Log) before(real string, dir int, name string, durable bool) error {
	release, err := l.home.using()
	if err != nil {
		return l.failed(real, err)
	}
	defer release() // the log refers to the copy by then
	copies := l.home.blobs()
	copies.volatile = !durable
	n, err := settled(func() (node Node, err error) {
		node, st, err := nodeAt(dir, name)
		switch {
		case err != nil || node.Type != File:
		case !copies.has(node):
			var fd int
			if fd, err = openFile(dir, name, &st); err == nil {
				node.Hash, node.Size, err = copies.keep(fd)
				shut(fd)
			}
		case durable: // it may have been kept for a command
			err = copies.sync(node.Hash)
		}
		return node, err
	})
	if err == nil && !durable && !utf8.ValidString(n.Target) { // JSON would change it
		err = unix.EILSEQ
	}
	if err == nil {
		err = l.write(line{Path: real, Before: &n}, durable)
	}
	return l.failed(real, err)
}

// settled looks again where a neighbour replaced the file at that moment: calls
// of one run may write one file side by side.
func settled(look func() (Node, error)) (n Node, err error) {
	for range 100 {
		if n, err = look(); !errors.Is(err, errMoved) {
			return n, err
		}
	}
	return n, err
}

// After notes the state of the file once the effect has taken place.
func (l *Log) After(real string, dir int, name string) error {
	n, err := settled(func() (Node, error) {
		n, _, err := nodeAt(dir, name)
		return n, err
	})
	if err == nil {
		err = l.write(line{Path: real, After: &n}, false) // Close syncs it: without it an undo asks
	}
	return l.failed(real, err)
}

func (l *Log) failed(real string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.ToolFailed, err, "%s cannot be kept for an undo, so it is not changed: it cannot be read", quote(real))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(fault.StoreFull, err, "no space is left to keep %s for an undo, so it is not changed", quote(real))
	}
	return fault.Wrap(fault.StoreFailed, err, "%s cannot be kept for an undo, so it is not changed: %s", quote(real), plain(err))
}

// write adds a line, and waits until it is on disk if it is to be durable.
func (l *Log) write(e line, durable bool) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	_, err = l.file.Write(append(b, '\n')) // one write: whole lines
	if err == nil && durable {
		err = l.sync()
	}
	return err
}

// sync has all lines survive a loss of power.
func (l *Log) sync() error {
	for _, folder := range l.unsafe {
		if err := wholefile.SyncFolder(folder); err != nil {
			return err
		}
	}
	l.unsafe = nil
	return l.file.Sync()
}

// open opens the file and locks it, if it is not open yet.
func (l *Log) open() error {
	switch {
	case l.run == "":
		return errors.New("no log was opened")
	case l.closed: // nobody would let go of the lock
		return errors.New("the run is over")
	case l.file != nil:
		return nil
	}
	release, err := l.home.lockLog(l.run)
	if err != nil {
		return err
	}
	f, folders, err := l.home.openLog(l.run)
	if err != nil {
		return errors.Join(err, release())
	}
	l.file, l.unsafe, l.unlock = f, folders, release
	return nil
}

// openLog opens the file of a run's log, and makes it and its folder if they are not there. unsafe are the folders in which
// there may be new names.
func (h Home) openLog(run string) (f *os.File, unsafe []string, err error) {
	name := h.logFile(run)
	dir := filepath.Dir(name)
	unsafe = []string{dir}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		unsafe = append(unsafe, h.logs())
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	f, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	return f, unsafe, err
}

// Close ends the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	var err error
	if !l.home.volatile && l.unsafe == nil { // some of it is durable
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), l.unlock())
}

// undoLog takes back what a run's file tools and commands wrote.
func (h Home) undoLog(run string, force []string) (back Back, err error) {
	if _, err := h.undoable(run); err != nil { // a run that wrote nothing needs no lock
		return back, err
	}
	release, err := h.lockLog(run)
	if errors.Is(err, fault.Conflict) {
		err = fault.New(fault.Conflict, "run %s goes on, or another remit is undoing what it wrote", run).WithHint("wait until it is over")
	}
	if err != nil {
		return back, err
	}
	defer func() { err = errors.Join(err, release()) }()
	w, err := h.undoable(run) // as it is now that nobody else is at it
	if err != nil {
		return back, err
	}
	root, err := rootFolder("/")
	if err != nil {
		return back, err
	}
	defer shut(root)
	rel := make([]string, len(force))
	for i, f := range force {
		rel[i] = strings.TrimPrefix(f, "/")
	}
	list, back, err := w.back(root, undoing{force: rel, above: "/", sound: h.blobs().sound})
	if err != nil {
		return back, err
	}
	id := newID()
	j := &job{id: id, root: root, steps: list, blobs: h.blobs(), forget: true, using: h.using, point: h.point,
		journal: journal{file: h.journal(run, ofLog), head: journalHead{ID: id, Run: run, What: "undo", Folder: "/"}}}
	j.source = j.fromBlobs
	if err = j.run(func() error { return h.logUndone(run) }); err != nil {
		return Back{}, err
	}
	for i := range back.Restored {
		back.Restored[i].Path = "/" + back.Restored[i].Path
	}
	for _, list := range [][]string{back.Kept, back.Lost, back.Left} {
		for i := range list {
			list[i] = "/" + list[i]
		}
	}
	return back, nil
}

func (h Home) logUndone(run string) error {
	err := os.Rename(h.logFile(run), h.undoneFile(run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // done before a crash
	}
	return err
}

// undoable folds a log that was not undone yet into what happened to each path.
func (h Home) undoable(run string) (writes, error) {
	if _, err := os.Lstat(h.undoneFile(run)); err == nil {
		return nil, fault.New(fault.Conflict, "the writes of run %s were undone already", run)
	}
	w, err := readLines(h.logFile(run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "run %s changed no file that can be restored, or its copies were already deleted", run).
			ForOperator("remit undo last takes the newest run that changed files")
	}
	return w, err
}

// readLines reads a log. A last line that was not written whole tells of an
// effect that never began.
func readLines(file string) (writes, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	w := writes{}
	sc := bufio.NewReader(f)
	for {
		b, err := sc.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return w, nil
		}
		if err != nil {
			return nil, err
		}
		var e line
		if err := json.Unmarshal(b, &e); err != nil {
			return nil, fault.Wrap(fault.StoreCorrupt, err, "the undo log %s cannot be read", quote(file))
		}
		p := strings.TrimPrefix(e.Path, "/")
		switch {
		case e.Before != nil:
			w.add(p, *e.Before, nil)
		case e.Lost != nil && w[p] == nil:
			w[p] = &written{lost: e.Lost}
		case e.After != nil && w[p] != nil:
			w[p].to, w[p].is = e.After, nil
		case e.Is != nil && w[p] != nil:
			w[p].to, w[p].is = nil, e.Is
		}
	}
}

// Changed lists the absolute paths that a run's file tools and commands, or its changeset, are known to have changed, and
// that were not undone. A folder stands for all in it.
func (h Home) Changed(run string) (out []string, err error) {
	if s, err := h.Load(run); err == nil {
		for _, d := range s.meta.Done {
			out = append(out, join(s.Workspace(), d.Path))
		}
		return out, nil
	}
	w, err := h.undoable(run)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Conflict) { // it changed nothing, or nothing is left of it
		return nil, nil
	}
	for _, p := range sortedPaths(w) {
		if e := w[p]; p != "" && (e.to == nil || *e.to != e.from) {
			out = append(out, "/"+p)
		}
	}
	return out, err
}
