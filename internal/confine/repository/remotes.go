package repository

import (
	"fmt"
	"slices"
	"strings"
)

// Readdressed describes the first change of a configuration by which a person's Git would push to another place, or
// overwrite branches when it fetches; "": there is none. Such changes are another address of a remote, another remote of a
// branch, and a fetch to other names than refs/remotes. A new remote is not such a change, nor is the remote of a branch that
// had none. worktree: the configuration is of one worktree, and wins over that of the repository, so it must set neither.
func Readdressed(was, now string, worktree bool) string {
	before, after := parse(was), parse(now)
	for _, s := range before {
		old, set := valuesOf(before, s), valuesOf(after, s)
		switch {
		case slices.Equal(old, set):
		case slices.Contains(addresses, s.key) && (s.section == "remote" || s.section == "url"), s.section == "branch" && s.key == "pushremote":
			return fmt.Sprintf("it changes or removes %s, by which Git finds the remote", s.name())
		case s.section == "branch" && s.key == "remote" && len(set) > 0 && !slices.Equal(set, []string{"."}):
			return fmt.Sprintf("it leads the branch %q to another remote", s.sub)
		}
	}
	for _, s := range after {
		switch {
		case slices.Contains(valuesOf(before, s), s.value):
		case worktree && (s.section == "remote" || s.section == "branch"):
			return fmt.Sprintf("it sets %s for one worktree alone", s.name())
		case s.section == "remote" && s.key == "pushurl" && len(valuesOf(before, setting{section: "remote", sub: s.sub, key: "url"})) > 0:
			return fmt.Sprintf("it changes the address of the remote %q for pushes", s.sub)
		case s.section == "remote" && s.key == "fetch" && was != "" && !tracks(s.value):
			return fmt.Sprintf("a fetch from the remote %q would write outside of refs/remotes", s.sub)
		}
	}
	return ""
}

// addresses are the keys of the sections remote and url by which Git finds a remote.
var addresses = []string{"url", "pushurl", "pushdefault", "insteadof", "pushinsteadof"}

// name is a setting's name as git config takes it.
func (s setting) name() string {
	if s.sub == "" {
		return s.section + "." + s.key
	}
	return s.section + "." + s.sub + "." + s.key
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
