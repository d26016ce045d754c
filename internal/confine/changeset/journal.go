package changeset

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// journal lists the steps of a job before they begin, so that a later start can finish it
// or take it back: one JSON document, then marks, a line each.
type journal struct {
	file string
	head journalHead
}

// What a journal changes: the end of its file's name.
const (
	ofSet = ".changeset" // a changeset of a run
	ofLog = ".log"       // the log of a run's file tools
)

// journals is the folder of all journals, which holds unfinished ones only.
func (h Home) journals() string { return filepath.Join(h.undo(), "journals") }

func (h Home) journal(run, of string) string { return filepath.Join(h.journals(), run+of) }

// journalHead is the document.
type journalHead struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Run     string `json:"run"`
	What    string `json:"what"` // "apply" or "undo"
	Folder  string `json:"folder"`
	Steps   []Step `json:"steps"`
}

// The marks. Before commit nothing but temporary files was made; after it the
// job is finished, unless abort says that it is being taken back.
const (
	commit = "commit"
	abort  = "abort"
)

// begin writes the intent, durably. There must be no other journal.
func (j *journal) begin(steps []Step) error {
	if _, err := os.Lstat(j.file); err == nil {
		return fault.New(fault.Conflict, "an earlier change of this run has not come to its end").WithHint("run the command again")
	}
	j.head.Version, j.head.Steps = 1, steps
	b, err := json.Marshal(j.head)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(j.file), 0o700); err != nil {
		return err
	}
	return wholefile.Replace(j.file, append(b, '\n'))
}

// mark adds a line, durably.
func (j *journal) mark(m string) error {
	f, err := os.OpenFile(j.file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(m + "\n")
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (j *journal) remove() error {
	if err := os.Remove(j.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return wholefile.SyncFolder(filepath.Dir(j.file))
}

// readJournal gives a journal and its last whole mark, or fs.ErrNotExist.
func readJournal(file string) (j journal, last string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return j, "", err
	}
	lines := bytes.Split(b, []byte("\n"))
	j.file = file
	dec := json.NewDecoder(bytes.NewReader(lines[0]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j.head); err != nil || j.head.Version != 1 {
		return j, "", fault.Wrap(fault.StoreCorrupt, err, "the journal %s cannot be read", quote(file))
	}
	for _, l := range lines[1:max(1, len(lines)-1)] { // a line without its end was not written whole
		last = string(l)
	}
	return j, last, nil
}
