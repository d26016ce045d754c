package repository

import (
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// gitFolder is the repository's own folder of the one whose files are in a folder: its .git, or where a file
// .git leads. "": there is none.
func gitFolder(dir string) string {
	at := strings.TrimSuffix(dir, "/") + "/.git"
	f, ok := stat(at)
	switch {
	case !ok:
		return ""
	case f.folder:
		return at
	}
	if to, ok := strings.CutPrefix(firstLine(at), "gitdir: "); ok {
		return absolute(dir, to, "")
	}
	return ""
}

// shape describes a repository's own folder. at is the folder of its settings and hooks, which a linked worktree
// shares with others.
func (r *reads) shape(git string) (at string, hasNested, hasOwn bool) {
	at = git
	for _, v := range r.cached(git, readShape) {
		switch v.kind {
		case common:
			at = v.text
		case nested:
			hasNested = true
		case own:
			hasOwn = true
		}
	}
	return at, hasNested, hasOwn
}

func readShape(git string) (out []value) {
	at := git
	if to := firstLine(git + "/commondir"); to != "" {
		at = absolute(git, to, "")
		out = append(out, value{common, at})
	}
	if exists(at+"/worktrees") || exists(at+"/modules") {
		out = append(out, value{nested, at})
	}
	if exists(git + "/config.worktree") {
		out = append(out, value{own, git})
	}
	return out
}

// firstLine reads a short file without its line break.
func firstLine(p string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	const most = 4 << 10
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\r\n")
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// maxListed bounds the worktrees or submodules that are looked at.
const maxListed = 1000

func list(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()      // it was only read
	names, _ := f.Readdirnames(maxListed) // names that cannot be listed are not found
	return names
}

// steering are names in a repository's own folder that decide what Git runs there.
var steering = []string{"hooks", "config", "config.worktree", "commondir", "modules", "worktrees"}

// Is reports whether Git takes a folder for a repository's own: a bare one, or the .git of another folder. also
// says which names count although they are not there; nil: none.
func Is(dir string, also func(name string) bool) bool {
	has := func(name string) bool { return also != nil && also(name) || exists(dir+"/"+name) }
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

// Parts are the names that make a folder a repository's own.
var Parts = []string{"HEAD", "objects", "refs", "commondir"}

// Part returns the one of [Parts] that is the last name of a path, in any case of letters; "": none is.
func Part(p string) string {
	for _, name := range Parts {
		if strings.EqualFold(name, path.Base(p)) {
			return name
		}
	}
	return ""
}

// Completes reports whether the last name of a path would make its folder a repository's own. A .git is one from the
// beginning. also is as for [Is].
func Completes(p string, also func(name string) bool) bool {
	dir, name := path.Dir(p), Part(p)
	return name != "" && !strings.EqualFold(path.Base(dir), ".git") && !Is(dir, also) &&
		Is(dir, func(n string) bool { return n == name || also != nil && also(n) })
}

// Begins reports whether the last name of a path is HEAD, outside of a .git. Without a HEAD, Git takes no folder for a
// repository's own.
func Begins(p string) bool {
	return Part(p) == "HEAD" && !strings.EqualFold(path.Base(path.Dir(p)), ".git")
}

// steered returns p, or the folder above it, that decides what Git runs in a repository without a .git; "": none does.
func steered(p string) string {
	for at := 1; at < len(p); {
		end := strings.IndexByte(p[at:], '/')
		if end < 0 {
			end = len(p) - at
		}
		name := p[at : at+end]
		decides := slices.ContainsFunc(steering, func(s string) bool { return strings.EqualFold(s, name) }) ||
			strings.EqualFold(name, "info") && strings.EqualFold(path.Base(p), "attributes")
		if dir := p[:at-1]; decides && !strings.EqualFold(path.Base(dir), ".git") && Is(dir, nil) {
			return p[:at+end]
		}
		at += end + 1
	}
	if Completes(p, nil) {
		return p
	}
	return ""
}
