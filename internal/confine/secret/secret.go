// Package secret keeps named values that people give Remit to use for them: in
// the keyring of the operating system where one works, else in a file that is
// encrypted with age. Start at [Store].
//
// The key of the file lies beside it, in a file that only its owner can read.
// That keeps values out of backups without keys/, out of searches and views by
// accident, and away from other users. It does not keep them from
// programs of the same user outside of Remit's sandbox.
package secret

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Bounds of names and values.
const (
	MaxValue = 64 << 10 // bytes of one value
	MinValue = 8        // bytes: a shorter value could not be told from common words where it is masked
	MaxNames = 256      // values kept
)

// Place says where a value is kept.
type Place string

// The places.
const (
	Keyring Place = "keyring" // of the operating system
	File    Place = "file"    // secrets.age
)

// Entry is a kept value as it may be shown: without the value.
type Entry struct {
	Name string    `json:"name"`
	Set  time.Time `json:"set"` // when the value was last set
	In   Place     `json:"in"`
}

// Store keeps values below one folder. It is safe for concurrent use, also by
// several processes. Nothing is read before it is asked for.
type Store struct {
	dir  string
	ring Ring // nil: there is none
}

// Open gives the store of a folder, $REMIT_HOME. Values are set in ring where it
// works; nil means that there is none.
func Open(dir string, ring Ring) *Store { return &Store{dir: dir, ring: ring} }

var nameForm = regex.Lazy(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// CheckName returns the fault of a name. Valid are lower-case words of letters and
// digits with hyphens or underscores between them, at most 64 bytes.
func CheckName(name string) error {
	if len(name) > 64 || !nameForm.MatchString(name) {
		return fmt.Errorf("%.80q is not a valid secret name; expected lower-case words, such as github or github-ci", name)
	}
	return nil
}

// CheckValue returns the fault of a value, without the value.
func CheckValue(value string) error {
	switch {
	case len(value) < MinValue:
		return fmt.Errorf("the value has fewer than %d bytes: so short a one cannot be masked where it comes back", MinValue)
	case len(value) > MaxValue:
		return fmt.Errorf("the value has more than %d bytes", MaxValue)
	case !utf8.ValidString(value):
		return fmt.Errorf("the value is not UTF-8 text")
	}
	for i := 0; i < len(value); i++ {
		if value[i] == 0 {
			return fmt.Errorf("the value holds a NUL byte")
		}
	}
	return nil
}

// Check reports what keeps Set from taking a name and a value.
func Check(name, value string) error {
	if err := CheckName(name); err != nil {
		return fault.New(fault.Usage, "%v", err)
	}
	if err := CheckValue(value); err != nil {
		return fault.New(fault.Usage, "the secret %q is not kept: %v", name, err)
	}
	return nil
}

// Set keeps a value under a name, in place of an earlier one, and returns its place. A
// keyring that fails, or does not take so large a value, is not used.
func (s *Store) Set(name, value string, now time.Time) (Entry, error) {
	if err := Check(name, value); err != nil {
		return Entry{}, err
	}
	unlock, err := s.lock()
	if err != nil {
		return Entry{}, err
	}
	defer unlock()
	kept, err := s.read()
	if err != nil {
		return Entry{}, err
	}
	r := record{Entry: Entry{Name: name, Set: now.UTC().Truncate(time.Second), In: File}, Value: value}
	if s.ring != nil && s.ring.Set(name, value) == nil {
		r.In, r.Value = Keyring, ""
	}
	i := slices.IndexFunc(kept, func(k record) bool { return k.Name == name })
	switch {
	case i >= 0:
		if kept[i].In == Keyring && r.In == File && s.ring != nil {
			_ = s.ring.Remove(name) // an old value that stays there is never read
		}
		kept[i] = r
	case len(kept) >= MaxNames:
		return Entry{}, fault.New(fault.Usage, "%d secrets are kept already", MaxNames).ForOperator("remove one with remit secret remove NAME")
	default:
		kept = append(kept, r)
	}
	return r.Entry, s.write(kept)
}

// Remove forgets a name and its value.
func (s *Store) Remove(name string) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	kept, err := s.read()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(kept, func(k record) bool { return k.Name == name })
	if i < 0 {
		return unknown(name)
	}
	if kept[i].In == Keyring {
		if s.ring == nil {
			return locked(name, nil)
		}
		if err := s.ring.Remove(name); err != nil {
			return locked(name, err)
		}
	}
	return s.write(slices.Delete(kept, i, i+1))
}

// List returns the kept secrets, by name.
func (s *Store) List() ([]Entry, error) {
	kept, err := s.read()
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(kept))
	for i, k := range kept {
		out[i] = k.Entry
	}
	return out, nil
}

// Get gives the value of a name. One that is not kept is fault.NotFound, one
// that cannot be read fault.StoreFailed.
func (s *Store) Get(name string) (string, error) {
	kept, err := s.read()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(kept, func(k record) bool { return k.Name == name })
	if i < 0 {
		return "", unknown(name)
	}
	return s.value(kept[i])
}

// All gives every value by its name. Where nothing is kept it costs one look
// whether the file is there.
func (s *Store) All() (map[string]string, error) {
	kept, err := s.read()
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	out := make(map[string]string, len(kept))
	for _, k := range kept {
		if out[k.Name], err = s.value(k); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Store) value(k record) (string, error) {
	if k.In != Keyring {
		return k.Value, nil
	}
	if s.ring == nil {
		return "", locked(k.Name, nil)
	}
	v, err := s.ring.Get(k.Name)
	if err == nil {
		err = CheckValue(v)
	}
	if err != nil {
		return "", locked(k.Name, err)
	}
	return v, nil
}

func unknown(name string) error {
	return fault.New(fault.NotFound, "no secret is called %.80q", name).ForOperator("list them with remit secret list; store one with remit secret set NAME")
}

func locked(name string, err error) error {
	return fault.Wrap(fault.StoreFailed, err, "the secret %q is in the system's keyring, which cannot be used now", name).
		WithHint("unlock the keyring, or set the secret again")
}
