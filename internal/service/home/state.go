package home

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// maxState bounds a file of state, in bytes.
const maxState = 64 << 20

// errEmpty is the error of Read for a file that holds null.
var errEmpty = errors.New("the file is empty")

// Read reads a file that Write wrote into v. A missing file leaves v as it is. The error is a plain
// one; the caller adds the advice.
func (h *Home) Read(name string, v any) error {
	b, err := h.ReadFile(name)
	if err != nil || b == nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// ReadFile reads a JSON file of $REMIT_HOME; nil: it is missing.
func (h *Home) ReadFile(name string) ([]byte, error) {
	b, err := wholefile.ReadRegular(filepath.Join(h.Dir, name), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, wholefile.Cause(err)
	}
	if string(bytes.TrimSpace(b)) == "null" {
		return nil, errEmpty
	}
	return b, nil
}

// Write replaces a file of $REMIT_HOME with v as JSON, atomically.
func (h *Home) Write(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err, "%s cannot be encoded", name)
	}
	return h.WriteFile(name, append(b, '\n'))
}

// WriteFile replaces a file of $REMIT_HOME atomically. Only its owner can read it.
func (h *Home) WriteFile(name string, b []byte) error {
	file := filepath.Join(h.Dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be made: %v", filepath.Dir(file), wholefile.Cause(err))
	}
	if err := wholefile.Replace(file, b); err != nil {
		return fault.Wrap(fault.StoreFailed, err, "%s cannot be written: %v", file, wholefile.Cause(err))
	}
	return nil
}

// Locked calls do while it holds a lock file, which excludes other holders of the same
// lock in this process and in others.
func (h *Home) Locked(lock string, do func() error) error {
	file := filepath.Join(h.Dir, lock)
	unlock, err := wholefile.Lock(file)
	if err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be locked: %v", file, wholefile.Cause(err))
	}
	defer unlock()
	return do()
}

// RemoveUnused removes the copies in a folder of $REMIT_HOME, which are named by their
// digests, that nothing uses.
func (h *Home) RemoveUnused(folder string, used func(digest string) bool) error {
	entries, err := os.ReadDir(filepath.Join(h.Dir, folder))
	if err != nil {
		return nil //nolint:nilerr // no folder, no copies
	}
	var errs []error
	for _, e := range entries {
		if len(e.Name()) == hex.EncodedLen(sha256.Size) && !used(e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(h.Dir, folder, e.Name())))
		}
	}
	return errors.Join(errs...)
}
