package home

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Named is an entry of a [Collection].
type Named interface {
	// Key is the entry's name.
	Key() string
}

// Collection is a list of things that a person added, each with a unique name, in one
// JSON file of $REMIT_HOME.
type Collection[T Named] struct {
	Home    *Home
	File    string // its base name, as "apis.json"
	Article string // of One: a or an
	One     string // the word for an entry, as "API"
	Again   string // what restores a lost list, as "add the documents"
	Command string // the command that manages them, as "remit api"

	Unknown fault.Code // the code of an unknown name; 0: fault.NotFound
	Damaged fault.Code // the code of a file that cannot be read; 0: fault.Usage
	// Decode and Encode convert between the content of the file and the list. Nil: the file is
	// a JSON list.
	Decode func(src []byte) ([]T, error)
	Encode func(list []T) any
	// Digest is the digest of an entry, for the record. Nil: of its JSON.
	Digest func(T) string
	// Sweep removes the files that no entry of the list uses any more. Nil: there are none.
	Sweep func(list []T) error
}

// nameForm is the form of an entry's name.
var nameForm = regex.Lazy(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// List gives all entries, by name.
func (c Collection[T]) List() ([]T, error) {
	list, err := c.read()
	if err != nil {
		return nil, fault.Wrap(cmp.Or(c.Damaged, fault.Usage), err, "%s cannot be read: %v", c.File, err).At(fault.Pos{File: filepath.Join(c.Home.Dir, c.File)}).
			WithHint("restore it from a copy, or remove it and %s again", c.Again)
	}
	return list, nil
}

func (c Collection[T]) read() ([]T, error) {
	src, err := c.Home.ReadFile(c.File)
	if err != nil || src == nil {
		return nil, err
	}
	var list []T
	if c.Decode == nil {
		err = json.Unmarshal(src, &list)
	} else if list, err = c.Decode(src); err == nil {
		sortByKey(list)
	}
	return list, err
}

func (c Collection[T]) write(list []T) error {
	if c.Encode == nil {
		return c.Home.Write(c.File, list)
	}
	return c.Home.Write(c.File, c.Encode(list))
}

// Find gives the entry with a name. An unknown name has the code Unknown.
func (c Collection[T]) Find(name string) (T, error) {
	list, err := c.List()
	one, known := Entry(list, name)
	if err == nil && !known {
		err = c.unknown(name)
	}
	return one, err
}

func (c Collection[T]) unknown(name string) error {
	return fault.New(cmp.Or(c.Unknown, fault.NotFound), "no %s is called %.80q", c.One, name).WithHint("%s list lists them", c.Command)
}

// CheckName refuses a malformed name for a new entry, and without replace a name in use.
func (c Collection[T]) CheckName(name string, replace bool) error {
	if len(name) > 40 || !nameForm.MatchString(name) {
		return fault.New(fault.Usage, "%.80q is not a valid name for %s %s; expected lower-case words, as github or text-tools", name, c.Article, c.One)
	}
	list, err := c.List()
	if _, known := Entry(list, name); err != nil || !known || replace {
		return err
	}
	return fault.New(fault.Usage, "%s %s is called %s already", c.Article, c.One, name).WithHint("--replace puts this one in its place")
}

// Put adds an entry, or replaces the one with its name. It calls keep, which writes the
// entry's files, before the list changes.
func (c Collection[T]) Put(one T, keep func() error) error {
	return c.Change("add", one.Key(), func(list []T) ([]T, error) { return With(list, one), keep() }, nil)
}

// Remove removes the entry with a name. An unknown name has the code Unknown.
func (c Collection[T]) Remove(name string) error {
	return c.Change("remove", name, func(list []T) ([]T, error) {
		if _, known := Entry(list, name); !known {
			return nil, c.unknown(name)
		}
		return Without(list, name), nil
	}, nil)
}

// Change changes the entry with a name under the lock of the list, and records the change.
// edit gives the new list. apply, if not nil, does what else belongs to the change: it is
// called after the change is recorded, and before the list is written.
func (c Collection[T]) Change(verb, name string, edit func([]T) ([]T, error), apply func() error) error {
	return c.Home.Locked(strings.TrimSuffix(c.File, ".json")+".lock", func() error {
		was, err := c.List()
		if err != nil {
			return err
		}
		list, err := edit(was)
		if err != nil {
			return err
		}
		about := ledger.OperatorAction{Target: name, Digest: c.digestIn(list, name), Was: c.digestIn(was, name)}
		err = c.Home.Recorded(strings.TrimPrefix(c.Command, "remit ")+"."+verb, about, func() error {
			if apply != nil {
				if err := apply(); err != nil {
					return err
				}
			}
			return c.write(list)
		})
		if err != nil || c.Sweep == nil {
			return err
		}
		return c.Sweep(list)
	})
}

// digestIn is the digest of a name's entry; "": the list has none.
func (c Collection[T]) digestIn(list []T, name string) string {
	one, known := Entry(list, name)
	if known && c.Digest != nil {
		return c.Digest(one)
	}
	return stateDigest(one, known)
}

// Entry finds the entry with a name in a list.
func Entry[T Named](list []T, name string) (one T, known bool) {
	if i := slices.IndexFunc(list, func(x T) bool { return x.Key() == name }); i >= 0 {
		return list[i], true
	}
	return one, false
}

// With gives a copy of a list that has one in place of the entry with its name.
func With[T Named](list []T, one T) []T {
	list = append(Without(list, one.Key()), one)
	sortByKey(list)
	return list
}

// Without gives a copy of a list that lacks the entry with a name.
func Without[T Named](list []T, name string) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return x.Key() == name })
}

func sortByKey[T Named](list []T) {
	slices.SortFunc(list, func(x, y T) int { return strings.Compare(x.Key(), y.Key()) })
}
