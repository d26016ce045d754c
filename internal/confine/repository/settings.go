package repository

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is the role of a value.
type kind uint8

const (
	included kind = iota // a file with more settings
	hooks                // a folder with programs
	named                // a file or folder that Git reads
	program              // a command line
	worktree             // the folder of the repository's files

	// of a repository's own folder
	common // where its settings are
	nested // it has worktrees or modules
	own    // it has settings of its worktree
)

// named values of one file of settings.
type value struct {
	kind kind
	text string
}

// programs are keys of any section with a command line that Git runs by itself. Aliases are not: a person asks for each.
var programs = strings.Fields(`fsmonitor editor pager sshcommand askpass gitproxy alternaterefscommand program defaultkeycommand
	external command textconv cmd driver clean smudge process helper difffilter packobjectshook uploadpack receivepack
	browser tunnel sendmailcmd tocmd cccmd headercmd update httpd`)

// meaning classifies a setting; ok is false for a harmless one.
func (s setting) meaning() (v value, ok bool) {
	v.text = s.value
	switch {
	case (s.section == "include" || s.section == "includeif") && s.key == "path":
		v.kind = included
	case s.section == "core" && s.key == "hookspath":
		v.kind = hooks
	case s.section == "core" && s.key == "worktree":
		v.kind = worktree
	case s.section == "core" && s.key == "attributesfile", s.section == "init" && s.key == "templatedir":
		v.kind = named
	case s.section == "pager", slices.Contains(programs, s.key), s.key == "path" && slices.Contains([]string{"difftool", "mergetool", "browser", "man"}, s.section):
		v.kind = program
	default:
		return v, false
	}
	return v, v.text != ""
}

// maxSettings bounds a file of settings.
const maxSettings = 1 << 20

// readSettings returns the values of a file that are not harmless.
func readSettings(p string) (out []value) {
	for _, s := range parse(settingsText(p)) {
		if v, ok := s.meaning(); ok {
			out = append(out, v)
		}
	}
	return out
}

// readLinks gives the files that links in a folder of hooks lead to.
func readLinks(p string) (out []value) {
	for _, name := range list(p) {
		if to, err := os.Readlink(path.Join(p, name)); err == nil {
			out = append(out, value{named, absolute(p, to, "")})
		}
	}
	return out
}

// reads are the results of earlier reads, each for as long as the file is the same. A file that changed just now is
// not kept: its next change could have the same time.
type reads struct {
	lock  sync.Mutex
	files map[string]reading
}

type reading struct {
	of     identity
	values []value
}

type identity struct {
	dev, ino           uint64
	size, mtime, ctime int64 // in nanoseconds
}

// file is what a path leads to.
type file struct {
	of              identity
	folder, regular bool
}

const (
	maxReads  = 1000
	sameTime  = time.Second
	maxNested = 10 // files of settings that include each other, as in Git
)

// cached returns the result of read for a path, from an earlier call if the file is the same.
func (r *reads) cached(p string, read func(string) []value) []value {
	f, ok := stat(p)
	if !ok {
		return nil
	}
	r.lock.Lock()
	had, ok := r.files[p]
	r.lock.Unlock()
	if ok && had.of == f.of {
		return had.values
	}
	values := read(p)
	if time.Since(time.Unix(0, f.of.ctime)) < sameTime {
		return values
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.files == nil || len(r.files) >= maxReads {
		r.files = map[string]reading{}
	}
	r.files[p] = reading{f.of, values}
	return values
}

// absolute makes a path of one in a setting, which is relative to a folder.
func absolute(dir, p, home string) string {
	switch rest, ok := strings.CutPrefix(p, "~/"); {
	case ok && home != "":
		return path.Join(home, rest)
	case path.IsAbs(p):
		return path.Clean(p)
	}
	return path.Join(dir, p)
}

// fixed reports whether a path in a setting is relative to no folder of a repository.
func fixed(p string) bool { return path.IsAbs(p) || strings.HasPrefix(p, "~/") }

// real resolves the links of a path as far as it exists.
func real(p string) string {
	rest := ""
	for dir := p; ; dir = path.Dir(dir) {
		if at, err := filepath.EvalSymlinks(dir); err == nil {
			return path.Join(at, rest)
		}
		if dir == "/" || dir == "." {
			return p
		}
		rest = path.Join(path.Base(dir), rest)
	}
}
