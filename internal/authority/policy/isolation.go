package policy

// isolationSettings are the keys for the confinement of commands.
type isolationSettings struct {
	system string // "", "minimal" or "standard"
	least  string // isolation: "", "full", "landlock" or "none"
	tier   string // sandbox.tier: "", "fresh" or "session"
	home   string // sandbox.home: "", "fresh" or "kept"
}

func (s *isolationSettings) settings() []setting {
	return []setting{
		choice("system", &s.system, "minimal", "standard"),
		choice("isolation", &s.least, "full", "landlock", "none"),
		mapping("sandbox", choice("tier", &s.tier, "fresh", "session"), choice("home", &s.home, "fresh", "kept")),
	}
}

// Isolation is the least confinement that a command needs to run. Stricter ones
// are greater. The zero Isolation requires all layers, see [Chain.Isolation].
type Isolation int8

// The kinds of isolation, the strictest first.
const (
	FullIsolation     Isolation = 0  // namespaces, mounts, Landlock, seccomp and limits
	LandlockIsolation Isolation = -1 // Landlock, seccomp and limits; on macOS Seatbelt
	NoIsolation       Isolation = -2 // limits and a clean environment
)

// String gives the word that policies use.
func (i Isolation) String() string {
	switch i {
	case LandlockIsolation:
		return "landlock"
	case NoIsolation:
		return "none"
	}
	return "full"
}

// Isolation is the least that commands may be run under: the strictest that a
// link names. A link that names none stands for full isolation, unless it leaves
// what it does not mention to the others.
func (c Chain) Isolation() Isolation {
	least, said := NoIsolation, false
	for _, r := range c {
		if r == nil || r.policy == nil {
			return FullIsolation
		}
		d := r.policy.content()
		if d.isolation.least == "" && d.inherit {
			continue
		}
		said = true
		least = max(least, map[string]Isolation{"landlock": LandlockIsolation, "none": NoIsolation}[d.isolation.least])
	}
	if !said {
		return FullIsolation
	}
	return least
}

// SessionTier reports whether commands may follow each other in one sandbox:
// every link says so, or leaves it to the others.
func (c Chain) SessionTier() bool {
	return c.says("session", func(s isolationSettings) string { return s.tier })
}

// FreshTier reports whether a link says that every command has a sandbox of its own.
func (c Chain) FreshTier() bool {
	for _, r := range c {
		if r == nil || r.policy == nil || r.policy.content().isolation.tier == "fresh" {
			return true
		}
	}
	return false
}

// KeepsHome reports whether the home folder of commands is kept for the next ones:
// every link says so, or leaves it to the others.
func (c Chain) KeepsHome() bool {
	return c.says("kept", func(s isolationSettings) string { return s.home })
}

// StandardSystem reports whether commands see the standard system and not only
// the minimal one: every link says so, or leaves it to the others.
func (c Chain) StandardSystem() bool {
	return c.says("standard", func(s isolationSettings) string { return s.system })
}

// says reports whether a link gives a setting this value, and none gives it another or leaves it at its default.
func (c Chain) says(value string, of func(isolationSettings) string) (said bool) {
	for _, r := range c {
		if r == nil || r.policy == nil {
			return false
		}
		d := r.policy.content()
		if got := of(d.isolation); got == value {
			said = true
		} else if got != "" || !d.inherit {
			return false
		}
	}
	return said
}
