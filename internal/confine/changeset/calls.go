package changeset

import "path/filepath"

// Await notes, before the review, that held calls wait besides the files.
func (s *Set) Await() { s.meta.Calls = true }

// Settle notes that no held call waits any more. The changeset is then over if all of its
// files are applied.
func (s *Set) Settle() error {
	return s.locked(func() error {
		if !s.meta.Calls || s.meta.State != Review {
			return nil
		}
		s.meta.Calls = false
		if err := s.over(); err != nil {
			return err
		}
		return s.tidy()
	})
}

// Exclusive does something while no other process does on the held calls of the changeset.
func (s *Set) Exclusive(do func() error) error {
	unlock, err := s.home.lock(filepath.Join(s.dir(), "calls.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}
