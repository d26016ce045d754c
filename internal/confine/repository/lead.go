// Package repository finds the files that Git runs, or takes settings from, because settings of a repository or of
// the person name them: what core.hooksPath, include.path or a filter leads to. Such a file is as good as one in
// .git/hooks. Start at [New].
//
// It looks at the moment of use, since a person's Git changes settings while commands run. Conditions of includes
// are not regarded: each counts as true.
package repository

import (
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// Finder finds what settings lead to.
type Finder struct {
	reads
	persons []string // files of settings that hold for all repositories
	home    string
	beside  string // a folder in which repositories lie side by side
	besides func() []string
	above   func() []string // folders around the workspace that are repositories
}

// New makes a finder for a person's home folder and a workspace; "": there is none. What the settings of
// repositories directly in the workspace lead to is found once, that of the repositories around a path each time.
func New(home, workspace string) *Finder {
	f := &Finder{home: home, beside: workspace}
	for _, p := range []string{"/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig"} {
		if exists(p) {
			f.persons = append(f.persons, p)
		}
	}
	if home != "" {
		f.persons = append(f.persons, home+"/.config/git/config", home+"/.gitconfig")
	}
	f.besides = sync.OnceValue(f.lookBeside)
	f.above = sync.OnceValue(f.lookAbove)
	return f
}

// inside reports whether a folder is looked at each time: it is not around the workspace.
func (f *Finder) inside(dir string) bool { return dir == f.beside || !within(dir, f.beside) }

func (f *Finder) lookAbove() (out []string) {
	for dir := f.beside; !f.inside(path.Dir(dir)); {
		if dir = path.Dir(dir); gitFolder(dir) != "" {
			out = append(out, dir)
		}
		if dir == "/" {
			break
		}
	}
	return out
}

// Lead returns the path, p or a folder above it, that settings name, or that makes or steers a repository without
// a .git; "": there is none.
func (f *Finder) Lead(p string) (lead string) {
	if l := steered(p); l != "" {
		return l
	}
	f.each(p, func(l string) bool {
		if within(l, p) && (lead == "" || len(l) < len(lead)) {
			lead = l
		}
		return true
	})
	return lead
}

// Below returns a path below p that settings name; "": they name none.
func (f *Finder) Below(p string) (lead string) {
	f.each(p, func(l string) bool {
		if l != p && within(p, l) {
			lead = l
		}
		return lead == ""
	})
	return lead
}

// HoldsFiles reports whether settings of the repositories around a path put the files of one there, or below it.
func (f *Finder) HoldsFiles(p string) (holds bool) {
	w := walker{Finder: f, tell: func(string) bool { return true }, files: func(at string) { holds = holds || within(p, at) }}
	w.around(p)
	return holds
}

// Any reports whether the settings that decide about a path name anything in the folder.
func (f *Finder) Any(p string) (any bool) {
	f.each(p, func(string) bool { any = true; return false })
	return any
}

// Around reports whether settings of the repositories around a path name anything, not those of a person.
func (f *Finder) Around(p string) (any bool) {
	w := walker{Finder: f, tell: func(string) bool { any = true; return false }}
	w.around(p)
	return any
}

// around goes through the settings of the repositories around a path.
func (w *walker) around(p string) {
	for dir := p; dir != path.Dir(dir) && !w.over; {
		dir = path.Dir(dir)
		w.repository(dir)
	}
}

// Outward returns a path outside of a folder that settings of the repository in it, or in a folder of it, name.
func (f *Finder) Outward(dir string) (lead string) {
	w := walker{Finder: f, tell: func(l string) bool {
		if !within(dir, l) {
			lead = l
		}
		return lead == ""
	}}
	w.repository(dir)
	w.beneath(dir)
	return lead
}

// Overlap reports whether one of two folders is in the other.
func Overlap(a, b string) bool { return within(a, b) || within(b, a) }

func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// each tells what settings name, as far as they hold for repositories around a path, until tell returns false.
func (f *Finder) each(p string, tell func(lead string) bool) {
	w := walker{Finder: f, tell: tell}
	var around []string
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		around = append(around, dir)
		if f.inside(dir) || slices.Contains(f.above(), dir) {
			w.repository(dir)
		}
		if dir == "/" || dir == "." {
			break
		}
	}
	w.users = true
	for _, u := range f.persons {
		w.settings(u, w.cached(u, readSettings), around, 0) // a repository can be made in any folder
	}
	for _, l := range f.besides() {
		w.lead(l)
	}
}

// lookBeside gives what settings of repositories in folders of the workspace name.
func (f *Finder) lookBeside() (out []string) {
	if f.beside == "" {
		return nil
	}
	w := walker{Finder: f, tell: func(l string) bool { out = append(out, l); return true }}
	w.beneath(f.beside)
	return out
}

// beneath goes through the settings of the repositories in the folders of a folder.
func (w *walker) beneath(dir string) {
	for _, name := range list(dir) {
		w.repository(path.Join(dir, name))
	}
}

// walker goes through settings.
type walker struct {
	*Finder
	tell  func(lead string) bool
	over  bool
	users bool            // the settings are those of a person
	files func(at string) // is told where core.worktree is; nil: nobody is
}

func (w *walker) lead(l string) { w.over = w.over || !w.tell(l) }

// path tells a path that a setting names, and where it really is.
func (w *walker) path(p string) {
	w.lead(p)
	if at := real(p); at != p {
		w.lead(at)
	}
}

// repository goes through the settings of the repository whose files are in a folder, and of those in it.
func (w *walker) repository(dir string) {
	git := gitFolder(dir)
	if git == "" {
		return
	}
	at, hasNested, hasOwn := w.shape(git)
	w.gitFolder(git, at, hasOwn, []string{dir})
	if !hasNested {
		return
	}
	for _, name := range list(at + "/worktrees") {
		own := path.Join(at, "worktrees", name)
		if to := firstLine(own + "/gitdir"); to != "" {
			at, _, hasOwn := w.shape(own)
			w.gitFolder(own, at, hasOwn, []string{path.Dir(absolute(own, to, ""))})
		}
	}
	w.modules(at+"/modules", 0)
}

// modules goes through the settings of submodules, whose names can have slashes.
func (w *walker) modules(dir string, depth int) {
	for _, name := range list(dir) {
		switch git := path.Join(dir, name); {
		case exists(git + "/HEAD"):
			at, _, hasOwn := w.shape(git)
			w.gitFolder(git, at, hasOwn, nil)
			w.modules(git+"/modules", depth+1)
		case depth < maxNested:
			w.modules(git, depth+1)
		}
	}
}

// gitFolder goes through the settings of a repository by its own folder. roots are folders that its files are in.
// at is where its settings are.
func (w *walker) gitFolder(git, at string, hasOwn bool, roots []string) {
	settings := [][]value{w.cached(at+"/config", readSettings)}
	files := []string{at + "/config"}
	if hasOwn {
		settings, files = append(settings, w.cached(git+"/config.worktree", readSettings)), append(files, git+"/config.worktree")
	}
	for _, v := range slices.Concat(settings...) {
		if v.kind == worktree {
			roots = append(slices.Clip(roots), absolute(git, v.text, w.home))
			if w.files != nil {
				w.files(roots[len(roots)-1])
			}
		}
	}
	if len(roots) == 0 {
		roots = []string{git}
	}
	for i, values := range settings {
		w.settings(files[i], values, roots, 0)
	}
	w.links(at + "/hooks")
}

// settings goes through the values of a file of settings, for repositories in folders.
func (w *walker) settings(file string, values []value, roots []string, nested int) {
	for _, v := range values {
		if w.over {
			return
		}
		switch v.kind {
		case included:
			if at := absolute(path.Dir(file), v.text, w.home); nested < maxNested && !within(at, roots[0]) {
				w.path(at)
				w.settings(at, w.cached(at, readSettings), roots, nested+1)
			}
		case named:
			if at := absolute(roots[0], v.text, w.home); !within(at, roots[0]) {
				w.path(at)
			}
		case hooks:
			for i, root := range roots {
				if i == 0 || !fixed(v.text) {
					w.hooks(root, absolute(root, v.text, w.home))
				}
			}
		case program:
			for i, root := range roots {
				w.program(root, v.text, i == 0)
			}
		}
	}
}

// hookNames are those that Git looks for in a folder of hooks.
var hookNames = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
	pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction
	push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist
	p4-post-changelist p4-pre-submit post-index-change`)

// hooks tells a folder of hooks. Of one that has the repository's files in it, only names of hooks count.
func (w *walker) hooks(root, dir string) {
	if path.Base(dir) == "_" { // Husky's, whose programs start those in the folder around it
		dir = path.Dir(dir)
	}
	if !within(dir, root) {
		w.path(dir)
	} else {
		for _, name := range hookNames {
			w.path(path.Join(dir, name))
		}
	}
	w.links(dir)
}

// links tells where links in a folder of hooks lead.
func (w *walker) links(dir string) {
	for _, v := range w.cached(dir, readLinks) {
		w.path(v.text)
	}
}

// program tells the files that a command line names: a shell starts it in the folder of the repository's files.
// Absolute paths are told with first.
func (w *walker) program(root, line string, first bool) {
	const others = " \t\r\n'\"`$(){};&|<>=!,\\"
	for at := 0; at < len(line); {
		n := strings.IndexAny(line[at:], others)
		if n < 0 {
			n = len(line) - at
		}
		word := line[at : at+n]
		switch {
		case word == "" || word[0] == '-' || word[0] == '%':
		case word[0] == '/' && at > 0 && strings.IndexByte(")}\"", line[at-1]) >= 0: // the name of the folder is before it
			w.file(root, path.Join(root, word), true)
		case fixed(word):
			if first {
				w.file(root, absolute(root, word, w.home), true)
			}
		case !w.users || strings.Contains(word, "/"):
			w.file(root, path.Join(root, word), strings.Contains(word, "/"))
		}
		at += n + 1
	}
}

// file tells a path that can be a program. Without certain, only a file that exists is one.
func (w *walker) file(root, p string, certain bool) {
	st, err := os.Stat(p)
	if !within(p, root) && (err == nil && st.Mode().IsRegular() || err != nil && certain) {
		w.path(p)
	}
}
