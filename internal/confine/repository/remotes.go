package repository

import (
	"fmt"
	"slices"
	"strings"
)

// Readdressed says to what a changed configuration leads a person's Git that it did not lead to before: another
// address of a remote or another remote of a branch that had one, or branches that a fetch would overwrite. It is "" if
// there is no such change. New remotes, and remotes of new branches, are none.
func Readdressed(was, now string) string {
	before, after := parse(was), parse(now)
	for _, s := range before {
		old, set := valuesOf(before, s), valuesOf(after, s)
		switch {
		case s.sub == "" || s.section != "remote" && s.section != "branch":
		case s.section == "remote" && s.key == "url" && !slices.Equal(old, set):
			return fmt.Sprintf("it changes or removes the address of the remote %q", s.sub)
		case s.section == "branch" && s.key == "remote" && len(set) > 0 && !slices.Equal(old, set) && !slices.Equal(set, []string{"."}):
			return fmt.Sprintf("it leads the branch %q to another remote", s.sub)
		}
	}
	for _, s := range after {
		old := valuesOf(before, s)
		switch {
		case s.section != "remote" || slices.Contains(old, s.value):
		case s.key == "pushurl" && len(valuesOf(before, setting{section: "remote", sub: s.sub, key: "url"})) > 0:
			return fmt.Sprintf("it changes the address of the remote %q for pushes", s.sub)
		case s.key == "fetch" && was != "" && !tracks(s.value):
			return fmt.Sprintf("a fetch from the remote %q would write outside of refs/remotes", s.sub)
		}
	}
	return ""
}

// HasRemote reports whether a configuration has the address of a remote.
func HasRemote(text string) bool {
	return slices.ContainsFunc(parse(text), func(s setting) bool { return s.section == "remote" && s.key == "url" })
}

// tracks reports whether what a fetch takes goes to the branches of remotes, or is left out.
func tracks(refspec string) bool {
	_, to, ok := strings.Cut(refspec, ":")
	return strings.HasPrefix(refspec, "^") && !ok || strings.HasPrefix(to, "refs/remotes/")
}

func valuesOf(all []setting, of setting) (out []string) {
	for _, s := range all {
		if s.section == of.section && s.sub == of.sub && s.key == of.key {
			out = append(out, s.value)
		}
	}
	return out
}
