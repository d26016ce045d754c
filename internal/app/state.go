package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
)

// maxState bounds a file of state, in bytes.
const maxState = 64 << 20

var errEmpty = errors.New("it holds nothing")

// readState reads what writeState wrote. Where there is no such file, v stays as
// it is. The error is a plain one: what can be done about it is for the caller to say.
func (a *App) readState(name string, v any) error {
	b, err := wholefile.ReadRegular(filepath.Join(a.cfg.Home, name), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wholefile.Cause(err)
	}
	if string(bytes.TrimSpace(b)) == "null" {
		return errEmpty
	}
	return json.Unmarshal(b, v)
}

// writeState replaces a file of $REMIT_HOME as a whole.
func (a *App) writeState(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err, "%s cannot be encoded", name)
	}
	return a.writeWhole(name, append(b, '\n'))
}

// writeWhole replaces a file of $REMIT_HOME as a whole. Only its owner can read
// it.
func (a *App) writeWhole(name string, b []byte) error {
	file := filepath.Join(a.cfg.Home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be made: %v", filepath.Dir(file), wholefile.Cause(err))
	}
	if err := wholefile.Replace(file, b); err != nil {
		return fault.Wrap(fault.StoreFailed, err, "%s cannot be written: %v", file, wholefile.Cause(err))
	}
	return nil
}

// locked does something while nobody else, in this process or another, does what
// the same lock stands for.
func (a *App) locked(lock string, do func() error) error {
	file := filepath.Join(a.cfg.Home, lock)
	unlock, err := wholefile.Lock(file)
	if err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be locked: %v", file, wholefile.Cause(err))
	}
	defer unlock()
	return do()
}

// collection is a list of things that a person added, each under a name, in one file
// of $REMIT_HOME.
type collection[T interface{ key() string }] struct {
	file    string // JSON
	article string // a or an
	one     string // what each of them is called
	many    string
	command string                       // the one that manages them
	sweep   func(a *App, list []T) error // removes what nothing in the list uses
}

// addedName is the form of the names.
var addedName = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// read lists the things by name.
func (c collection[T]) read(a *App) ([]T, error) {
	var list []T
	if err := a.readState(c.file, &list); err != nil {
		return nil, fault.Wrap(fault.Usage, err, "%s cannot be read: %v", c.file, err).
			WithHint("restore it from a copy, or remove it and add the %s again", c.many)
	}
	return list, nil
}

// find gives the thing of a name.
func (c collection[T]) find(a *App, name string) (T, error) {
	var none T
	list, err := c.read(a)
	if err != nil {
		return none, err
	}
	if i := slices.IndexFunc(list, func(x T) bool { return x.key() == name }); i >= 0 {
		return list[i], nil
	}
	return none, fault.New(fault.NotFound, "no %s is called %.80q", c.one, name).WithHint("%s list lists them", c.command)
}

// free refuses a name that a new thing cannot have.
func (c collection[T]) free(a *App, name string, replace bool) error {
	if len(name) > 40 || !addedName.MatchString(name) {
		return fault.New(fault.Usage, "%.80q is no name of %s %s: lower-case words, as github or text-tools", name, c.article, c.one)
	}
	if _, err := c.find(a, name); err != nil || replace {
		if fault.CodeOf(err) == fault.NotFound {
			return nil
		}
		return err
	}
	return fault.New(fault.Usage, "%s %s is called %s already", c.article, c.one, name).WithHint("--replace puts this one in its place")
}

// put adds a thing, in the place of one that has its name, once its files are kept.
func (c collection[T]) put(a *App, one T, keep func() error) error {
	return c.change(a, "add", one.key(), func(list []T) ([]T, error) {
		list = append(without(slices.Clone(list), one.key()), one)
		slices.SortFunc(list, func(x, y T) int { return strings.Compare(x.key(), y.key()) })
		return list, keep()
	})
}

// remove forgets the thing of a name.
func (c collection[T]) remove(a *App, name string) error {
	if _, err := c.find(a, name); err != nil {
		return err
	}
	return c.change(a, "remove", name, func(list []T) ([]T, error) { return without(slices.Clone(list), name), nil })
}

func without[T interface{ key() string }](list []T, name string) []T {
	return slices.DeleteFunc(list, func(x T) bool { return x.key() == name })
}

// change changes and records the entry of a name while no other process changes the list.
func (c collection[T]) change(a *App, verb, name string, change func([]T) ([]T, error)) error {
	return a.locked(strings.TrimSuffix(c.file, ".json")+".lock", func() error {
		was, err := c.read(a)
		if err != nil {
			return err
		}
		list, err := change(was)
		if err != nil {
			return err
		}
		about := ledger.OperatorAction{Target: name, Digest: c.digest(list, name), Was: c.digest(was, name)}
		err = a.recorded(strings.TrimPrefix(c.command, "remit ")+"."+verb, about, func() error { return a.writeState(c.file, list) })
		if err != nil {
			return err
		}
		return c.sweep(a, list)
	})
}

// digest is the digest of a name's entry, "" if the list has none.
func (c collection[T]) digest(list []T, name string) string {
	i := slices.IndexFunc(list, func(x T) bool { return x.key() == name })
	if i < 0 {
		return ""
	}
	return stateDigest(list[i], true)
}

// removeUnused removes the copies in a folder of $REMIT_HOME, named by their
// digests, that nothing uses.
func (a *App) removeUnused(folder string, used func(digest string) bool) error {
	entries, err := os.ReadDir(filepath.Join(a.cfg.Home, folder))
	if err != nil {
		return nil //nolint:nilerr // it is not there: nothing lies in it
	}
	var errs []error
	for _, e := range entries {
		if len(e.Name()) == hex.EncodedLen(sha256.Size) && !used(e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(a.cfg.Home, folder, e.Name())))
		}
	}
	return errors.Join(errs...)
}
