package changeset

// OnPoint has f told at every step of the set's journals, for tests.
func (s *Set) OnPoint(f func(string)) { s.home.point = f }

// At gives a home whose journals tell f of every step, for tests.
func (h Home) At(f func(string)) Home {
	h.point = f
	return h
}
