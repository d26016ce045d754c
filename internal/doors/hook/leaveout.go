package hook

import (
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
)

// maxLeftOut bounds the names that are left out of a search.
const maxLeftOut = 50

var plainName = regex.Lazy(`^[A-Za-z0-9._-]+$`)

// CanLeaveOut reports whether the agent can be told to leave names out of a search.
func (e *Event) CanLeaveOut() bool { return e.narrow && len(e.Search) > 0 }

// LeaveOut has a search leave out all files of some names. It returns false if the agent cannot be told so, or if the search is
// for one of these names.
func (e *Event) LeaveOut(names []string) bool {
	glob, err := e.input.text("glob")
	if !e.narrow || err != nil || len(names) > maxLeftOut ||
		slices.ContainsFunc(names, func(name string) bool { return !plainName.MatchString(name) || strings.Contains(glob, name) }) {
		return false
	}
	e.input, e.without = maps.Clone(e.input), names
	for _, name := range names {
		glob += " !**/" + name // the agent divides the text at blanks; the last pattern that matches counts
	}
	e.input["glob"] = strings.TrimSpace(glob)
	return true
}
