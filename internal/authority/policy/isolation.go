package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// isolationSettings are the keys for the confinement of commands and of what comes back from calls.
type isolationSettings struct {
	system string // "", "minimal" or "standard"
	least  string // isolation: "", "full", "landlock" or "none"
	tier   string // sandbox.tier: "", "fresh" or "session"
	home   string // sandbox.home: "", "fresh" or "kept"
	keys   string // output.keys: "", "mask" or "show"
}

func (s *isolationSettings) settings() []setting {
	return []setting{
		choice("system", &s.system, "minimal", "standard"),
		choice("isolation", &s.least, "full", "landlock", "none"),
		mapping("sandbox", choice("tier", &s.tier, "fresh", "session"), choice("home", &s.home, "fresh", "kept")),
		mapping("output", choice("keys", &s.keys, "mask", "show")),
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

// Isolation is the least isolation of commands: the strictest one that a link names.
// A link that names none stands for full isolation, unless it leaves missing
// sections to the others.
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

// ShowsKeys reports whether known formats of keys are shown in what the actions return to a model: every link says so, or
// spells the name of a file that one of the actions reads or a command's words name.
func (c Chain) ShowsKeys(actions []tool.Action) bool {
	if c.says("show", func(s isolationSettings) string { return s.keys }) {
		return true
	}
	for i := range actions {
		a := &actions[i]
		if a.Kind == tool.FileRead && c.spellsFile(cmp.Or(a.Real, a.Path)) {
			return true
		}
		for _, word := range a.Argv {
			if !path.IsAbs(word) {
				word = path.Join(a.Dir, word)
			}
			if a.Kind == tool.Command && c.spellsFile(path.Clean(word)) {
				return true
			}
		}
	}
	return false
}

// spellsFile reports whether each link has an entry of files.read that spells the name of a file, or leaves it to the others.
func (c Chain) spellsFile(p string) (spelled bool) {
	needs := make([]glob.Need, strings.Count(p, "/"))
	if len(needs) == 0 {
		return false
	}
	needs[len(needs)-1] = glob.Literal
	for _, r := range c {
		if r == nil || r.policy == nil {
			return false
		}
		s := &r.sections[readSection]
		if s.inherits {
			continue
		}
		if !slices.ContainsFunc(s.lists[Allow], func(b boundEntry) bool {
			return namesFile(b.pattern) && b.pattern.(*filePattern).exact.MatchSpelled(p, needs)
		}) {
			return false
		}
		spelled = true
	}
	return spelled
}

// namesFile reports whether a pattern can spell the name of a file. One that ends with ** is about all files of a folder, and
// matches the folder, too.
func namesFile(p pattern) bool {
	text := p.String()
	return !strings.HasSuffix(text, "**") && !strings.Contains(text, "**,") && !strings.Contains(text, "**}")
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
