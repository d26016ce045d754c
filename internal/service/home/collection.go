package home

import (
	"regexp"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
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
	Many    string // the word for several, as "documents"
	Command string // the command that manages them, as "remit api"
	// Sweep removes the files that no entry of the list uses any more.
	Sweep func(list []T) error
}

// nameForm is the form of an entry's name.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// List gives all entries, by name.
func (c Collection[T]) List() ([]T, error) {
	var list []T
	if err := c.Home.Read(c.File, &list); err != nil {
		return nil, fault.Wrap(fault.Usage, err, "%s cannot be read: %v", c.File, err).
			WithHint("restore it from a copy, or remove it and add the %s again", c.Many)
	}
	return list, nil
}

// Find gives the entry with a name; fault.NotFound.
func (c Collection[T]) Find(name string) (T, error) {
	var none T
	list, err := c.List()
	if err != nil {
		return none, err
	}
	if i := indexOf(list, name); i >= 0 {
		return list[i], nil
	}
	return none, fault.New(fault.NotFound, "no %s is called %.80q", c.One, name).WithHint("%s list lists them", c.Command)
}

// CheckName refuses a malformed name for a new entry, and without replace a name in use.
func (c Collection[T]) CheckName(name string, replace bool) error {
	if len(name) > 40 || !nameForm.MatchString(name) {
		return fault.New(fault.Usage, "%.80q is not a valid name for %s %s; expected lower-case words, as github or text-tools", name, c.Article, c.One)
	}
	if _, err := c.Find(name); err != nil || replace {
		if fault.CodeOf(err) == fault.NotFound {
			return nil
		}
		return err
	}
	return fault.New(fault.Usage, "%s %s is called %s already", c.Article, c.One, name).WithHint("--replace puts this one in its place")
}

// Put adds an entry, or replaces the one with its name. It calls keep, which writes the
// entry's files, before the list changes.
func (c Collection[T]) Put(one T, keep func() error) error {
	return c.change("add", one.Key(), func(list []T) ([]T, error) {
		list = append(Without(list, one.Key()), one)
		slices.SortFunc(list, func(x, y T) int { return strings.Compare(x.Key(), y.Key()) })
		return list, keep()
	})
}

// Remove removes the entry with a name; fault.NotFound.
func (c Collection[T]) Remove(name string) error {
	if _, err := c.Find(name); err != nil {
		return err
	}
	return c.change("remove", name, func(list []T) ([]T, error) { return Without(list, name), nil })
}

// Without gives a copy of a list that lacks the entry with a name.
func Without[T Named](list []T, name string) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return x.Key() == name })
}

// change changes the list under its lock, records the change, and removes unused files.
func (c Collection[T]) change(verb, name string, change func([]T) ([]T, error)) error {
	return c.Home.Locked(strings.TrimSuffix(c.File, ".json")+".lock", func() error {
		was, err := c.List()
		if err != nil {
			return err
		}
		list, err := change(was)
		if err != nil {
			return err
		}
		about := ledger.OperatorAction{Target: name, Digest: digestIn(list, name), Was: digestIn(was, name)}
		err = c.Home.Recorded(strings.TrimPrefix(c.Command, "remit ")+"."+verb, about, func() error { return c.Home.Write(c.File, list) })
		if err != nil {
			return err
		}
		return c.Sweep(list)
	})
}

func indexOf[T Named](list []T, name string) int {
	return slices.IndexFunc(list, func(x T) bool { return x.Key() == name })
}

// digestIn is the digest of a name's entry, "" if the list has none.
func digestIn[T Named](list []T, name string) string {
	i := indexOf(list, name)
	if i < 0 {
		return ""
	}
	return StateDigest(list[i], true)
}
