package servers

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/home"
)

// memory keeps the seen and accepted versions of tools: a file for each source in
// $REMIT_HOME/tools, replaced as a whole under a lock that all processes share. It is safe for
// concurrent use.
type memory struct {
	home *home.Home

	mu     sync.Mutex
	loaded map[string]remembered
}

// remembered is a file as it was read. Every write makes a new file, so that a
// look at it tells whether it is still the same.
type remembered struct {
	file    fs.FileInfo // nil: there is none
	records map[tool.ID]catalog.Record
}

// maxMemory bounds a source's file, in bytes: a source's largest tools twice, as accepted and as
// seen.
const maxMemory = 256 << 20

const toolFolder = "tools"

func toolFile(source string) string { return filepath.Join(toolFolder, url.PathEscape(source)+".json") }

// Load implements catalog.Memory.
func (m *memory) Load(source string) (map[tool.ID]catalog.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	file := filepath.Join(m.home.Dir, toolFile(source))
	fi, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		m.keep(source, remembered{})
		return nil, nil //nolint:nilnil // nothing is remembered
	}
	if err != nil {
		return nil, unremembered(file, err)
	}
	if was := m.loaded[source]; was.file != nil && os.SameFile(was.file, fi) && was.file.ModTime().Equal(fi.ModTime()) && was.file.Size() == fi.Size() {
		return was.records, nil
	}
	b, err := wholefile.ReadRegular(file, maxMemory)
	records := map[tool.ID]catalog.Record{}
	if err == nil {
		err = json.Unmarshal(b, &records)
	}
	if err != nil {
		return nil, unremembered(file, err)
	}
	m.keep(source, remembered{fi, records})
	return records, nil
}

func (m *memory) keep(source string, r remembered) {
	if m.loaded == nil {
		m.loaded = map[string]remembered{}
	}
	m.loaded[source] = r
}

func unremembered(file string, err error) error {
	return fault.Wrap(fault.StoreFailed, err, "%q cannot be read: %v", file, wholefile.Cause(err)).
		WithHint("restore it from a copy; without it every tool of its source counts as new")
}

// Change implements catalog.Memory.
func (m *memory) Change(source string, f func(map[tool.ID]catalog.Record) bool) error {
	return m.home.Locked(filepath.Join(toolFolder, ".lock"), func() error {
		was, err := m.Load(source)
		if err != nil {
			return err
		}
		next := maps.Clone(was)
		if next == nil {
			next = map[tool.ID]catalog.Record{}
		}
		if !f(next) {
			return nil
		}
		b, err := json.Marshal(next) // without spaces: it is read at every start
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the tools of %s cannot be encoded", source)
		}
		return m.home.WriteFile(toolFile(source), append(b, '\n'))
	})
}

// failingFile keeps which sources fail. Losing it only has them asked sooner.
var failingFile = filepath.Join(toolFolder, ".failing.json")

// Failure implements catalog.FailureMemory.
func (m *memory) Failure(source string) *catalog.Failure {
	all := map[string]*catalog.Failure{}
	if m.home.Read(failingFile, &all) != nil {
		return nil
	}
	return all[source]
}

// Failed implements catalog.FailureMemory.
func (m *memory) Failed(source string, f *catalog.Failure) {
	_ = m.home.Locked(filepath.Join(toolFolder, ".lock"), func() error { // see failingFile
		all := map[string]*catalog.Failure{}
		if m.home.Read(failingFile, &all) != nil || all == nil {
			all = map[string]*catalog.Failure{}
		}
		if all[source] = f; f == nil {
			delete(all, source)
		}
		return m.home.Write(failingFile, all)
	})
}

// Memory is what this $REMIT_HOME remembers of the tools of all sources.
func Memory(h *home.Home) catalog.Memory { return &memory{home: h} }

// ForgetFailures has every source asked again without delay: the operator's change, such as a
// login, may have removed the cause of a failure.
func ForgetFailures(h *home.Home) {
	file := filepath.Join(h.Dir, failingFile)
	if _, err := os.Stat(file); err != nil {
		return
	}
	_ = h.Locked(filepath.Join(toolFolder, ".lock"), func() error { return os.Remove(file) }) // see failingFile
}
