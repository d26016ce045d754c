package policy

// Opens gives the sections (files.read, network, ...) in which the chain may
// allow something, in the order of the format. Tools that are allowed only
// because no policy mentions any do not count: what they reach does.
func (c Chain) Opens() []string {
	var out []string
	for id := noSection + 1; id < numSections; id++ {
		if c.opens(id) {
			out = append(out, sectionNames[id])
		}
	}
	return out
}

// OpensTools reports whether the chain may allow the call of any tool: one that
// policies name, or a built-in one, which is allowed where none names any.
func (c Chain) OpensTools() bool {
	for _, r := range c {
		if r == nil {
			return false
		}
		s := &r.sections[toolSection]
		if !s.inherits && s.allowSet && len(s.lists[Allow])+len(s.lists[Ask]) == 0 {
			return false
		}
	}
	return len(c) > 0
}

func (c Chain) opens(id sectionID) bool {
	said := false
	for _, r := range c {
		if r == nil {
			return false
		}
		s := &r.sections[id]
		switch {
		case s.inherits:
		case len(s.lists[Allow])+len(s.lists[Ask]) > 0:
			said = true
		case id == toolSection && !s.allowSet: // the built-in ones
		default:
			return false
		}
	}
	return said
}
